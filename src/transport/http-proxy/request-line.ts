import { MALFORMED, type Refusal, type StartLine, TOKEN } from '../message-scanner.js'

const VERSION = Buffer.from('HTTP/1.')
const MAX_METHOD = 32
const [CR, LF, SP] = [0x0d, 0x0a, 0x20]
const TARGET_TOO_LONG: Refusal = { status: 414, why: 'too-large' }
const UNKNOWN_VERSION: Refusal = { status: 505, why: 'client-malformed' }

const Step = { start: 0, startLf: 1, method: 2, target: 3, version: 4, cr: 5, lf: 6 } as const

/** `method SP target SP HTTP/1.x` (RFC 9112 3); one empty line before it is forgiven (2.2). */
export class RequestLine implements StartLine {
  readonly #targetBytes: number
  #step: number = Step.start
  /** Bytes of the element at hand. */
  #length = 0
  #emptyLines = 0

  constructor(targetBytes: number) {
    this.#targetBytes = targetBytes
  }

  get fresh(): boolean {
    return this.#step === Step.start
  }

  reset(): void {
    this.#step = Step.start
    this.#length = this.#emptyLines = 0
  }

  take(byte: number): 'more' | 'ended' | Refusal {
    switch (this.#step) {
      case Step.start:
        if (byte === CR && this.#emptyLines++ === 0) return this.#go(Step.startLf, 0)
        return TOKEN[byte] === 1 ? this.#go(Step.method, 1) : MALFORMED
      case Step.startLf:
        return byte === LF ? this.#go(Step.start, 0) : MALFORMED
      case Step.method:
        if (byte === SP) return this.#go(Step.target, 0)
        return TOKEN[byte] !== 1 || ++this.#length > MAX_METHOD ? MALFORMED : 'more'
      case Step.target:
        if (byte === SP && this.#length > 0) return this.#go(Step.version, 0)
        if (byte <= SP || byte >= 0x7f) return MALFORMED
        return ++this.#length > this.#targetBytes ? TARGET_TOO_LONG : 'more'
      case Step.version:
        return this.#version(byte)
      case Step.cr:
        return byte === CR ? this.#go(Step.lf, 0) : MALFORMED
      default:
        return byte === LF ? 'ended' : MALFORMED
    }
  }

  #version(byte: number): 'more' | Refusal {
    const i = this.#length++
    const digit = byte >= 0x30 && byte <= 0x39
    if (i < VERSION.length) {
      if (byte === VERSION[i]) return 'more'
      return i === 5 && digit ? UNKNOWN_VERSION : MALFORMED
    }
    if (byte === 0x30 || byte === 0x31) return this.#go(Step.cr, 0)
    return digit ? UNKNOWN_VERSION : MALFORMED
  }

  #go(step: number, length: number): 'more' {
    this.#step = step
    this.#length = length
    return 'more'
  }
}
