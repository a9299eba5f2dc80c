import { randomFillSync } from 'node:crypto'

const SPAN_DIGITS = 16
/** Asking the system for each identifier costs several times the identifier. Bytes. */
const STOCK = 4096
const NO_SPAN = '0'.repeat(SPAN_DIGITS)

/**
 * Makes identifiers of traces and spans: random hexadecimal digits in lower case, never all zero (W3C Trace Context 3.2.2). The first
 * half of a trace id is random for each stock of digits and the second half for each trace.
 */
export class TraceIds {
  readonly #bytes = Buffer.allocUnsafeSlow(STOCK)
  #digits = ''
  #next = 0
  #half = NO_SPAN

  /** The first half of the trace id whose second half was made last. 16 digits. */
  get half(): string {
    return this.#half
  }

  /** 16 digits: a span id, or the second half of a trace id. */
  next(): string {
    for (;;) {
      if (this.#next + SPAN_DIGITS > this.#digits.length) {
        this.#digits = randomFillSync(this.#bytes).toString('hex')
        this.#half = this.#digits.slice(0, SPAN_DIGITS)
        this.#next = SPAN_DIGITS
      }
      const at = this.#next
      this.#next = at + SPAN_DIGITS
      const id = this.#digits.slice(at, at + SPAN_DIGITS)
      if (id !== NO_SPAN) return id
    }
  }
}

/** A copy that keeps nothing else in memory: a part of a text keeps the whole of it. */
export function ownCopy(digits: string): string {
  return Buffer.from(digits, 'latin1').toString('latin1')
}
