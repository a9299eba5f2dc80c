import { encodedTarget, isRefusedMethod } from '../fields.js'
import { MALFORMED, type MalformedMessage } from '../message-scanner.js'
import { digitAt, isDigit, isLength, methodOf, trimmed } from './head-text.js'
import { COLON, CR, FIELD, type FieldNames, HT, hasToken, LF, SP, TARGET, TOKEN, VALUE } from './serialise.js'

export interface HeadLimits {
  readonly headerBytes: number
  readonly headers: number
  readonly targetBytes: number
}

const TOO_LARGE: MalformedMessage = { status: 431, why: 'too-large' }
const TOO_LONG: MalformedMessage = { status: 414, why: 'too-large' }
const OTHER_VERSION: MalformedMessage = { status: 505, why: 'client-malformed' }

/** Maximum length of a method, which every peer of this engine can read; some read longer ones as the end of a connection. */
const LONGEST_METHOD = 32
/** Prefix of the version in request and status lines. */
const VERSION = 'HTTP/1.'
/** `TARGET`, and bytes that some clients do not percent-encode. */
const RAW_TARGET = Uint8Array.from(TARGET).fill(1, 0x80)
/** Absolute form with at most one `@` (RFC 9112 3.2.2). */
const ABSOLUTE = /^[A-Za-z]+:\/\/(?:[\w\-.~!$&'()*+,;=:%]*@)?[\w\-.~!$&'()*+,;=:%[\]]+(?:[/?].*)?$/
/** Authority form (RFC 9112 3.2.3). */
const AUTHORITY = /^(?:[\w\-.~%]+|\[[\dA-Fa-f:.]+\]):\d+$/
/** Length of an element from which further pieces are collected (characters). */
const LONG_ELEMENT = 1_024
/** Pieces of a long element that are collected before it is examined. */
const GATHERED = 256

/** State of the reader between two pieces of a head. */
const Step = {
  start: 0,
  startLf: 1,
  method: 2,
  target: 3,
  version: 4,
  fieldStart: 5,
  name: 6,
  value: 7,
  valueLf: 8,
  lastLf: 9
} as const

/**
 * Strict reader of request heads, response heads and trailer sections (RFC 9112 2 to 5, 7.1.2), one after another.
 *
 * Takes the bytes as latin1 text in pieces of any size; a whole head in one piece costs no copies. Every doubt (bare CR
 * or LF, folded line, space before a colon, byte outside the grammar) is a refusal. The result does not depend
 * on how the bytes are cut.
 */
export class HeadReader {
  readonly #limits: HeadLimits
  readonly #names: FieldNames
  readonly #request: boolean
  #step: number = Step.start
  /** Start of the element that was cut by the end of a piece. */
  #rest = ''
  /** Length of the part of `#rest` that has been read; later pieces are collected. */
  #seen = 0
  #gathered = 0
  #hash = 0
  #block = 0
  #fields = 0
  #emptyLine = false
  #name = ''
  #kind = 0
  /** Set if `read` returned -1 because of an invalid head. */
  refusal: MalformedMessage | undefined = undefined

  method = ''
  target = ''
  minor = 1
  status = 0
  reason = ''
  /** Flat list of names and values. A new list per message. */
  list: string[] = []
  hosts = 0
  authority = ''
  lengths = 0
  length = 0
  encodings = 0
  /** Set for an invalid length or encoding. */
  badFraming = false
  close = false
  connectionUpgrade = false
  upgrade = ''
  expectation = ''

  constructor(kind: 'request' | 'response', limits: HeadLimits, names: FieldNames) {
    this.#request = kind === 'request'
    this.#limits = limits
    this.#names = names
  }

  /** True before the first byte of a message. */
  get fresh(): boolean {
    return this.#step === Step.start && this.#rest === ''
  }

  /** Discards the current message and starts the next one. */
  next(): void {
    this.#begin(Step.start)
    this.list = []
    this.hosts = this.lengths = this.length = this.encodings = 0
    this.authority = this.upgrade = this.expectation = ''
    this.badFraming = this.close = this.connectionUpgrade = false
  }

  /** Starts a trailer section: only its fields are read, into a separate list. */
  trailers(): void {
    this.#begin(Step.fieldStart)
    this.list = []
  }

  #begin(step: number): void {
    this.#step = step
    this.#rest = ''
    this.#seen = this.#gathered = 0
    this.#block = this.#fields = 0
    this.#emptyLine = false
    this.refusal = undefined
  }

  /**
   * Reads on. Returns the number of characters of `piece` up to the end of the head, or -1 if the head continues in the next piece, or is
   * rejected with `refusal`.
   */
  read(piece: string): number {
    const kept = this.#rest.length
    if (kept >= LONG_ELEMENT && this.#gather(piece)) return -1
    const seen = this.#seen
    const text = kept === 0 ? piece : this.#rest + piece
    this.#rest = ''
    this.#seen = this.#gathered = 0
    const at = this.#step < Step.fieldStart ? this.#firstLine(text, seen) : this.#readFields(text, seen, seen)
    return at < 0 ? -1 : at - kept
  }

  /**
   * Collects a piece of a long element that it does not end; returns false if the element has to be read. Reading joins all stored text,
   * which would copy the element for each byte of a peer that sends single bytes.
   */
  #gather(piece: string): boolean {
    if (++this.#gathered > GATHERED) return false
    const step = this.#step
    const length = this.#rest.length + piece.length
    const counted = step < Step.fieldStart ? length : this.#block + length - this.#seen
    if (counted > (step === Step.target ? this.#limits.targetBytes : this.#limits.headerBytes)) return false
    const table = step === Step.target ? RAW_TARGET : step === Step.name ? TOKEN : VALUE
    for (let i = 0; i < piece.length; i++) if (table[piece.charCodeAt(i)] !== 1) return false
    this.#rest += piece
    return true
  }

  #refuse(refusal: MalformedMessage): -1 {
    this.refusal = refusal
    this.list = []
    return -1
  }

  /** Stores the element that began at `from` until more arrives. */
  #cut(text: string, step: number, from: number): -1 {
    this.#step = step
    this.#rest = from < text.length ? text.slice(from) : ''
    this.#seen = this.#rest.length
    return -1
  }

  #firstLine(text: string, resumed: number): number {
    let at = 0
    if (this.#step <= Step.startLf) {
      at = this.#emptyLineBefore(text)
      if (at < 0) return -1
      resumed = Math.max(at, resumed)
    }
    return this.#request ? this.#requestLine(text, at, resumed) : this.#statusLine(text, at)
  }

  /** Accepts one empty line before a request (RFC 9112 2.2). Returns the start of the line. */
  #emptyLineBefore(text: string): number {
    let at = 0
    if (text.length === 0) return -1
    if (this.#step === Step.start && text.charCodeAt(0) === CR) {
      if (this.#emptyLine || !this.#request) return this.#refuse(MALFORMED)
      this.#emptyLine = true
      this.#step = Step.startLf
      at = 1
    }
    if (this.#step === Step.startLf) {
      if (at === text.length) return -1
      if (text.charCodeAt(at) !== LF) return this.#refuse(MALFORMED)
      this.#step = Step.start
      at++
      if (at === text.length) return -1
      if (text.charCodeAt(at) === CR) return this.#refuse(MALFORMED)
    }
    return at
  }

  #requestLine(text: string, begin: number, resumed: number): number {
    const end = text.length
    let at = begin
    if (this.#step <= Step.method) {
      at = resumed
      while (at < end && TOKEN[text.charCodeAt(at)] === 1) at++
      if (at - begin > LONGEST_METHOD || at === begin) return this.#refuse(MALFORMED)
      if (at === end) return this.#cut(text, Step.method, begin)
      if (text.charCodeAt(at) !== SP) return this.#refuse(MALFORMED)
      this.method = methodOf(text, begin, at)
      if (this.method !== 'GET' && isRefusedMethod(this.method)) return this.#refuse(MALFORMED)
      at++
      begin = resumed = at
      this.#step = Step.target
    }
    if (this.#step === Step.target) {
      at = resumed
      while (at < end && TARGET[text.charCodeAt(at)] === 1) at++
      const isPlain = resumed === begin && !(text.charCodeAt(at) >= 0x80)
      if (!isPlain) while (at < end && RAW_TARGET[text.charCodeAt(at)] === 1) at++
      if (at - begin > this.#limits.targetBytes) return this.#refuse(TOO_LONG)
      if (at === end) return this.#cut(text, Step.target, begin)
      if (text.charCodeAt(at) !== SP || at === begin) return this.#refuse(MALFORMED)
      this.target = isPlain ? text.slice(begin, at) : encodedTarget(text.slice(begin, at))
      if (!isTarget(this.method, this.target)) return this.#refuse(MALFORMED)
      begin = at + 1
      this.#step = Step.version
    }
    return this.#version(text, begin)
  }

  #version(text: string, begin: number): number {
    const end = Math.min(text.length, begin + VERSION.length + 3)
    for (let at = begin; at < end; at++) {
      const i = at - begin
      const code = text.charCodeAt(at)
      if (i < VERSION.length) {
        if (code !== VERSION.charCodeAt(i)) return this.#refuse(i === 5 && isDigit(code) ? OTHER_VERSION : MALFORMED)
      } else if (i === VERSION.length) {
        if (code !== 0x30 && code !== 0x31) return this.#refuse(isDigit(code) ? OTHER_VERSION : MALFORMED)
      } else if (code !== (i === VERSION.length + 1 ? CR : LF)) return this.#refuse(MALFORMED)
    }
    if (end - begin < VERSION.length + 3) return this.#cut(text, Step.version, begin)
    this.minor = digitAt(text, begin + VERSION.length)
    this.#step = Step.fieldStart
    return this.#readFields(text, end, end)
  }

  /** `HTTP/1.1 200 reason`; the space before an empty reason may be missing. */
  #statusLine(text: string, begin: number): number {
    const { length } = text
    for (let at = begin; at < length; at++) {
      const i = at - begin
      const code = text.charCodeAt(at)
      if (i < 7) {
        if (code !== VERSION.charCodeAt(i)) return this.#refuse(MALFORMED)
      } else if (i === 7) {
        if (code !== 0x30 && code !== 0x31) return this.#refuse(MALFORMED)
      } else if (i === 8) {
        if (code !== SP) return this.#refuse(MALFORMED)
      } else if (i < 12) {
        if (!isDigit(code) || (i === 9 && code === 0x30)) return this.#refuse(MALFORMED)
      } else if (i === 12) {
        if (code !== SP && code !== CR) return this.#refuse(MALFORMED)
        return this.#reason(text, begin, at)
      }
    }
    return this.#cut(text, Step.start, begin)
  }

  #reason(text: string, begin: number, from: number): number {
    const end = text.length
    let at = from
    if (text.charCodeAt(at) === SP) at++
    const reason = at
    while (at < end && VALUE[text.charCodeAt(at)] === 1) at++
    if (at - begin > this.#limits.headerBytes) return this.#refuse(TOO_LARGE)
    if (at === end || (at + 1 === end && text.charCodeAt(at) === CR)) return this.#cut(text, Step.start, begin)
    if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) return this.#refuse(MALFORMED)
    this.minor = digitAt(text, begin + VERSION.length)
    this.status = digitAt(text, begin + 9) * 100 + digitAt(text, begin + 10) * 10 + digitAt(text, begin + 11)
    this.reason = text.slice(reason, at)
    this.#step = Step.fieldStart
    return this.#readFields(text, at + 2, at + 2)
  }

  /** Reads fields including the empty line. `from`: first unread character; `counted`: first one that is not in `#block` yet. */
  #readFields(text: string, from: number, counted: number): number {
    const end = text.length
    /** Position at which the block becomes too large. */
    const limit = counted + this.#limits.headerBytes - this.#block
    let at = from
    let begin = 0
    let step = this.#step
    for (;;) {
      if (step === Step.fieldStart) {
        if (at >= end) break
        const code = text.charCodeAt(at)
        if (code === CR) {
          at++
          step = Step.lastLf
        } else if (TOKEN[code] === 1 && ++this.#fields <= this.#limits.headers) {
          begin = at
          this.#hash = 0
          step = Step.name
        } else return this.#refuse(at >= limit || TOKEN[code] === 1 ? TOO_LARGE : MALFORMED)
      }
      if (step === Step.name) {
        let hash = this.#hash
        let code = text.charCodeAt(at)
        while (TOKEN[code] === 1) {
          hash = (Math.imul(hash, 31) + code) | 0
          // Beyond the end the code is NaN, which is in no table.
          code = text.charCodeAt(++at)
        }
        if (at >= end) {
          this.#hash = hash
          break
        }
        if (code !== COLON || at >= limit) return this.#refuse(at >= limit ? TOO_LARGE : MALFORMED)
        this.#name = this.#names.intern(text, begin, at, hash ^ (hash >>> 11))
        this.#kind = this.#names.kind
        begin = ++at
        step = Step.value
      }
      if (step === Step.value) {
        while (at < end && VALUE[text.charCodeAt(at)] === 1) at++
        if (at >= end) break
        if (text.charCodeAt(at) !== CR || at >= limit) return this.#refuse(at >= limit ? TOO_LARGE : MALFORMED)
        this.#field(this.#name, trimmed(text, begin, at))
        if (this.#kind !== FIELD.plain && text.charCodeAt(at - 1) === HT) this.#tabbed()
        at++
        step = Step.valueLf
      }
      if (at >= end) break
      if (text.charCodeAt(at) !== LF || at >= limit) return this.#refuse(at >= limit ? TOO_LARGE : MALFORMED)
      at++
      if (step === Step.lastLf) return at
      step = Step.fieldStart
    }
    if (end > limit) return this.#refuse(TOO_LARGE)
    this.#block += end - counted
    return this.#cut(text, step, step === Step.name || step === Step.value ? begin : end)
  }

  /** A tab after a length or an encoding is optional white space to some readers and a part of the value to others. */
  #tabbed(): void {
    if (this.#kind === FIELD.contentLength || this.#kind === FIELD.transferEncoding) this.badFraming = true
  }

  #field(name: string, value: string): void {
    this.list.push(name, value)
    switch (this.#kind) {
      case FIELD.plain:
        return
      case FIELD.host:
        if (++this.hosts === 1) this.authority = value
        return
      case FIELD.contentLength:
        this.lengths++
        if (isLength(value)) this.length = Number(value)
        else this.badFraming = true
        return
      case FIELD.transferEncoding:
        this.encodings++
        if (value.toLowerCase() !== 'chunked') this.badFraming = true
        return
      case FIELD.connection:
        if (hasToken(value, 'close')) this.close = true
        if (hasToken(value, 'upgrade')) this.connectionUpgrade = true
        return
      case FIELD.upgrade:
        this.upgrade = this.upgrade === '' ? value.toLowerCase() : 'several'
        return
      case FIELD.expect:
        this.expectation = this.expectation === '' ? value.toLowerCase() || 'empty' : 'several'
    }
  }
}

/** Returns whether a target has one of the forms of RFC 9112 3.2 whose end is unambiguous. */
function isTarget(method: string, target: string): boolean {
  if (method === 'CONNECT') return AUTHORITY.test(target)
  if (target.charCodeAt(0) === 0x2f || target === '*') return true
  return ABSOLUTE.test(target)
}
