import { MALFORMED, type MalformedMessage } from '../message-scanner.js'
import type { HeadReader } from './head-reader.js'
import { CR, HEX, LF, SEMICOLON, TOKEN, VALUE } from './serialise.js'

/** Receives body bytes as they are found. `chunk` belongs to the reader of the wire. */
export interface BodyBytes {
  data(chunk: Buffer, from: number, to: number): void
}

/** Framing that determines the end of a body (RFC 9112 6.3). */
export type BodyEnd = 'length' | 'chunked' | 'close'

const MAX_CHUNK_LINE = 256
/** Maximum digits of a chunk size, for 2^48 bytes; larger sizes would exceed the safe integers. */
const MAX_CHUNK_DIGITS = 12
/** Bytes of a chunk line that are decoded at a time. */
const PIECE = 4096
const [QUOTE, BACKSLASH, EQUALS] = [0x22, 0x5c, 0x3d]

const Step = {
  size: 0,
  digits: 1,
  sizeLf: 2,
  data: 3,
  dataCr: 4,
  dataLf: 5,
  trailers: 6,
  /** Steps from here on: inside the extensions of a chunk. */
  name: 7,
  nameRest: 8,
  value: 9,
  valueRest: 10,
  quoted: 11,
  escaped: 12,
  quotedEnd: 13
} as const

/** Finds the bytes of bodies, one after another; strict about every byte of the chunked coding (RFC 9112 7.1). */
export class BodyReader {
  readonly #trailers: HeadReader
  #end: BodyEnd = 'length'
  #step: number = Step.size
  #left = 0
  #length = 0
  done = true
  refusal: MalformedMessage | undefined = undefined
  /** Unfiltered fields after a chunked body; empty without any. */
  fields: readonly string[] = []

  /** `trailers` reads the trailer section; it is otherwise idle between two heads. */
  constructor(trailers: HeadReader) {
    this.#trailers = trailers
  }

  /** Remaining bytes; undefined if only the message itself determines them. */
  get left(): number | undefined {
    if (this.done) return 0
    return this.#end === 'length' ? this.#left : undefined
  }

  get untilClose(): boolean {
    return !this.done && this.#end === 'close'
  }

  /** Starts a body. `length` applies to `'length'` only. */
  begin(end: BodyEnd, length: number): void {
    this.#end = end
    this.#left = length
    this.#step = Step.size
    this.done = end === 'length' && length === 0
    this.refusal = undefined
    this.fields = NO_FIELDS
  }

  /** Reads on; returns the index after the last byte of the body. `done` or `refusal` may then be set. */
  read(chunk: Buffer, from: number, to: number, out: BodyBytes): number {
    if (this.#end === 'chunked') return this.#chunked(chunk, from, to, out)
    const end = this.#end === 'close' ? to : Math.min(to, from + this.#left)
    this.#left -= end - from
    if (end > from) out.data(chunk, from, end)
    if (this.#end === 'length' && this.#left === 0) this.done = true
    return end
  }

  #chunked(chunk: Buffer, from: number, to: number, out: BodyBytes): number {
    let at = from
    while (at < to && !this.done && this.refusal === undefined) {
      if (this.#step === Step.data) {
        const end = Math.min(to, at + this.#left)
        this.#left -= end - at
        out.data(chunk, at, end)
        at = end
        if (this.#left === 0) this.#step = Step.dataCr
      } else if (this.#step === Step.trailers) at = this.#section(chunk, at, to)
      else this.#line(chunk[at++] as number)
    }
    return at
  }

  #section(chunk: Buffer, from: number, to: number): number {
    const piece = chunk.toString('latin1', from, Math.min(to, from + PIECE))
    const used = this.#trailers.read(piece)
    if (used === -1) {
      this.refusal = this.#trailers.refusal
      return from + piece.length
    }
    this.fields = this.#trailers.list
    this.done = true
    return from + used
  }

  #line(byte: number): void {
    switch (this.#step) {
      case Step.size:
      case Step.digits:
        this.#size(byte)
        return
      case Step.sizeLf:
        if (byte !== LF) this.refusal = MALFORMED
        else if (this.#left > 0) this.#step = Step.data
        else {
          this.#step = Step.trailers
          this.#trailers.trailers()
        }
        return
      case Step.dataCr:
        if (byte === CR) this.#step = Step.dataLf
        else this.refusal = MALFORMED
        return
      case Step.dataLf:
        if (byte === LF) this.#step = Step.size
        else this.refusal = MALFORMED
        return
      default:
        this.#extension(byte)
    }
  }

  /** `;name`, `;name=token` or `;name="quoted"`, without white space, which senders must not write (RFC 9112 7.1.1). */
  #extension(byte: number): void {
    const step = this.#step
    let next = -1
    if (step === Step.quoted) {
      if (byte === QUOTE) next = Step.quotedEnd
      else if (byte === BACKSLASH) next = Step.escaped
      else if (VALUE[byte] === 1) next = Step.quoted
    } else if (step === Step.escaped) {
      if (VALUE[byte] === 1) next = Step.quoted
    } else if (step !== Step.quotedEnd && TOKEN[byte] === 1) {
      next = step <= Step.nameRest ? Step.nameRest : Step.valueRest
    } else if (step === Step.value) {
      if (byte === QUOTE) next = Step.quoted
    } else if (step !== Step.name) {
      if (byte === CR) next = Step.sizeLf
      else if (byte === SEMICOLON) next = Step.name
      else if (byte === EQUALS && step === Step.nameRest) next = Step.value
    }
    if (next === -1 || ++this.#length > MAX_CHUNK_LINE) this.refusal = MALFORMED
    else this.#step = next
  }

  #size(byte: number): void {
    const digit = HEX[byte] as number
    if (digit >= 0) {
      if (this.#step === Step.size) this.#left = this.#length = 0
      this.#step = Step.digits
      this.#left = this.#left * 16 + digit
      if (++this.#length > MAX_CHUNK_DIGITS) this.refusal = MALFORMED
    } else if (this.#step === Step.size) this.refusal = MALFORMED
    else if (byte === CR) this.#step = Step.sizeLf
    else if (byte === SEMICOLON) {
      this.#step = Step.name
      this.#length = 0
    } else this.refusal = MALFORMED
  }
}

const NO_FIELDS: readonly string[] = []
