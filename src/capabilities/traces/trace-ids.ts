import { randomFillSync } from 'node:crypto'

const SPAN_DIGITS = 16
/** Asking the system for each identifier costs several times the identifier. Bytes. */
const STOCK = 4096
/** The invalid span id: all zeros. */
const NO_SPAN = '0'.repeat(SPAN_DIGITS)

/** First half of trace ids, and the parts of an unsampled `traceparent` around the second half. */
export interface FirstHalf {
  /** 16 digits. */
  readonly digits: string
  readonly before: string
  /** Text after the second half; its span id is that half, because it must be unique in the trace, which has no other span here. */
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

  /** First half of the last created trace id. */
  get half(): FirstHalf {
    return this.#half
  }

  /** Third and fourth digit of the last created half, as a number: the start of the random digits of a trace id. */
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

/** Copies a substring, which would otherwise keep its whole parent string in memory. */
export function ownCopy(digits: string): string {
  return Buffer.from(digits, 'latin1').toString('latin1')
}
