import type { Failure } from '../../exchange/connection.js'

/** What the engine refuses by itself. */
export interface Refusal {
  readonly status: number
  readonly why: Failure
}

export interface ScanLimits {
  readonly headerBytes: number
  readonly headers: number
  readonly targetBytes: number
}

/** Where a message stands after a scan. */
export type ScanState = 'head' | 'head-ended' | 'body' | 'ended' | 'refused'

const MALFORMED: Refusal = { status: 400, why: 'client-malformed' }
const VERSION = Buffer.from('HTTP/1.')
const MAX_METHOD = 32
const MAX_CHUNK_LINE = 256
/** 2^48 bytes in one chunk; more cannot be meant honestly and would leave the safe integers. */
const MAX_CHUNK_DIGITS = 12
const [CR, LF, SP, HT, COLON, SEMICOLON] = [0x0d, 0x0a, 0x20, 0x09, 0x3a, 0x3b]

const TOKEN = new Uint8Array(256)
for (const character of "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
  TOKEN[character.charCodeAt(0)] = 1
}
/** Field values: visible, SP, HT, obs-text (RFC 9110 5.5). */
const VALUE = new Uint8Array(256).fill(1, 0x20).fill(0, 0x7f, 0x80)
VALUE[HT] = 1
const HEX = new Int8Array(256).fill(-1)
for (let i = 0; i < 16; i++) {
  HEX[i.toString(16).charCodeAt(0)] = i
  HEX[i.toString(16).toUpperCase().charCodeAt(0)] = i
}

/** Steps inside a message. */
const Step = {
  start: 0,
  startLf: 1,
  method: 2,
  target: 3,
  version: 4,
  lineCr: 5,
  lineLf: 6,
  fieldStart: 7,
  name: 8,
  value: 9,
  lastLf: 10,
  bytes: 11,
  chunkStart: 12,
  chunkSize: 13,
  chunkExtension: 14,
  chunkLf: 15,
  chunkBytes: 16,
  chunkCr: 17,
  chunkEnd: 18
} as const

/**
 * Strict grammar of RFC 9112 over the bytes of one connection, ahead of a parser that forgives more.
 *
 * node:http's parser accepts bare LF, folded lines and other things on which two readers of one message can
 * disagree; it also drops fields beyond its limit in silence. The scanner sees every byte first, copies none,
 * remembers only where it stands, and gives the same answer however the bytes are split.
 */
export class RequestScanner {
  readonly #limits: ScanLimits
  #step: number = Step.start
  /** Bytes of the element at hand: method, target, version, chunk line. */
  #length = 0
  #block = 0
  #fields = 0
  #rest = 0
  #trailer = false
  #emptyLines = 0
  state: ScanState = 'head'
  refusal: Refusal = MALFORMED

  constructor(limits: ScanLimits) {
    this.#limits = limits
  }

  /** True before the first byte of a message. */
  get fresh(): boolean {
    return this.state === 'head' && this.#step === Step.start
  }

  /** Bytes of the body that are still to come; undefined when only the message itself will say. */
  get remaining(): number | undefined {
    if (this.state === 'ended') return 0
    return this.#step === Step.bytes ? this.#rest : undefined
  }

  /** After 'ended': the next message begins. */
  next(): void {
    this.#step = Step.start
    this.#length = this.#block = this.#fields = this.#rest = this.#emptyLines = 0
    this.#trailer = false
    this.state = 'head'
  }

  /** After 'head-ended': what the head announced. `bytes` undefined: chunked. */
  expect(bytes: number | undefined): void {
    this.#step = bytes === undefined ? Step.chunkStart : Step.bytes
    this.#rest = bytes ?? 0
    this.#length = this.#block = this.#fields = 0
    this.#trailer = true
    this.state = bytes === 0 ? 'ended' : 'body'
  }

