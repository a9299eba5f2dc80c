import { randomFillSync } from 'node:crypto'

const SPAN_DIGITS = 16
/** Asking the system for each identifier costs several times the identifier. Bytes. */
const STOCK = 4096
const NO_SPAN = '0'.repeat(SPAN_DIGITS)

/** First half of trace ids, and the texts of `traceparent` that stand around the second one where nothing is sampled here. */
export interface FirstHalf {
  /** 16 digits. */
  readonly digits: string
  readonly before: string
  /** Its span id is that half: it needs one that no other span of the trace has, and there is none. */
  readonly after: string
}

/**
 * Makes identifiers of traces and spans: random hexadecimal digits in lower case, never all zero (W3C Trace Context 3.2.2). The first
 * half of a trace id is random for each stock of digits and the second half for each trace.
 */
export class TraceIds {
  readonly #bytes = Buffer.allocUnsafeSlow(STOCK)
  #digits = ''
  #next = 2 * STOCK
  #half: FirstHalf = { digits: NO_SPAN, before: '', after: '' }

  /** Of the trace id whose second half was made last. */
  get half(): FirstHalf {
    return this.#half
  }

  /** The third and fourth digit of what was made last, as a number: where the random digits of a trace id begin. */
  get leading(): number {
    return this.#bytes[(this.#next - SPAN_DIGITS) / 2 + 1] as number
  }

  /** 16 digits: a span id, or the second half of a trace id. */
  next(): string {
    for (;;) {
      if (this.#next + SPAN_DIGITS > this.#digits.length) {
        this.#digits = randomFillSync(this.#bytes).toString('hex')
        const digits = ownCopy(this.#digits.slice(0, SPAN_DIGITS))
        if (digits === NO_SPAN) continue
        this.#next = SPAN_DIGITS
        this.#half = { digits, before: ownCopy(`00-${digits}`), after: ownCopy(`-${digits}-00`) }
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
