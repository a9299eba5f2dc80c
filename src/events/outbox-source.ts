import type { Clock } from '../lib/clock.js'
import type { Outbox, OutboxEntry } from '../store/outbox.js'
import type { DeliveryState } from './delivery-state.js'
import type { Parcel, SendFailure } from './destinations/sender.js'
import type { Source } from './lane.js'

export interface OutboxSourceParts {
  readonly outbox: Outbox
  readonly state: DeliveryState
  readonly clock: Clock
  /** Most events of one parcel. */
  readonly most: number
  /** May this process deliver there now? */
  readonly mine: () => boolean
}

/** Entries that are read at once. */
const READ = 100
/** Milliseconds after which what was taken is written down, though more follows: what a crash may repeat. */
const WRITE_DOWN = 100

/** The audit events of one destination: they lie in the store until they were taken. */
export class OutboxSource implements Source {
  readonly #parts: OutboxSourceParts
  #read: OutboxEntry[] = []
  #sending: OutboxEntry[] = []
  #taken: OutboxEntry[] = []
  #writtenAt = 0

  constructor(parts: OutboxSourceParts) {
    this.#parts = parts
  }

  async next(): Promise<Parcel | undefined> {
    const { mine, most, outbox, state } = this.#parts
    if (!mine()) {
      // Another process goes on where the store says; what this one has read may be old by then.
      await this.#writeDown()
      this.#forget()
      return undefined
    }
    if (this.#sending.length === 0 && this.#read.length === 0) {
      await this.#writeDown()
      this.#read = await outbox.next(state.destination, READ)
    }
    if (this.#sending.length === 0) this.#sending = this.#read.splice(0, most)
    const [first] = this.#sending
    if (first === undefined) return undefined
    const events = this.#sending.map(({ body }) => body)
    return { id: idOf(first.body), events, list: false }
  }

  async done(): Promise<void> {
    const { clock, state } = this.#parts
    this.#taken.push(...this.#sending)
    state.took(this.#sending.length)
    this.#sending = []
    if (clock.monotonic() - this.#writtenAt >= WRITE_DOWN) await this.#writeDown()
  }

  async failed({ message }: SendFailure, failures: number): Promise<void> {
    const { outbox, state } = this.#parts
    await this.#writeDown()
    state.failed(message, failures, await outbox.count(state.destination))
    await outbox.report(state.report)
  }

  /** Writes down what was taken. */
  async flush(): Promise<void> {
    await this.#writeDown()
  }

  async #writeDown(): Promise<void> {
    const { clock, outbox, state } = this.#parts
    const last = this.#taken.at(-1)
    if (last === undefined) return
    await outbox.delivered(last, state.report)
    this.#taken = []
    this.#writtenAt = clock.monotonic()
  }

  #forget(): void {
    this.#read = []
    this.#sending = []
    this.#taken = []
  }
}

/** The id of the event, which its text begins with. */
function idOf(body: string): string {
  return (JSON.parse(body) as { readonly event_id: string }).event_id
}
