import type { EventRecorder, RecordedWrite } from '../control/calls.js'
import { Records } from '../control/records.js'
import { newId } from '../lib/id.js'
import type { Json } from '../lib/json.js'
import type { Sealer } from '../lib/seal.js'
import type { Store, StoreLog, StoreTransaction } from '../store/store.js'
import { Deliveries, type DeliveriesParts } from './deliveries.js'
import type { DeliveryAnswer } from './delivery-state.js'
import { Recorder } from './recorder.js'
import { envelope } from './subscriptions.js'
import { TrafficEventQueue } from './traffic.js'

export interface EventsOptions
  extends Pick<
    DeliveriesParts,
    | 'outbound'
    | 'clock'
    | 'folders'
    | 'stdout'
    | 'random'
    | 'process'
    | 'backOff'
    | 'patience'
    | 'budget'
    | 'refusals'
    | 'letterBounds'
  > {
  readonly log: StoreLog
  readonly seal: Sealer
  /** Scheme, host and port of the API as clients see it, without a slash at the end. */
  readonly baseUrl: () => string
}

/** What a test of a destination came to. */
export type TestAnswer = {
  readonly delivered: boolean
  /** Why not; null when it was delivered. */
  readonly error: string | null
  readonly duration_ms: number
}

/** Events from their cause to their destinations. */
export class Events implements EventRecorder {
  /** Where traffic and agents say what happens. */
  readonly traffic: TrafficEventQueue
  readonly #options: EventsOptions
  readonly #recorder: Recorder
  #account = ''
  #store: Store | undefined
  #deliveries: Deliveries | undefined

  constructor(options: EventsOptions) {
    const { clock, baseUrl, folders } = options
    const account = () => this.#account
    this.#options = options
    this.#recorder = new Recorder({ clock, baseUrl, account, folders })
    const put = (destination: string, event: string) => this.#deliveries?.put(destination, event)
    const fault = (error: unknown) => options.log.warn({ err: error }, 'an event of traffic could not be written')
    this.traffic = new TrafficEventQueue({ clock, account, put, fault })
  }

  /** Before the first write: the store whose writes are recorded. Fails with a `StoreError`. */
  async attach(store: Store): Promise<Store> {
    this.#store = store
    this.#account = await store.outbox.account(newId('ac', this.#options.clock.wall()))
    return store
  }

  /** Begins to deliver what waits in the store. */
  async start(): Promise<void> {
    const { seal, ...options } = this.#options
    if (this.#store === undefined) throw new TypeError('start before attach')
    const deliveries = new Deliveries({
      ...options,
      store: this.#store,
      records: new Records(seal),
      subscribed: (subscriptions) => this.traffic.follow(subscriptions)
    })
    this.#deliveries = deliveries
    await deliveries.start()
  }

  async wants(tx: StoreTransaction, record: { kind: string; type: string | null }): Promise<boolean> {
    return await this.#recorder.wants(tx, record)
  }

  async record(tx: StoreTransaction, write: RecordedWrite): Promise<void> {
    await this.#recorder.record(tx, write)
  }

  /** The store has a new revision that serves here. Does not throw. */
  readonly served = (): void => this.#deliveries?.hear()

  /** Waits until destinations and subscriptions are as the last `served` wants them. Never rejects. */
  async followed(): Promise<void> {
    await this.#deliveries?.followed()
  }

  /** How the delivery to a destination goes; undefined when there is no such destination. */
  readonly deliveryOf = (destination: string): DeliveryAnswer | undefined => this.#deliveries?.answer(destination)

  /** Sends an event of the type `test.v0` to a destination, at once and once; `object` is what it shows. */
  readonly test = async (destination: string, object: Json): Promise<TestAnswer> => {
    const { clock } = this.#options
    const begun = clock.monotonic()
    const at = clock.wall()
    const id = newId('ev', at)
    const event = envelope({ id, type: 'test.v0', at, account: this.#account, principal: null, object })
    const missing = { message: 'events are not delivered yet' }
    const failure =
      this.#deliveries === undefined ? missing : await this.#deliveries.test(destination, id, JSON.stringify(event))
    const duration = Math.round(clock.monotonic() - begun)
    return { delivered: failure === undefined, error: failure?.message ?? null, duration_ms: duration }
  }

  /** Dead letters were dropped or given back: they are counted anew. Never rejects. */
  readonly lettersDropped = async (): Promise<void> => {
    await this.#deliveries?.lettersDropped()
  };

  /** What is counted of each destination, by id, for metrics. */
  *counts(): Iterable<readonly [string, DeliveryAnswer]> {
    if (this.#deliveries !== undefined) yield* this.#deliveries.counts()
  }

  /** Before the store is closed. Audit events that are not delivered stay in it; events of traffic still go. */
  async handOver(): Promise<void> {
    await this.#deliveries?.handOver()
  }

  /** What waits of the events of traffic gets a moment. */
  async stop(): Promise<void> {
    this.traffic.flush()
    await this.#deliveries?.stop()
  }
}
