import type { Clock } from '../../lib/clock.js'

/** Milliseconds that a document is used before it is asked for again. */
const FRESH = 3_600_000
/** Milliseconds in which a provider that did not answer is not asked again. */
const REST = 5_000

interface Known<D> {
  document: D | undefined
  askAt: number
  /** When the last question ended. */
  askedAt: number
  failure: unknown
  asking: Promise<D> | undefined
}

/**
 * Documents of issuers. One question at a time for each issuer; while it does not answer, the document of before serves, and
 * without one the failure is remembered for a moment, so that visitors cannot make us ask over and over.
 */
export class Discoveries<D> {
  readonly #clock: Clock
  readonly #fetch: (issuer: string) => Promise<D>
  readonly #known = new Map<string, Known<D>>()

  constructor(clock: Clock, fetch: (issuer: string) => Promise<D>) {
    this.#clock = clock
    this.#fetch = fetch
  }

  /** Rejects with the failure of the last question. */
  async get(issuer: string): Promise<D> {
    const now = this.#clock.monotonic()
    let known = this.#known.get(issuer)
    if (known === undefined) {
      known = { document: undefined, askAt: now, askedAt: now, failure: undefined, asking: undefined }
      this.#known.set(issuer, known)
    }
    if (now >= known.askAt) known.asking ??= this.#ask(issuer, known)
    if (known.document !== undefined) {
      // Callers that wait for it see the failure; the document of before is good enough.
      known.asking?.catch(() => undefined)
      return known.document
    }
    if (known.asking !== undefined) return known.asking
    throw known.failure
  }

  /** The document after one more question, unless the last one was a moment ago. Rejects as `get` does. */
  async renewed(issuer: string): Promise<D> {
    const known = this.#known.get(issuer)
    if (known === undefined) return this.get(issuer)
    if (known.asking === undefined && this.#clock.monotonic() < known.askedAt + REST) return this.get(issuer)
    known.asking ??= this.#ask(issuer, known)
    return known.asking
  }

  async #ask(issuer: string, known: Known<D>): Promise<D> {
    try {
      known.document = await this.#fetch(issuer)
      known.askAt = this.#clock.monotonic() + FRESH
      return known.document
    } catch (error) {
      known.failure = error
      known.askAt = this.#clock.monotonic() + REST
      throw error
    } finally {
      known.askedAt = this.#clock.monotonic()
      known.asking = undefined
    }
  }
}
