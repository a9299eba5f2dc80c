import { createHash } from 'node:crypto'
import { clientKey } from './client-limits.js'
import type { Clock } from './clock.js'

/** Refused attempts of one address, and of one address with one token, that are looked at within `WINDOW`. */
const MOST_OF_ADDRESS = 100
const MOST_OF_TOKEN = 10
const WINDOW = 60_000
const MOST_KEYS = 20_000

interface Failures {
  count: number
  since: number
}

/**
 * Counts refused authentications, so that a client that repeats a bad token for ever costs no look at the store. Addresses of one
 * IPv6 network of 64 bits count as one.
 */
export class AuthThrottle {
  readonly #clock: Clock
  readonly #failures = new Map<string, Failures>()
  /** Whose token was good when it was last looked at, oldest first. */
  readonly #proven = new Set<string>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Seconds to wait before the next attempt with this token is looked at; 0: now. */
  wait(ip: string, token: string): number {
    return this.#left(keyOf(ip, token), MOST_OF_TOKEN)
  }

  /**
   * Seconds to wait because others at this address failed too often for a look at a token that has not proved good there, which
   * is no fault of the client that shows it; 0: it is looked at.
   */
  crowded(ip: string, token: string): number {
    return this.#proven.has(keyOf(ip, token)) ? 0 : this.#left(clientKey(ip), MOST_OF_ADDRESS)
  }

  accepted(ip: string, token: string): void {
    const key = keyOf(ip, token)
    this.#proven.delete(key)
    if (this.#proven.size >= MOST_KEYS) dropOldest(this.#proven)
    this.#proven.add(key)
  }

  refused(ip: string, token: string): void {
    const key = keyOf(ip, token)
    this.#proven.delete(key)
    this.#count(clientKey(ip))
    this.#count(key)
  }

  /** Forgets what is older than the window. */
  sweep(): void {
    const now = this.#clock.monotonic()
    for (const [key, { since }] of this.#failures) if (now - since >= WINDOW) this.#failures.delete(key)
  }

  #left(key: string, most: number): number {
    const failures = this.#failures.get(key)
    if (failures === undefined || failures.count < most) return 0
    return Math.max(0, Math.ceil((failures.since + WINDOW - this.#clock.monotonic()) / 1000))
  }

  #count(key: string): void {
    const now = this.#clock.monotonic()
    const failures = this.#failures.get(key)
    if (failures !== undefined && now - failures.since < WINDOW) failures.count++
    else {
      if (this.#failures.size >= MOST_KEYS) dropOldest(this.#failures)
      this.#failures.delete(key)
      this.#failures.set(key, { count: 1, since: now })
    }
  }
}

function dropOldest(keys: { keys(): Iterable<string>; delete(key: string): boolean }): void {
  for (const key of keys.keys()) {
    keys.delete(key)
    return
  }
}

/** Tokens are never kept. */
function keyOf(ip: string, token: string): string {
  return `${clientKey(ip)} ${createHash('sha256').update(token).digest('base64')}`
}
