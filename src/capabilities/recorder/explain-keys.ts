import { createHash, randomBytes } from 'node:crypto'
import type { Clock } from '../../lib/clock.js'

/** The field of a request that asks to explain it. */
export const EXPLAIN_HEADER = 'sluice-explain'
/** Maximum number of valid keys. */
const MOST_KEYS = 100

/** A key, as threads of this process know it. */
export interface KnownExplainKey {
  readonly hash: string
  /** Monotonic time, milliseconds. */
  readonly ends: number
}

/** Temporary keys of administrators: a request with such a key is explained. Only their hashes are kept, in memory. */
export class ExplainKeys {
  readonly #clock: Clock
  readonly #ends = new Map<string, number>()
  /** Expiry of the last key to expire (monotonic ms). */
  #latest = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Creates a key, with its hash for other threads. `lasting` is in milliseconds. Returns undefined if there are too many keys. */
  make(
    lasting: number
  ): { readonly key: string; readonly endsAt: number; readonly known: KnownExplainKey } | undefined {
    this.#sweep()
    if (this.#ends.size >= MOST_KEYS) return undefined
    const key = randomBytes(24).toString('base64url')
    const ends = this.#clock.monotonic() + lasting
    const known = { hash: hashOf(key), ends }
    this.learn(known)
    return { key, endsAt: this.#clock.wall() + lasting, known }
  }

  /** A key that another thread has made. */
  learn({ hash, ends }: KnownExplainKey): void {
    this.#ends.set(hash, ends)
    this.#latest = Math.max(this.#latest, ends)
  }

  /** Those that have not ended. */
  known(): KnownExplainKey[] {
    this.#sweep()
    return [...this.#ends].map(([hash, ends]) => ({ hash, ends }))
  }

  /** Is there a key that has not expired? */
  get some(): boolean {
    return this.#latest > this.#clock.monotonic()
  }

  accepts(key: string): boolean {
    const ends = this.#ends.get(hashOf(key))
    if (ends !== undefined && ends > this.#clock.monotonic()) return true
    this.#sweep()
    return false
  }

  #sweep(): void {
    const now = this.#clock.monotonic()
    for (const [hash, ends] of this.#ends) if (ends <= now) this.#ends.delete(hash)
  }
}

/** Hashes a key: lookups by hash reveal nothing about existing keys through timing. */
function hashOf(key: string): string {
  return createHash('sha256').update(key).digest('base64')
}
