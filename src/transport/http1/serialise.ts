import { STATUS_CODES } from 'node:http'
import { FAILURES } from '../../flow/error-codes.js'
import type { Framing, RequestHead, ResponseHead } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import type { Clock } from '../../lib/clock.js'
import { ownText, PeerNames } from '../../lib/peer-names.js'
import { announcesNoContent } from '../fields.js'
import type { MalformedMessage } from '../message-scanner.js'

/** Character classes of RFC 9110 5.6.2 and 5.5, and of RFC 9112 3.2, as tables over latin1 codes. */
export const TOKEN = new Uint8Array(256)
for (const character of "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
  TOKEN[character.charCodeAt(0)] = 1
}
/** Field values: visible, SP, HT, obs-text. */
export const VALUE = new Uint8Array(256).fill(1, 0x20).fill(0, 0x7f, 0x80)
VALUE[0x09] = 1
/** Visible ASCII. */
export const TARGET = new Uint8Array(256).fill(1, 0x21, 0x7f)
/** Values of hexadecimal digits; -1 for other characters. */
export const HEX = new Int8Array(256).fill(-1)
for (let i = 0; i < 16; i++) {
  HEX[i.toString(16).charCodeAt(0)] = i
  HEX[i.toString(16).toUpperCase().charCodeAt(0)] = i
}

export const CR = 0x0d
export const LF = 0x0a
export const SP = 0x20
export const HT = 0x09
export const COLON = 0x3a
export const SEMICOLON = 0x3b

/** Returns whether every character of `text` is in `table`; characters beyond latin1 are in none. */
function consistsOf(table: Uint8Array, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (table[text.charCodeAt(i)] !== 1) return false
  return true
}

/** Returns whether the comma-separated `list` contains `token` (lower case) in any case. */
export function hasToken(list: string, token: string): boolean {
  if (list.length === token.length) return list.toLowerCase() === token
  if (list.length < token.length || !list.includes(',')) return list.trim().toLowerCase() === token
  return list.split(',').some((part) => part.trim().toLowerCase() === token)
}

/** End of the last line of a head or of trailers, and of the whole section. */
const END = '\r\n\r\n'

/** Treatment of a header field by the engine itself. */
export const FIELD = {
  plain: 0,
  /** Not a valid name: cannot be written. */
  invalid: 1,
  host: 2,
  contentLength: 3,
  transferEncoding: 4,
  connection: 5,
  expect: 6,
  upgrade: 7,
  trailer: 8,
  keepAlive: 9,
  date: 10
} as const

type FieldKind = (typeof FIELD)[keyof typeof FIELD]

/** Cached result for a field name. */
interface WrittenName {
  readonly kind: FieldKind
  /** Text before the value, including the end of the previous line. */
  readonly begin: string
  /** A recent value with its whole line: most fields repeat their value in many messages. */
  value: string
  line: string
  /** Number of other values since then. */
  others: number
}

const KINDS: ReadonlyMap<string, FieldKind> = new Map<string, FieldKind>([
  ['host', FIELD.host],
  ['content-length', FIELD.contentLength],
  ['transfer-encoding', FIELD.transferEncoding],
  ['connection', FIELD.connection],
  ['expect', FIELD.expect],
  ['upgrade', FIELD.upgrade],
  ['trailer', FIELD.trailer],
  ['keep-alive', FIELD.keepAlive],
  ['date', FIELD.date]
])

/** Maximum length of a cached value. */
const LONGEST_KEPT = 128
/** Number of other values before a new one is cached. */
const OTHERS = 16
/** Names whose values are never cached. */
const SECRET: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization', 'cookie', 'set-cookie'])

const SLOTS = 1024
/** Number of slots examined per name. */
const PROBES = 3
/** Maximum length of a name with a slot. */
const LONGEST = 64

/** Interned field names: each common one is one string for the life of the process, with a known hash, comparison by identity and no allocation. */
export class FieldNames {
  readonly #slots: (string | undefined)[] = new Array<string | undefined>(SLOTS).fill(undefined)
  readonly #kindOfSlot = new Uint8Array(SLOTS)
  readonly #written = new PeerNames<WrittenName>()
  /** Kind of the name returned last by `intern`. */
  kind: FieldKind = FIELD.plain

  /**
   * Returns the name in `text` from `from` to `to`, which consists of token characters; `hash` is any hash of it. Sets `kind`. A name keeps
   * its slot forever, so that made-up names cannot evict common ones.
   */
  intern(text: string, from: number, to: number, hash: number): string {
    let slot = hash & (SLOTS - 1)
    for (let probe = 0; probe < PROBES; probe++) {
      const known = this.#slots[slot]
      if (known === undefined) return this.#learn(text.slice(from, to), slot)
      if (known.length === to - from) {
        let i = 0
        while (i < known.length && known.charCodeAt(i) === text.charCodeAt(from + i)) i++
        if (i === known.length) {
          this.kind = this.#kindOfSlot[slot] as FieldKind
          return known
        }
      }
      slot = (slot + 1) & (SLOTS - 1)
    }
    const name = text.slice(from, to)
    this.kind = kindOf(name)
    return name
  }

