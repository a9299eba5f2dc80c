import type { Clock } from '../../lib/clock.js'
import type { BackoffRange } from '../../lib/concurrency.js'
import type { DeadLetterBounds, DeadLetters, NewDeadLetter, Outbox } from '../../store/outbox.js'
import type { DeliveryState } from './delivery-state.js'
import type { Way } from './destinations/registry.js'
import type { Sender } from './destinations/sender.js'
import { DeliveryQueue } from './queue.js'
import { OutboxSource, type RefusalRule, TrafficQueue } from './sources.js'

export interface DestinationParts {
  readonly state: DeliveryState
  /** Key of the target: a changed key means another sender. Contains secrets. */
  readonly target: string
  readonly way: Way
  readonly outbox: Outbox
  readonly deadLetters: DeadLetters
  readonly refusals: RefusalRule
  readonly letterBounds: DeadLetterBounds
  /** An event went to the dead letters. Must not throw. */
  readonly gaveUp: (letter: NewDeadLetter) => void
  readonly clock: Clock
  readonly backOff: BackoffRange
  readonly random: () => number
  readonly budget: number
  readonly mine: () => boolean
  readonly fault: (error: unknown) => void
}

/** Milliseconds in which events of traffic gather: many small batches cost more than their contents. */
const GATHER = 50

/**
 * One destination at work. Audit events and traffic events have separate queues: the first are never dropped and
 * may therefore wait for long, the second must not wait behind them.
 */
export class Destination {
  readonly #parts: DestinationParts
  readonly #audit: { readonly source: OutboxSource; readonly queue: DeliveryQueue } | undefined
  readonly #traffic: { readonly source: TrafficQueue; readonly queue: DeliveryQueue } | undefined
  #gathering: NodeJS.Timeout | undefined
  #handedOver = false

  constructor(parts: DestinationParts) {
    this.#parts = parts
    if ('unsupported' in parts.way) return
    const { sender } = parts.way
    const { state, clock, budget, refusals } = parts
    const audit = new OutboxSource({ ...parts, most: sender.most })
    const traffic = new TrafficQueue({ state, clock, budget, refusals })
    this.#audit = { source: audit, queue: new DeliveryQueue({ ...parts, source: audit, sender }) }
    this.#traffic = { source: traffic, queue: new DeliveryQueue({ ...parts, source: traffic, sender }) }
  }

  leadsTo(target: string): boolean {
    return this.#parts.target === target
  }

  get state(): DeliveryState {
    return this.#parts.state
  }

  /** Reason why events are not sent. */
  get unsupported(): string | undefined {
    return 'unsupported' in this.#parts.way ? this.#parts.way.unsupported : undefined
  }

  get sender(): Sender | undefined {
    return 'sender' in this.#parts.way ? this.#parts.way.sender : undefined
  }

  /** Audit events may wait. */
  wake(): void {
    this.#audit?.queue.wake()
  }

  /** Retries failed deliveries now. */
  hurry(): void {
    this.#audit?.queue.hurry()
    this.#traffic?.source.release()
    this.#traffic?.queue.hurry()
  }

  /** Takes a traffic event, or counts that it was dropped. */
  put(event: string): void {
    if (this.#traffic === undefined) this.#parts.state.drop(1)
    else if (this.#traffic.source.put(event)) {
      if (this.#traffic.source.isFull) this.#traffic.queue.wake()
      this.#gathering ??= setTimeout(() => this.#release(), GATHER).unref()
    }
  }

  /** Resolves when no traffic event is under way any more. */
  async drained(): Promise<void> {
    if (this.#parts.state.report.failures > 0) return
    this.#release()
    await this.#traffic?.queue.idle()
  }

  /** Ends the delivery of audit events, and the use of the store. Batches in flight get `grace` milliseconds. */
  async handOver(grace: number): Promise<void> {
    if (this.#handedOver) return
    this.#handedOver = true
    await this.#audit?.queue.stop(grace)
    try {
      await this.#audit?.source.flush()
    } catch (error) {
      // These events are delivered again.
      this.#parts.fault(error)
    }
  }

  /**
   * Waits up to `grace` milliseconds for the batch in flight. Undelivered audit events stay in the store; queued traffic
   * events are dropped.
   */
  async stop(grace: number): Promise<void> {
    clearTimeout(this.#gathering)
    await Promise.all([this.handOver(grace), this.#traffic?.queue.stop(grace)])
    this.#traffic?.source.discard()
    await this.sender?.close()
  }

  /** Sends the gathered events. */
  #release(): void {
    clearTimeout(this.#gathering)
    this.#gathering = undefined
    this.#traffic?.source.release()
    this.#traffic?.queue.wake()
  }
}
