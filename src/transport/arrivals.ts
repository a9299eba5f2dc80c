import type { ConnectionFacts } from '../flow/exchange.js'
import type { DeadlineOwner } from '../lib/deadline-timer.js'
import type { CarriedConnection, HandshakeFailure } from './contract.js'
import { ignore } from './pipes.js'

/** A connection at its PROXY header or its handshake. */
export class Arrival implements DeadlineOwner {
  place = -1
  giveUp: (why: HandshakeFailure) => void = ignore
  readonly #since: number
  readonly #allowed: number

  /** `allowed` in milliseconds; 0: for ever. */
  constructor(since: number, allowed: number) {
    this.#since = since
    this.#allowed = allowed
  }

  checkDeadlines(now: number): void {
    if (this.#allowed > 0 && now - this.#since > this.#allowed) this.giveUp('timeout')
  }
}

/** A connection of a TLS listener that is carried as plain bytes, as its listener counts and drains it. */
export class Carried implements DeadlineOwner {
  place = -1
  readonly facts: ConnectionFacts
  readonly #connection: CarriedConnection

  constructor(facts: ConnectionFacts, connection: CarriedConnection) {
    this.facts = facts
    this.#connection = connection
  }

  get ended(): Promise<void> {
    return this.#connection.ended
  }

  /** Both ends know when they are done: it has the whole time of the drain. */
  drain(): void {
    // Nothing is ended before the deadline.
  }

  cutOff(): boolean {
    this.#connection.finish()
    return true
  }

  reset(): void {
    this.#connection.reset()
  }

  /** Its pipe has a timer of its own. */
  checkDeadlines(): void {
    // The listener checks no deadline of it.
  }
}
