/*
 * `traceparent` and `tracestate` as W3C Trace Context (Recommendation, 23 November 2021) has them.
 */

/** The field that names trace, span and flags. */
export const TRACEPARENT = 'traceparent'
/** Header field with the data of other tracing systems. */
export const TRACESTATE = 'tracestate'

/** Options for these fields. */
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

/** Trace context of a request. Identifiers are lower-case hexadecimal digits, never all zero. */
export interface TraceContext {
  readonly traceId: string
  /** Id of the span that made the request. */
  readonly spanId: string
  /** The flags that are known: see `FLAGS`. */
  readonly flags: number
}

/** Known bits of the flags; unknown bits are sent as zero (3.3.3). */
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
/** Offsets of the parts of version 00, and its length. */
const AT = { trace: 3, span: 36, flags: 53, end: 55 }

/** Buffer for parsing: character access or a regular expression would be twice as slow. */
const read = Buffer.alloc(AT.end) as Buffer & { latin1Write(text: string, offset: number, length: number): number }

/**
 * Returns the known flags of a `traceparent` value (3.2.2 and 4.3), in latin1 as transports deliver it. Returns undefined
 * for an invalid value: malformed, of version ff, with an all-zero identifier, or longer than version 00 allows. In later
 * versions, the parts of version 00 are used.
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

/** Combines the bits of all hexadecimal digits of a part of the buffer; at least `NO_DIGIT` if another character is among them. */
function bitsOf(from: number, to: number): number {
  let bits = 0
  for (let i = from; i < to; i++) bits |= DIGITS[read[i] as number] as number
  return bits
}

/** The trace id of a value of `traceparent` that is one. */
export function traceIdOf(text: string): string {
  return text.slice(AT.trace, AT.span - 1)
}

/** Parses a `traceparent` value; undefined if invalid. */
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
/** Maximum number of propagated characters. */
const LONGEST_STATE = 512
/** Longer members are dropped first if the limit is exceeded (3.3.1.5). */
const LONG_MEMBER = 128
/** Key pattern of Level 1, extended by a leading digit as in Level 2. */
const KEY = /^(?:[a-z0-9][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})$/
/** Value pattern (3.3.1.3.2). */
const VALUE = /^[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/

/**
 * Returns the `tracestate` to propagate, from the values of all such fields in order; '' if there is none. An invalid or
 * repeated member, or more than 32, invalidate all of them (3.3.1). Above 512 characters, members are dropped: first those
 * longer than 128, then the last ones.
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
