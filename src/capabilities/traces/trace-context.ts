/*
 * `traceparent` and `tracestate` as W3C Trace Context (Recommendation, 23 November 2021) has them.
 */

/** The field that names trace, span and flags. */
export const TRACEPARENT = 'traceparent'
/** The field in which each tracing system that is passed keeps what it needs. */
export const TRACESTATE = 'tracestate'

/** What the options say of these fields. */
interface FieldSettings {
  readonly propagation: 'tracecontext' | 'none'
  readonly accept_from: 'trusted_proxies' | 'everyone' | 'none'
}

/** Names of the fields that are taken from trusted peers alone, and of those that are taken from no one. */
export function traceFields({ propagation, accept_from }: FieldSettings): {
  readonly trusted?: readonly string[]
  readonly never?: readonly string[]
} {
  const fields = [TRACEPARENT, TRACESTATE]
  if (propagation === 'none' || accept_from === 'everyone') return {}
  return accept_from === 'none' ? { never: fields } : { trusted: fields }
}

/** What a request says of the trace that it belongs to. Identifiers are hexadecimal digits in lower case, never all zero. */
export interface TraceContext {
  readonly traceId: string
  /** Of the span that made the request. */
  readonly spanId: string
  /** The flags that are known: see `FLAGS`. */
  readonly flags: number
}

/** Bits of the flags that are kept: of others nothing is known, and they are sent as zero (3.3.3). */
export const FLAGS = {
  /** The sender makes spans of the trace. */
  sampled: 0x01,
  /** The last seven bytes of the trace id are random (Level 2). */
  random: 0x02
} as const

const KNOWN_FLAGS = FLAGS.sampled | FLAGS.random

const HYPHEN = 0x2d
const NO_DIGIT = 0x10
/** Values of hexadecimal digits in lower case, by their character in latin1. */
const DIGITS = new Uint8Array(256).fill(NO_DIGIT)
for (let digit = 0; digit < NO_DIGIT; digit++) DIGITS[digit.toString(16).charCodeAt(0)] = digit
const INVALID_VERSION = 'ff'
const KNOWN_VERSION = '00'
/** Where the parts of version 00 begin, and where it ends. */
const AT = { trace: 3, span: 36, flags: 53, end: 55 }

/** What is read last: the characters of a text one by one, or a regular expression, would cost twice as much. */
const read = Buffer.alloc(AT.end) as Buffer & { latin1Write(text: string, offset: number, length: number): number }

/**
 * The flags of a value of `traceparent` (3.2.2 and 4.3), in latin1 as transports give it, that are known; undefined when it is none: one that
 * is malformed, of version ff, with an identifier of zeros, or with more behind version 00 than it has. Of a later version the parts
 * of version 00 count.
 */
export function readFlags(text: string): number | undefined {
  if (text.length < AT.end) return undefined
  if (text.length > AT.end && (text.startsWith(KNOWN_VERSION) || text.charCodeAt(AT.end) !== HYPHEN)) return undefined
  read.latin1Write(text, 0, AT.end)
  if (read[AT.trace - 1] !== HYPHEN || read[AT.span - 1] !== HYPHEN || read[AT.flags - 1] !== HYPHEN) return undefined
  const trace = bitsOf(AT.trace, AT.span - 1)
  const span = bitsOf(AT.span, AT.flags - 1)
  const flags = bitsOf(AT.flags, AT.end)
  if ((bitsOf(0, AT.trace - 1) | trace | span | flags) >= NO_DIGIT || trace === 0 || span === 0) return undefined
  if (text.startsWith(INVALID_VERSION)) return undefined
  return bitsOf(AT.end - 1, AT.end) & KNOWN_FLAGS
}

/** The bits of all hexadecimal digits of a part of what is read; not less than `NO_DIGIT` when another character is among them. */
function bitsOf(from: number, to: number): number {
  let bits = 0
  for (let i = from; i < to; i++) bits |= DIGITS[read[i] as number] as number
  return bits
}

/** The trace id of a value of `traceparent` that is one. */
export function traceIdOf(text: string): string {
  return text.slice(AT.trace, AT.span - 1)
}

/** Reads a value of `traceparent`; undefined when it is none. */
export function parseTraceparent(text: string): TraceContext | undefined {
  const flags = readFlags(text)
  return flags === undefined
    ? undefined
    : { traceId: traceIdOf(text), spanId: text.slice(AT.span, AT.flags - 1), flags }
}

/** Writes a value of `traceparent`, always of version 00. */
export function formatTraceparent({ traceId, spanId, flags }: TraceContext): string {
  return `00-${traceId}-${spanId}-0${flags & KNOWN_FLAGS}`
}

/** Members of a `tracestate` (3.3.1.1), and characters that are passed on at least (3.3.1.5) and here at most. */
const MOST_MEMBERS = 32
const LONGEST_STATE = 512
/** Longer members are left out first where there is no room (3.3.1.5). */
const LONG_MEMBER = 128
/** Of Level 1, and with a digit at its beginning as Level 2 allows. */
const KEY = /^(?:[a-z0-9][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})$/
const VALUE = /^[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/

/**
 * Reads the values of all fields `tracestate` of a request, in their order, and answers the one that is passed on; '' when there is
 * none. One invalid or repeated member, or more than 32, make the whole of it worthless (3.3.1). Members are left out where it is
 * longer than 512 characters: first those of more than 128, then the last ones.
 */
export function readTracestate(values: readonly string[]): string {
  const members: string[] = []
  const keys = new Set<string>()
  for (const value of values) {
    for (const written of value.split(',')) {
      const member = withoutBlanks(written)
      if (member === '') continue
      const equals = member.indexOf('=')
      const key = member.slice(0, equals)
      if (equals === -1 || !KEY.test(key) || !VALUE.test(member.slice(equals + 1)) || keys.has(key)) return ''
      keys.add(key)
      members.push(member)
      if (members.length > MOST_MEMBERS) return ''
    }
  }
  return fitting(members).join(',')
}

/** Removes optional white space (RFC 9110 5.6.3) at both ends. */
function withoutBlanks(text: string): string {
  let start = 0
  let end = text.length
  while (start < end && isBlank(text.charCodeAt(start))) start++
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--
  return text.slice(start, end)
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09
}

function fitting(members: string[]): string[] {
  const length = (list: readonly string[]) => list.reduce((sum, member) => sum + member.length + 1, -1)
  let kept = members
  for (let i = members.length - 1; i >= 0 && length(kept) > LONGEST_STATE; i--) {
    if ((members[i] as string).length > LONG_MEMBER) kept = kept.filter((member) => member !== members[i])
  }
  while (length(kept) > LONGEST_STATE) kept = kept.slice(0, -1)
  return kept
}
