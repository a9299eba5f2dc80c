import type { ConnectionFacts } from '../flow/exchange.js'
import type { DeadlineOwner } from '../lib/deadline-timer.js'
import type { CarriedConnection, HandshakeFailure } from './contract.js'
import { ignore } from './pipes.js'

/** A connection during its PROXY header or its handshake. */
export class Arrival implements DeadlineOwner {
  place = -1
  giveUp: (why: HandshakeFailure) => void = ignore
  readonly #since: number
  readonly #allowed: number

  /** `allowed` in milliseconds; 0 for no limit. */
  constructor(since: number, allowed: number) {
    this.#since = since
    this.#allowed = allowed
  }

  checkDeadlines(now: number): void {
    if (this.#allowed > 0 && now - this.#since > this.#allowed) this.giveUp('timeout')
  }
}

/** A TLS passthrough connection, as its listener counts and drains it. */
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

  /** Both ends close by themselves: the connection gets the whole drain time. */
  drain(): void {
    // Nothing is closed before the deadline.
  }

  cutOff(): boolean {
    this.#connection.finish()
    return true
  }

  reset(): void {
    this.#connection.reset()
  }

  /** Its pipe has its own timer. */
  checkDeadlines(): void {
    // The listener checks no deadline of this connection.
  }
}
