import { MALFORMED, type Refusal, type StartLine, VALUE } from '../message-scanner.js'

const VERSION = Buffer.from('HTTP/1.')
const VERSION_END = 8
const STATUS_END = 12
const MAX_REASON = 4096
const [CR, LF, SP] = [0x0d, 0x0a, 0x20]

/** `HTTP/1.x SP status [SP reason]` (RFC 9112 4); the parser behind it takes RTSP, ICE and HTTP/2.0 for the same. */
export class StatusLine implements StartLine {
  #length = 0
  #reason = false
  #cr = false

  get fresh(): boolean {
    return this.#length === 0
  }

  reset(): void {
    this.#length = 0
    this.#reason = this.#cr = false
  }

  take(byte: number): 'more' | 'ended' | Refusal {
    if (this.#cr) return byte === LF ? 'ended' : MALFORMED
    const i = this.#length++
    if (i >= STATUS_END) return this.#rest(byte)
    return holds(byte, i) ? 'more' : MALFORMED
  }

  #rest(byte: number): 'more' | Refusal {
    if (byte === CR) this.#cr = true
    else if (!this.#reason && byte === SP) this.#reason = true
    else if (!this.#reason || VALUE[byte] !== 1 || this.#length > MAX_REASON) return MALFORMED
    return 'more'
  }
}

function holds(byte: number, at: number): boolean {
  if (at < VERSION.length) return byte === VERSION[at]
  if (at === VERSION_END) return byte === SP
  if (at === VERSION.length) return byte === 0x30 || byte === 0x31
  return byte >= (at === VERSION_END + 1 ? 0x31 : 0x30) && byte <= 0x39
}