  /**
   * Reads on from `from`; returns the index behind the last byte that belongs to this part of the message: the whole
   * chunk, or up to the end of the head or of the message.
   */
  scan(chunk: Uint8Array, from: number): number {
    let at = from
    const end = chunk.length
    while (at < end) {
      const step = this.#step
      if (step === Step.value) at = this.#value(chunk, at, end)
      else if (step === Step.name) at = this.#name(chunk, at, end)
      else if (step === Step.bytes || step === Step.chunkBytes) at = this.#skip(at, end)
      else if (step < Step.fieldStart) this.#requestLine(chunk[at++] as number)
      else if (step < Step.bytes) this.#field(chunk[at++] as number)
      else this.#chunk(chunk[at++] as number)
      if (this.state === 'head-ended' || this.state === 'ended' || this.state === 'refused') break
    }
    return at
  }

  #refuse(status = 400, why: Failure = 'client-malformed'): void {
    this.state = 'refused'
    this.refusal = status === 400 ? MALFORMED : { status, why }
  }

  #requestLine(byte: number): void {
    switch (this.#step) {
      case Step.start:
        // One empty line before a request is forgiven (RFC 9112 2.2).
        if (byte === CR && this.#emptyLines++ === 0) this.#step = Step.startLf
        else if (TOKEN[byte] === 1) this.#go(Step.method, 1)
        else this.#refuse()
        return
      case Step.startLf:
        if (byte === LF) this.#step = Step.start
        else this.#refuse()
        return
      case Step.method:
        if (byte === SP) this.#go(Step.target, 0)
        else if (TOKEN[byte] !== 1 || ++this.#length > MAX_METHOD) this.#refuse()
        return
      case Step.target:
        if (byte === SP && this.#length > 0) this.#go(Step.version, 0)
        else if (byte <= SP || byte >= 0x7f) this.#refuse()
        else if (++this.#length > this.#limits.targetBytes) this.#refuse(414, 'too-large')
        return
      case Step.version:
        this.#version(byte)
        return
      case Step.lineCr:
        if (byte === CR) this.#step = Step.lineLf
        else this.#refuse()
        return
      default:
        if (byte === LF) this.#step = Step.fieldStart
        else this.#refuse()
    }
  }

  #version(byte: number): void {
    const i = this.#length++
    if (i < VERSION.length) {
      if (byte === VERSION[i]) return
      this.#refuse(i === 5 && byte >= 0x30 && byte <= 0x39 ? 505 : 400)
    } else if (byte === 0x30 || byte === 0x31) this.#step = Step.lineCr
    else this.#refuse(byte >= 0x32 && byte <= 0x39 ? 505 : 400)
  }

  #field(byte: number): void {
    this.#block++
    if (this.#step === Step.fieldStart) {
      if (byte === CR) this.#step = Step.lastLf
      else if (TOKEN[byte] === 1) {
        if (++this.#fields > this.#limits.headers) this.#refuse(431, 'too-large')
        else this.#step = Step.name
      } else this.#refuse()
    } else if (byte !== LF) this.#refuse()
    else this.state = this.#trailer ? 'ended' : 'head-ended'
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
      if (chunk[at++] === CR) this.#step = this.#trailer ? Step.chunkEnd : Step.lineLf
      else this.#refuse()
    }
    this.#count(at - from)
    return at
  }

  #count(bytes: number): void {
    this.#block += bytes
    if (this.#block > this.#limits.headerBytes && this.state !== 'refused') this.#refuse(431, 'too-large')
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
        else this.#go(this.#rest === 0 ? Step.fieldStart : Step.chunkBytes, 0)
        return
      case Step.chunkCr:
        if (byte === CR) this.#go(Step.chunkEnd, 1)
        else this.#refuse()
        return
      default:
        // The LF behind chunk data (length 1) or behind a trailer field (length 0).
        if (byte !== LF) this.#refuse()
        else this.#go(this.#length === 1 ? Step.chunkStart : Step.fieldStart, 0)
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
