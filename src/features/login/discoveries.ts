import type { Clock } from '../../lib/clock.js'

/** Cache time of a document (ms). */
const FRESH = 3_600_000
/** Delay before an unresponsive provider is contacted again (ms). */
const REST = 5_000

interface Known<D> {
  document: D | undefined
  askAt: number
  /** End of the last request. */
  askedAt: number
  failure: unknown
  asking: Promise<D> | undefined
}

/**
 * Discovery documents of issuers. One request at a time per issuer; while it does not respond, the previous document is used, and without
 * one the failure is cached briefly, so that visitors cannot cause repeated requests.
 */
export class Discoveries<D> {
  readonly #clock: Clock
  readonly #fetch: (issuer: string) => Promise<D>
  readonly #known = new Map<string, Known<D>>()

  constructor(clock: Clock, fetch: (issuer: string) => Promise<D>) {
    this.#clock = clock
    this.#fetch = fetch
  }

  /** Returns the document. Rejects with the failure of the last request. */
  async get(issuer: string): Promise<D> {
    const now = this.#clock.monotonic()
    let known = this.#known.get(issuer)
    if (known === undefined) {
      known = { document: undefined, askAt: now, askedAt: now, failure: undefined, asking: undefined }
      this.#known.set(issuer, known)
    }
    if (now >= known.askAt) known.asking ??= this.#ask(issuer, known)
    if (known.document !== undefined) {
      // Waiting callers see the failure; here the previous document suffices.
      known.asking?.catch(() => undefined)
      return known.document
    }
    if (known.asking !== undefined) return known.asking
    throw known.failure
  }

  /** Returns the document after another request, unless the last one was a moment ago. Rejects as `get` does. */
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
