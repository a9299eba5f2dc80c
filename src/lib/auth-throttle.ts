import { createHash } from 'node:crypto'
import { clientKey } from './client-limits.js'
import type { Clock } from './clock.js'

/** Maximum refused attempts of one address within `WINDOW`. */
const MOST_OF_ADDRESS = 100
/** Maximum refused attempts of one address with one token within `WINDOW`. */
const MOST_OF_TOKEN = 10
/** Time for which attempts count (ms). */
const WINDOW = 60_000
/** Maximum number of tracked clients. */
const MOST_KEYS = 20_000

interface Failures {
  count: number
  since: number
}

/**
 * Counts failed authentications, so that a client that keeps repeating a bad token causes no store access. Addresses of one IPv6 /64
 * network count as one.
 */
export class AuthThrottle {
  readonly #clock: Clock
  readonly #failures = new Map<string, Failures>()
  /** Clients whose token was valid at the last check, oldest first. */
  readonly #proven = new Set<string>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Returns the seconds until the next attempt with this token is checked; 0 for now. */
  wait(ip: string, token: string): number {
    return this.#left(keyOf(ip, token), MOST_OF_TOKEN)
  }

  /** Returns the seconds until an unproven token from this address is checked, because other clients at the address failed too often; 0 for now. */
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

  /** Removes entries older than the window. */
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

/** Tokens are never stored. */
function keyOf(ip: string, token: string): string {
  return `${clientKey(ip)} ${createHash('sha256').update(token).digest('base64')}`
}