  #learn(name: string, slot: number): string {
    this.kind = kindOf(name)
    if (name.length > LONGEST) return name
    const own = ownText(name)
    this.#slots[slot] = own
    this.#kindOfSlot[slot] = this.kind
    return own
  }

  /** Returns the entry of any name; its kind is `invalid` if it is not a token. */
  of(name: string): WrittenName {
    const known = this.#written.get(name)
    if (known !== undefined) return known
    const kind = name.length > 0 && consistsOf(TOKEN, name) ? kindOf(name) : FIELD.invalid
    // Joined texts retain their parts: the name must not be a slice of a head.
    const begin = `\r\n${name.length > LONGEST ? name : ownText(name)}: `
    const others = SECRET.has(name.toLowerCase()) ? Number.NEGATIVE_INFINITY : OTHERS
    const written = { kind, begin, value: '', line: begin, others }
    this.#written.remember(name, written)
    return written
  }
}

/** Returns a field's line, starting with the end of the previous one; empty for an invalid value. */
function lineOf(written: WrittenName, value: string): string {
  if (!consistsOf(VALUE, value)) return ''
  const line = written.begin + value
  if (++written.others > OTHERS && value.length <= LONGEST_KEPT) {
    // A flat copy, not a slice of its message.
    written.line = ownText(line)
    written.value = ownText(value)
    written.others = 0
  }
  return line
}

function kindOf(name: string): FieldKind {
  return KINDS.get(name.toLowerCase()) ?? FIELD.plain
}

/** Framing of a response. */
interface AnswerShape {
  /** Value of content-length, if present. */
  readonly length: number | undefined
  readonly chunked: boolean
  readonly close: boolean
}

/** The date field's line, starting with the end of the previous one; created once a second. */
export class DateLine {
  readonly #clock: Clock
  #second = -1
  #line = ''

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get line(): string {
    const now = this.#clock.wall()
    const second = Math.floor(now / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#line = `\r\nDate: ${new Date(now).toUTCString()}`
    }
    return this.#line
  }
}

/** Writes heads as latin1 text. Omits invalid fields (RFC 9110 5.1, 5.5) and writes the engine's fields itself. */
export class Serialiser {
  readonly #names: FieldNames
  readonly #date: DateLine
  /** Result of the last list written by `#fields`. */
  #host = false
  #dated = false

  constructor(names: FieldNames, date: DateLine) {
    this.#names = names
    this.#date = date
  }

  /** Writes a final response (RFC 9112 4). Adds a missing Date, as in RFC 9110 6.6.1. */
  answer(head: ResponseHead, shape: AnswerShape): string {
    let text = statusLine(head) + this.#fields(head.headers, shape.chunked)
    if (shape.length !== undefined) text += `\r\nContent-Length: ${shape.length}`
    else if (shape.chunked) text += '\r\nTransfer-Encoding: chunked'
    if (!this.#dated) text += this.#date.line
    return text + (shape.close ? '\r\nConnection: close\r\n\r\n' : END)
  }

  /** Writes a 1xx response; `extra` is a field that starts with the end of the previous line. */
  interim(head: ResponseHead, extra = ''): string {
    return statusLine(head) + extra + this.#fields(head.headers, false) + END
  }

  /** Writes a request (RFC 9112 3), or returns undefined if method or target is invalid in a request line. */
  request(head: RequestHead, framing: Framing, upgrade: boolean, expects: boolean): string | undefined {
    const { method, target } = head
    if (method === '' || target === '' || !consistsOf(TOKEN, method) || !consistsOf(TARGET, target)) return undefined
    const fields = this.#fields(head.headers, framing.kind === 'open')
    let text = `${method} ${target} HTTP/1.1`
    if (!this.#host) text += `\r\nHost: ${consistsOf(VALUE, head.authority) ? head.authority : ''}`
    text += fields
    if (framing.kind === 'open') text += '\r\nTransfer-Encoding: chunked'
    else if (framing.kind === 'length') text += `\r\nContent-Length: ${framing.bytes}`
    else if (announcesNoContent(method)) text += '\r\nContent-Length: 0'
    if (upgrade) text += '\r\nConnection: Upgrade'
    return text + (expects ? '\r\nExpect: 100-continue\r\n\r\n' : END)
  }

  /** Writes the last chunk with filtered trailer fields. */
  lastChunk(list: HeaderList): string {
    return `0${this.#fields(list, false)}${END}`
  }

  /** Writes each field, starting with the end of the previous line. */
  #fields(list: HeaderList, chunked: boolean): string {
    let text = ''
    let host = false
    let dated = false
    for (let i = 0; i < list.length; i += 2) {
      const name = list[i] as string
      const value = list[i + 1] as string
      const written = this.#names.of(name)
      switch (written.kind) {
        case FIELD.plain:
        case FIELD.upgrade:
          break
        case FIELD.host:
          host = true
          break
        case FIELD.date:
          dated = true
          break
        case FIELD.trailer:
          if (chunked) break
          continue
        default:
          continue
      }
      text += value === written.value ? written.line : lineOf(written, value)
    }
    this.#host = host
    this.#dated = dated
    return text
  }
}

/** Writes the engine's own response without an exchange. */
export function bareAnswer({ status, why }: MalformedMessage): string {
  const code = FAILURES[why].code
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nsluice-error-code: ${code}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`
}

/** Status lines with the usual phrase, by status. */
const STATUS_LINES: (string | undefined)[] = []

function statusLine({ status, reason }: ResponseHead): string {
  const usual = STATUS_CODES[status]
  if (reason !== undefined && reason !== '' && reason !== usual && consistsOf(VALUE, reason))
    return `HTTP/1.1 ${status} ${reason}`
  STATUS_LINES[status] ??= `HTTP/1.1 ${status} ${usual ?? ''}`
  return STATUS_LINES[status]
}
