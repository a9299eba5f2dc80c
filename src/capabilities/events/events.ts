import type { ChangeEvent, EventRecorder, RecordedWrite } from '../../control/calls.js'
import { Records } from '../../control/records.js'
import type { Clock } from '../../lib/clock.js'
import { newId } from '../../lib/id.js'
import type { Json } from '../../lib/json.js'
import type { Sealer } from '../../lib/seal.js'
import { eventDestination } from '../../resources/event-destinations.js'
import { eventSubscription } from '../../resources/event-subscriptions.js'
import { apiKey } from '../../resources/identities.js'
import type { Posted, Store, StoreLog, StoreTransaction } from '../../store/store.js'
import { type Subscribed, TrafficEventQueue } from '../../telemetry/traffic-events.js'
import { Deliveries, type DeliveriesParts } from './deliveries.js'
import type { DeliveryAnswer } from './delivery-state.js'
import type { EventFolders } from './destinations/folders.js'
import { type EventPrincipal, envelope, readSubscriptions } from './subscriptions.js'

interface RecorderParts {
  readonly clock: Clock
  /** Scheme, host and port of the API as clients see it, without a slash at the end. */
  readonly baseUrl: () => string
  readonly account: () => string
  readonly folders: EventFolders | undefined
}

type Table = ReadonlyMap<string, readonly Subscribed[]>

/**
 * Matches the events of a write with the subscriptions within its transaction. Because events are matched then, and not at
 * delivery, exactly the subscriptions of that time receive them, and events without a subscription are never stored.
 */
class Recorder implements EventRecorder {
  readonly #parts: RecorderParts
  readonly #tables = new WeakMap<StoreTransaction, Promise<Table>>()

  constructor(parts: RecorderParts) {
    this.#parts = parts
  }

  async wants(tx: StoreTransaction, { kind, type }: { kind: string; type: string | null }): Promise<boolean> {
    // A write may create a subscription; it applies to later events of the same write.
    if (kind === eventSubscription.name) this.#tables.delete(tx)
    return type !== null && (await this.#table(tx)).has(type)
  }

  async record(tx: StoreTransaction, { call, events, touched }: RecordedWrite): Promise<void> {
    if (touched.some(({ kind }) => kind === eventSubscription.name)) this.#tables.delete(tx)
    for (const { kind, id, after } of touched) {
      if (kind === eventDestination.name && after === undefined) await tx.withdraw(id)
    }
    if (events.length === 0) return
    const table = await this.#table(tx)
    const { id, subject, key, source = 'API' } = call.principal
    const credential = key === null ? null : { id: key, uri: `${this.#parts.baseUrl()}${apiKey.path}/${key}` }
    const principal: EventPrincipal = { id, subject, source, credential }
    const posted = events.flatMap((event) => this.#posts(event, table, principal, tx.at))
    if (posted.length > 0) await tx.post(posted)
  }

  /** Once to each destination, however many subscriptions lead there. */
  #posts(
    { type, object }: Pick<ChangeEvent, 'type' | 'object'>,
    table: Table,
    principal: EventPrincipal,
    at: number
  ): Posted[] {
    const subscribed = type === null ? undefined : table.get(type)
    if (type === null || subscribed === undefined) return []
    const { account, clock } = this.#parts
    const id = newId('ev', clock.wall())
    const body = JSON.stringify(envelope({ id, type, at, account: account(), principal, object }))
    const destinations = new Set(subscribed.flatMap((one) => one.destinations))
    return [...destinations].map((destination) => ({ destination, body }))
  }

  #table(tx: StoreTransaction): Promise<Table> {
    const known = this.#tables.get(tx)
    if (known !== undefined) return known
    const reading = readSubscriptions(tx, this.#parts.folders)
    this.#tables.set(tx, reading)
    return reading
  }
}

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

/** Result of a destination test. */
type TestAnswer = {
  readonly delivered: boolean
  /** Why not; null when it was delivered. */
  readonly error: string | null
  readonly duration_ms: number
}

/** Receives the account and the subscriptions. Must not throw. */
type TrafficSubscriber = (account: string, subscriptions: ReadonlyMap<string, readonly Subscribed[]>) => void

/** Events from their cause to their destinations. */
export class Events implements EventRecorder {
  /** Queue for events of traffic and agents. */
  readonly traffic: TrafficEventQueue
  readonly #options: EventsOptions
  readonly #recorder: Recorder
  #account = ''
  #store: Store | undefined
  #subscriptions: ReadonlyMap<string, readonly Subscribed[]> = new Map()
  readonly #followers = new Set<TrafficSubscriber>()
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

  /** Attaches the store whose writes are recorded, before the first write. Fails with a `StoreError`. */
  async attach(store: Store): Promise<Store> {
    this.#store = store
    this.#account = await store.outbox.account(newId('ac', this.#options.clock.wall()))
    return store
  }

  /** Starts the delivery of stored events, also again after `handOver`. */
  async start(): Promise<void> {
    const { seal, ...options } = this.#options
    const before = this.#deliveries
    if (this.#store === undefined) throw new TypeError('start before attach')
    const deliveries = new Deliveries({
      ...options,
      store: this.#store,
      records: new Records(seal),
      subscribed: (subscriptions) => {
        this.traffic.follow(subscriptions)
        this.#subscriptions = subscriptions
        for (const follower of this.#followers) follower(this.#account, subscriptions)
      }
    })
    this.#deliveries = deliveries
    await deliveries.start()
    // Batches in flight still arrive.
    void before?.stop()
  }

  /**
   * Subscribes a worker that creates traffic events: calls `follower` with the subscriptions, now and after every change.
   * Returns a function that unsubscribes it. The worker passes its events to `written`.
   */
  subscribe(follower: TrafficSubscriber): () => void {
    this.#followers.add(follower)
    follower(this.#account, this.#subscriptions)
    return () => this.#followers.delete(follower)
  }

  /** Takes an event of traffic for a destination. Does not throw or block. */
  written(destination: string, event: string): void {
    this.#deliveries?.put(destination, event)
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

  /** Returns the delivery status of a destination; undefined if the destination does not exist. */
  readonly deliveryOf = (destination: string): DeliveryAnswer | undefined => this.#deliveries?.answer(destination)

  /** Sends an event of the type `test.v0` to a destination immediately, without retries; `object` is its content. */
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

  /** Counts the dead letters again after some were dropped or requeued. Never rejects. */
  readonly lettersDropped = async (): Promise<void> => {
    await this.#deliveries?.lettersDropped()
  };

  /** Yields the delivery counters of each destination, by id, for metrics. */
  *counts(): Iterable<readonly [string, DeliveryAnswer]> {
    if (this.#deliveries !== undefined) yield* this.#deliveries.counts()
  }

  /** Before the store is closed. Audit events that are not delivered stay in it; events of traffic still go. */
  async handOver(): Promise<void> {
    await this.#deliveries?.handOver()
  }

  /** Stops delivery after a short wait for queued traffic events. */
  async stop(): Promise<void> {
    this.traffic.flush()
    await this.#deliveries?.stop()
  }
}
