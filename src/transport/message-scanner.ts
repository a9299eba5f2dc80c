import type { Failure } from '../flow/exchange.js'
import { ByteQueue } from '../lib/byte-queue.js'
import { forbiddenTrailer } from './fields.js'

/** Reason to reject a message in the engine. */
export interface MalformedMessage {
  readonly status: number
  readonly why: Failure
}

interface BlockLimits {
  readonly headerBytes: number
  readonly headers: number
}

/** Grammar of a message's first line, including its CR LF. */
export interface StartLine {
  /** True before its first byte. */
  readonly fresh: boolean
  /** Starts the next message. */
  reset(): void
  take(byte: number): 'more' | 'ended' | MalformedMessage
}

/** State of a message after a scan. */
type ScanState = 'head' | 'head-ended' | 'body' | 'ended' | 'refused'

/** Rejects a message with uncertain framing (RFC 9112 6.3). */
export const MALFORMED: MalformedMessage = { status: 400, why: 'client-malformed' }
const TOO_LARGE: MalformedMessage = { status: 431, why: 'too-large' }
const MAX_CHUNK_LINE = 256
/** Maximum digits of a chunk size, for 2^48 bytes; larger sizes would exceed the safe integers. */
const MAX_CHUNK_DIGITS = 12
const [CR, LF, HT, COLON, SEMICOLON] = [0x0d, 0x0a, 0x09, 0x3a, 0x3b]

/** Characters of a name (RFC 9110 5.6.2). */
export const TOKEN = new Uint8Array(256)
for (const character of "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
  TOKEN[character.charCodeAt(0)] = 1
}
/** Characters of field values and reasons: visible, SP, HT, obs-text (RFC 9110 5.5). */
export const VALUE = new Uint8Array(256).fill(1, 0x20).fill(0, 0x7f, 0x80)
VALUE[HT] = 1
const HEX = new Int8Array(256).fill(-1)
for (let i = 0; i < 16; i++) {
  HEX[i.toString(16).charCodeAt(0)] = i
  HEX[i.toString(16).toUpperCase().charCodeAt(0)] = i
}

/** Steps inside a message. */
const Step = {
  startLine: 0,
  lineLf: 1,
  fieldStart: 2,
  name: 3,
  value: 4,
  lastLf: 5,
  bytes: 6,
  chunkStart: 7,
  chunkSize: 8,
  chunkExtension: 9,
  chunkLf: 10,
  chunkBytes: 11,
  chunkCr: 12,
  chunkEnd: 13
} as const

/**
 * Strict grammar of RFC 9112 over the bytes that one side of a connection sends, ahead of a parser that forgives more.
 *
 * node:http's parser accepts bare LF, folded lines and other things on which two readers of one message can
 * disagree; it also drops fields beyond its limit in silence. The scanner sees every byte first, copies none,
 * remembers only where it stands, and gives the same answer however the bytes are split.
 */
export class MessageScanner {
  readonly #limits: BlockLimits
  readonly #line: StartLine
  #step: number = Step.startLine
  /** Bytes of the current chunk line. */
  #length = 0
  #block = 0
  #fields = 0
  #rest = 0
  /** True if the next byte belongs to the trailer section, including its last line. */
  trailing = false
  state: ScanState = 'head'
  refusal: MalformedMessage = MALFORMED

  constructor(limits: BlockLimits, line: StartLine) {
    this.#limits = limits
    this.#line = line
  }

  /** True before the first byte of a message. */
  get fresh(): boolean {
    return this.state === 'head' && this.#step === Step.startLine && this.#line.fresh
  }

  /** Remaining bytes of the body; undefined if only the message itself determines them. */
  get remaining(): number | undefined {
    if (this.state === 'ended') return 0
    return this.#step === Step.bytes ? this.#rest : undefined
  }

  /** After 'ended': starts the next message. */
  next(): void {
    this.#step = Step.startLine
    this.#line.reset()
    this.#length = this.#block = this.#fields = this.#rest = 0
    this.trailing = false
    this.state = 'head'
  }

  /** After 'head-ended': sets the announced body. `bytes` undefined: chunked; Infinity: until the connection is closed. */
  expect(bytes: number | undefined): void {
    this.#step = bytes === undefined ? Step.chunkStart : Step.bytes
    this.#rest = bytes ?? 0
    this.#length = this.#block = this.#fields = 0
    this.state = bytes === 0 ? 'ended' : 'body'
  }

  /**
   * Scans from `from`; returns the index after the last byte of this part of the message: the whole chunk, or up to the end of the head, of
   * the last chunk's line, or of the message.
   */
  scan(chunk: Uint8Array, from: number): number {
    let at = from
    const end = chunk.length
    const { trailing } = this
    while (at < end) {
      const step = this.#step
      if (step === Step.value) at = this.#value(chunk, at, end)
      else if (step === Step.name) at = this.#name(chunk, at, end)
      else if (step === Step.bytes || step === Step.chunkBytes) at = this.#skip(at, end)
      else if (step === Step.startLine) this.#startLine(chunk[at++] as number)
      else if (step < Step.bytes) this.#field(chunk[at++] as number)
      else this.#chunk(chunk[at++] as number)
      if (this.state === 'head-ended' || this.state === 'ended' || this.state === 'refused') break
      if (this.trailing !== trailing) break
    }
    return at
  }

