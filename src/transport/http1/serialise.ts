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

/** True when every character of `text` is in `table`; characters beyond latin1 are in none. */
function consistsOf(table: Uint8Array, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (table[text.charCodeAt(i)] !== 1) return false
  return true
}

/** True when `list`, a comma-separated field value, holds `token` (lower-case) in any case. */
export function hasToken(list: string, token: string): boolean {
  if (list.length === token.length) return list.toLowerCase() === token
  if (list.length < token.length || !list.includes(',')) return list.trim().toLowerCase() === token
  return list.split(',').some((part) => part.trim().toLowerCase() === token)
}

/** Ends the last line of a head or of trailers, and the whole of them. */
const END = '\r\n\r\n'

/** What the engine itself does with a field. */
export const FIELD = {
  plain: 0,
  /** No name at all: cannot be written. */
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

/** What a name comes to where it is written. */
interface WrittenName {
  readonly kind: FieldKind
  /** What stands before the value, with the end of the line before. */
  readonly begin: string
  /** A value that came lately, with its whole line: most fields have the same one in message after message. */
  value: string
  line: string
  /** Values since then that were others. */
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

/** Longest value whose line is kept, and how many others pass by before another one is. */
const LONGEST_KEPT = 128
const OTHERS = 16
/** Names whose values are kept nowhere. */
const SECRET: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization', 'cookie', 'set-cookie'])

const SLOTS = 1024
/** Slots that are looked at for one name. */
const PROBES = 3
/** Length of the longest name that gets a slot. */
const LONGEST = 64

/**
 * Field names that were seen, so that the usual ones are one string each for the life of the process: its hash is known,
 * it compares by identity, and nothing is allocated to read it.
 */
export class FieldNames {
  readonly #slots: (string | undefined)[] = new Array<string | undefined>(SLOTS).fill(undefined)
  readonly #kindOfSlot = new Uint8Array(SLOTS)
  readonly #written = new PeerNames<WrittenName>()
  /** Kind of the name that `intern` gave last. */
  kind: FieldKind = FIELD.plain

  /**
   * The name in `text` from `from` to `to`, which consists of token characters; `hash` is any hash of it. Sets `kind`. A
   * name keeps its slot for ever, so that made-up names cannot push the usual ones out.
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

  /** Any name, also one that was not read from the wire; its kind is `invalid` for what is no token. */
  of(name: string): WrittenName {
    const known = this.#written.get(name)
    if (known !== undefined) return known
    const kind = name.length > 0 && consistsOf(TOKEN, name) ? kindOf(name) : FIELD.invalid
    // Joined texts keep their parts: the name must be no slice of a head.
    const begin = `\r\n${name.length > LONGEST ? name : ownText(name)}: `
    const others = SECRET.has(name.toLowerCase()) ? Number.NEGATIVE_INFINITY : OTHERS
    const written = { kind, begin, value: '', line: begin, others }
    this.#written.remember(name, written)
    return written
  }
}

/** The line of a field with the end of the line before it; empty for a value that cannot be written. */
function lineOf(written: WrittenName, value: string): string {
  if (!consistsOf(VALUE, value)) return ''
  const line = written.begin + value
  if (++written.others > OTHERS && value.length <= LONGEST_KEPT) {
    // In one piece, and no part of the message that it came in.
    written.line = ownText(line)
    written.value = ownText(value)
    written.others = 0
  }
  return line
}

function kindOf(name: string): FieldKind {
  return KINDS.get(name.toLowerCase()) ?? FIELD.plain
}

/** How an answer is framed. */
interface AnswerShape {
  /** What content-length says, if it is written. */
  readonly length: number | undefined
  readonly chunked: boolean
  readonly close: boolean
}

/** The date field line with the end of the line before it, made once a second. */
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

/** Writes heads as latin1 text. A field that cannot be written (RFC 9110 5.1, 5.5) is left out; the engine's own are its own. */
export class Serialiser {
  readonly #names: FieldNames
  readonly #date: DateLine
  /** Found in the list that `#fields` wrote last. */
  #host = false
  #dated = false

  constructor(names: FieldNames, date: DateLine) {
    this.#names = names
    this.#date = date
  }

  /** A final answer (RFC 9112 4). A missing Date is added, as RFC 9110 6.6.1 asks. */
  answer(head: ResponseHead, shape: AnswerShape): string {
    let text = statusLine(head) + this.#fields(head.headers, shape.chunked)
    if (shape.length !== undefined) text += `\r\nContent-Length: ${shape.length}`
    else if (shape.chunked) text += '\r\nTransfer-Encoding: chunked'
    if (!this.#dated) text += this.#date.line
    return text + (shape.close ? '\r\nConnection: close\r\n\r\n' : END)
  }

  /** A 1xx answer; `extra` is a field with the end of the line before it. */
  interim(head: ResponseHead, extra = ''): string {
    return statusLine(head) + extra + this.#fields(head.headers, false) + END
  }

  /** A request (RFC 9112 3), or undefined when method or target cannot stand in a request line. */
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

  /** The last chunk with trailer fields, which must have been filtered. */
  lastChunk(list: HeaderList): string {
    return `0${this.#fields(list, false)}${END}`
  }

  /** Each field with the end of the line before it. */
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

/** The answer of the engine itself to what became no exchange. */
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
