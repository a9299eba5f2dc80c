import type { Failure } from '../flow/exchange.js'
import { Backoff } from '../lib/concurrency.js'
import type { Dialer } from '../transport/contract.js'

/** How long a server that could not be reached is avoided. */
const AVOIDED = { first: 1_000, longest: 30_000 }
/** Failures in a row, after a connection was there, until the server is taken for down. */
const TOLERATED = 3

/** The server was never reached: nothing can be hoped of it for now. */
const UNREACHED: ReadonlySet<Failure> = new Set(['dial-refused', 'dial-timeout', 'dial-tls', 'no-tunnel'])
const BROKEN: ReadonlySet<Failure> = new Set(['upstream-gone', 'upstream-timeout', 'upstream-malformed'])

/**
 * One server that carries traffic: how busy it is, and whether it works as far as its traffic tells (passive health). A
 * server that is down is avoided for a pause that doubles with each failure and gets the next request after it.
 */
export class Server {
  readonly dialer: Dialer
  /** For logs: no secret, no credential. */
  readonly name: string
  #active = 0
  #failures = 0
  readonly #backoff = new Backoff(AVOIDED)
  #downUntil = 0

  constructor(dialer: Dialer, name: string) {
    this.dialer = dialer
    this.name = name
  }

  /** Exchanges and connections that it carries now. */
  get active(): number {
    return this.#active
  }

  /** `now`: monotonic, milliseconds. */
  isUp(now: number): boolean {
    return now >= this.#downUntil
  }

  /** Counts one that it carries. The way to end it is called once. */
  begin(): () => void {
    this.#active++
    let running = true
    return () => {
      if (running) this.#active--
      running = false
    }
  }

  succeeded(): void {
    this.#failures = 0
    this.#backoff.reset()
    this.#downUntil = 0
  }

  /** What ended the attempt; what the client did says nothing of the server. */
  failed(failure: Failure, now: number): void {
    if (!UNREACHED.has(failure) && !BROKEN.has(failure)) return
    this.#failures++
    if (!UNREACHED.has(failure) && this.#failures < TOLERATED) return
    this.#downUntil = now + this.#backoff.next()
    this.#failures = 0
  }
}