  #refuse(why = MALFORMED): void {
    this.state = 'refused'
    this.refusal = why
  }

  #startLine(byte: number): void {
    const step = this.#line.take(byte)
    if (step === 'ended') this.#step = Step.fieldStart
    else if (step !== 'more') this.#refuse(step)
  }

  /** Between the lines of a field block. */
  #field(byte: number): void {
    if (this.#step === Step.lineLf) {
      if (byte === LF) this.#step = Step.fieldStart
      else this.#refuse()
      return
    }
    this.#block++
    if (this.#step === Step.fieldStart) {
      if (byte === CR) this.#step = Step.lastLf
      else if (TOKEN[byte] === 1) {
        if (++this.#fields > this.#limits.headers) this.#refuse(TOO_LARGE)
        else this.#step = Step.name
      } else this.#refuse()
    } else if (byte !== LF) this.#refuse()
    else this.state = this.trailing ? 'ended' : 'head-ended'
  }

  #name(chunk: Uint8Array, from: number, end: number): number {
    let at = from
    while (at < end && TOKEN[chunk[at] as number] === 1) at++
    if (at < end) {
      if (chunk[at++] === COLON) this.#step = Step.value
      else this.#refuse()
    }
    this.#count(at - from)
    return at
  }

  #value(chunk: Uint8Array, from: number, end: number): number {
    let at = from
    while (at < end && VALUE[chunk[at] as number] === 1) at++
    if (at < end) {
      if (chunk[at++] === CR) this.#step = Step.lineLf
      else this.#refuse()
    }
    this.#count(at - from)
    return at
  }

  #count(bytes: number): void {
    this.#block += bytes
    if (this.#block > this.#limits.headerBytes && this.state !== 'refused') this.#refuse(TOO_LARGE)
  }

  #skip(from: number, end: number): number {
    const taken = Math.min(this.#rest, end - from)
    this.#rest -= taken
    if (this.#rest === 0) {
      if (this.#step === Step.bytes) this.state = 'ended'
      else this.#step = Step.chunkCr
    }
    return from + taken
  }

  #chunk(byte: number): void {
    switch (this.#step) {
      case Step.chunkStart:
      case Step.chunkSize:
        this.#chunkSize(byte)
        return
      case Step.chunkExtension:
        if (byte === CR) this.#step = Step.chunkLf
        else if (VALUE[byte] !== 1 || ++this.#length > MAX_CHUNK_LINE) this.#refuse()
        return
      case Step.chunkLf:
        if (byte !== LF) this.#refuse()
        else if (this.#rest > 0) this.#go(Step.chunkBytes, 0)
        else {
          this.trailing = true
          this.#go(Step.fieldStart, 0)
        }
        return
      case Step.chunkCr:
        if (byte === CR) this.#step = Step.chunkEnd
        else this.#refuse()
        return
      default:
        if (byte !== LF) this.#refuse()
        else this.#go(Step.chunkStart, 0)
    }
  }

  #chunkSize(byte: number): void {
    const digit = HEX[byte] as number
    if (digit >= 0) {
      if (this.#step === Step.chunkStart) this.#rest = this.#length = 0
      this.#step = Step.chunkSize
      this.#rest = this.#rest * 16 + digit
      if (++this.#length > MAX_CHUNK_DIGITS) this.#refuse()
    } else if (this.#step === Step.chunkStart) this.#refuse()
    else if (byte === CR) this.#go(Step.chunkLf, 0)
    else if (byte === SEMICOLON) this.#go(Step.chunkExtension, 0)
    else this.#refuse()
  }

  #go(step: number, length: number): void {
    this.#step = step
    this.#length = length
  }
}

const NOTHING = Buffer.alloc(0)
const NAME_END = 0x3a

/**
 * Removes forbidden trailer lines (RFC 9110 6.5.1) before a parser reads them: it would treat `Connection` or a length there as part of the
 * head. The section has been scanned, so each line has a name, a colon and CR LF, and its size is bounded.
 */
export class TrailerSieve {
  #held: ByteQueue | undefined = undefined

  /** Accepts the next bytes of the section; `last` marks its end. Returns the bytes for the parser: all of them at the end. */
  pass(bytes: Buffer, last: boolean): Buffer {
    if (!last) {
      this.#held ??= new ByteQueue()
      this.#held.push(bytes)
      return NOTHING
    }
    const held = this.#held
    this.#held = undefined
    held?.push(bytes)
    const section = held?.takeAll() ?? bytes
    // Only the empty line: no trailers.
    return section.length === 2 ? section : sieved(section)
  }
}

function sieved(section: Buffer): Buffer {
  const kept: Buffer[] = []
  let from = 0
  while (from < section.length) {
    const end = section.indexOf('\r\n', from) + 2
    const name = section.toString('latin1', from, section.indexOf(NAME_END, from))
    if (end - from === 2 || !forbiddenTrailer(name)) kept.push(section.subarray(from, end))
    from = end
  }
  return Buffer.concat(kept)
}
