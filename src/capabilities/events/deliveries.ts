import { setTimeout as sleep } from 'node:timers/promises'
import { Leases } from '../../control/cluster/leases.js'
import { everyRecord, type Records } from '../../control/records.js'
import type { Clock } from '../../lib/clock.js'
import { type BackoffRange, Coalescer, FirstFailure } from '../../lib/concurrency.js'
import { eventDestination } from '../../resources/event-destinations.js'
import { eventSubscription } from '../../resources/event-subscriptions.js'
import type { ResourceRecord } from '../../schema/field.js'
import type { DeadLetterBounds, DeliveryReport, NewDeadLetter } from '../../store/outbox.js'
import type { Place, Store, StoreLog } from '../../store/store.js'
import type { Subscribed } from '../../telemetry/traffic-events.js'
import { type DeliveryAnswer, DeliveryState } from './delivery-state.js'
import { Destination } from './destination.js'
import { type Way, wayTo } from './destinations/registry.js'
import type { SenderParts, SendFailure } from './destinations/sender.js'
import { REFUSAL_RULE, type RefusalRule } from './sources.js'
import { readSubscriptions } from './subscriptions.js'

export interface DeliveriesParts extends SenderParts {
  readonly clock: Clock
  readonly log: StoreLog
  readonly store: Store
  readonly records: Records
  /** In [0, 1). */
  readonly random: () => number
  /** Unique id of this process among those on one store; undefined if no other process uses the store. */
  readonly process?: string | undefined
  readonly backOff?: BackoffRange | undefined
  /** Milliseconds without a renewal of its leases after which another process delivers in the place of this one. */
  readonly patience?: number | undefined
  /** UTF-16 units of traffic events that wait for one destination. */
  readonly budget?: number | undefined
  /** Conditions for dropping an audit event. */
  readonly refusals?: RefusalRule | undefined
  /** Limits of the dead letters of one destination. */
  readonly letterBounds?: DeadLetterBounds | undefined
  /** Called with the subscriptions whenever they have changed. */
  readonly subscribed: (subscriptions: ReadonlyMap<string, readonly Subscribed[]>) => void
}

/** Pauses after failures of a destination. */
export const BACK_OFF: BackoffRange = { first: 1_000, longest: 300_000 }
/** Kinds of records that change destinations. */
const FOLLOWED = [eventDestination.name, eventSubscription.name]
/** Time without a lease renewal after which another process takes over the deliveries (ms). */
const PATIENCE = 6_000
/** UTF-16 units of traffic events that wait for one destination. */
const BUDGET = 16 * 1024 * 1024
const LETTER_BOUNDS: DeadLetterBounds = { letters: 1_000, bytes: 16 * 1024 * 1024 }
/** Maximum time at stop for sending traffic events, and then for batches in flight (ms). */
const LAST_WAIT = 2_000

/** All destinations at work. It follows the records of the store: a change counts from its revision on. */
export class Deliveries {
  readonly #parts: DeliveriesParts
  readonly #destinations = new Map<string, Destination>()
  readonly #leases: Leases | undefined
  readonly #failing = new FirstFailure()
  readonly #looking = new Coalescer(() => this.#lookSafely())
  #place: Place = { revision: -1, mark: undefined }
  #posted = 0
  #stopped = false
  #tick: NodeJS.Timeout | undefined

  constructor(parts: DeliveriesParts) {
    this.#parts = parts
    const { store, clock, process, patience = PATIENCE } = parts
    if (process !== undefined)
      this.#leases = new Leases({ store: store.outbox, clock, holder: process, expiry: patience })
  }

  /** Resumes delivery where the last process stopped, or once the store is available. */
  async start(): Promise<void> {
    try {
      await this.#look()
    } catch (error) {
      this.#fault(error)
    }
    if (this.#leases !== undefined) {
      this.#tick = setInterval(() => this.#renewSafely(), (this.#parts.patience ?? PATIENCE) / 3).unref()
    }
    this.hear()
  }

  /** The store has a new revision: there may be something to deliver, or another place to deliver to. Does not throw. */
  hear(): void {
    if (!this.#stopped) this.#looking.ask()
  }

  /** Waits until changes before the last call of `hear` are applied. Never rejects. */
  async followed(): Promise<void> {
    await this.#looking.answered()
  }

  /** Queues a traffic event, or counts it as dropped. */
  put(destination: string, event: string): void {
    this.#destinations.get(destination)?.put(event)
  }

  /** Returns the state of the delivery to a destination; undefined if there is no such destination. */
  answer(destination: string): DeliveryAnswer | undefined {
    const found = this.#destinations.get(destination)
    return found?.state.answer(found.unsupported)
  }

  /** Yields the delivery counters of each destination, by id. */
  *counts(): Iterable<readonly [string, DeliveryAnswer]> {
    for (const [id, { state, unsupported }] of this.#destinations) yield [id, state.answer(unsupported)]
  }

  /**
   * Sends one event immediately, ahead of the queue. Returns the failure, or undefined on success. Failed events are then
   * retried, too.
   */
  async test(destination: string, id: string, event: string): Promise<SendFailure | undefined> {
    const found = this.#destinations.get(destination)
    const { sender, unsupported = 'there is no such destination' } = found ?? {}
    if (sender === undefined) return { message: unsupported }
    const failure = await sender.send({ id, events: [event], list: false }, new AbortController().signal)
    if (failure === undefined) {
      found?.state.tookTest()
      found?.hurry()
    }
    return failure
  }

  /** Counts the dead letters again. Never rejects. */
  async lettersDropped(): Promise<void> {
    try {
      await this.#countLetters()
    } catch (error) {
      this.#fault(error)
    }
  }

  /** Call it before the store is closed: audit events that are not delivered stay there, for the next process. Events of traffic still go. */
  async handOver(): Promise<void> {
    this.#stopped = true
    clearInterval(this.#tick)
    await this.#looking.settle()
    await Promise.all([...this.#destinations.values()].map((one) => one.handOver(LAST_WAIT)))
    try {
      await this.#leases?.release()
    } catch (error) {
      this.#fault(error)
    }
  }

  /** After `handOver`. Events of traffic that do not go within a moment are dropped. */
  async stop(): Promise<void> {
    if (!this.#stopped) await this.handOver()
    const all = [...this.#destinations.values()]
    const waiting = new AbortController()
    const drained = Promise.all(all.map((one) => one.drained()))
    await Promise.race([drained, sleep(LAST_WAIT, undefined, { signal: waiting.signal }).catch(() => undefined)])
    waiting.abort()
    await Promise.all(all.map((one) => one.stop(LAST_WAIT)))
  }

  async #lookSafely(): Promise<void> {
    while (!this.#stopped) {
      try {
        await this.#look()
        await this.#wake()
        this.#failing.passed()
        return
      } catch (error) {
        this.#fault(error)
        await sleep(500)
      }
    }
  }

  /** Brings destinations and subscriptions up to the last revision. */
  async #look(): Promise<void> {
    const { store } = this.#parts
    const { complete, changes, place } = await store.changesAfter(this.#place, { kinds: FOLLOWED })
    if (this.#place.revision === -1 || !complete || changes.length > 0) {
      await this.#reload()
      await this.#renew()
    }
    this.#place = place
  }

  async #reload(): Promise<void> {
    const { store, records, subscribed } = this.#parts
    const there = new Set<string>()
    const reports = new Map((await store.outbox.reports()).map((report) => [report.destination, report]))
    for await (const page of everyRecord(store, eventDestination.name)) {
      for (const stored of page) {
        there.add(stored.id)
        const { record, unopened } = records.openAny(stored)
        if (unopened === undefined) await this.#follow(record, reports.get(stored.id))
        else this.#closed(stored.id, unopened.code)
      }
    }
    await this.#countLetters()
    for (const [id, destination] of this.#destinations) {
      if (there.has(id)) continue
      this.#destinations.delete(id)
      await destination.stop(0)
    }
    subscribed(await readSubscriptions(store, this.#parts.folders))
  }

  /** Its events wait until its secrets are entered again, or their key is restored. */
  #closed(destination: string, code: string): void {
    this.#parts.log.warn({ destination, code }, 'the secrets of an event destination do not open: its events wait')
  }

  async #follow(record: ResourceRecord, report: DeliveryReport | undefined): Promise<void> {
    const { id, body, secrets } = record
    const before = this.#destinations.get(id)
    const target = JSON.stringify([body.target, secrets])
    if (before?.leadsTo(target) === true) return
    await before?.stop(0)
    const state = before?.state ?? new DeliveryState(id, this.#parts.clock)
    if (before === undefined && report !== undefined) state.restore(report)
    const destination = this.#destination(id, state, target, wayTo(record, this.#parts))
    this.#destinations.set(id, destination)
    void destination.sender?.begin?.()
    destination.wake()
  }

  #destination(id: string, state: DeliveryState, target: string, way: Way): Destination {
    const { clock, store, random, log, backOff = BACK_OFF, budget = BUDGET } = this.#parts
    const { refusals = REFUSAL_RULE, letterBounds = LETTER_BOUNDS } = this.#parts
    const { outbox, deadLetters } = store
    const mine = () => !this.#stopped && (this.#leases?.holds(id) ?? true)
    const fault = (error: unknown) => this.#fault(error)
    const gaveUp = ({ eventId: event, attempts, reason }: NewDeadLetter) =>
      log.warn({ destination: id, event, attempts, reason }, 'an event was refused for good: it is a dead letter now')
    const rules = { backOff, budget, refusals, letterBounds }
    return new Destination({ state, target, way, outbox, deadLetters, clock, random, mine, fault, gaveUp, ...rules })
  }

  /** Destinations that got something start to deliver. */
  async #wake(): Promise<void> {
    const { destinations, revision } = await this.#parts.store.outbox.postedAfter(this.#posted)
    this.#posted = revision
    for (const id of destinations) this.#destinations.get(id)?.wake()
  }

  async #renewSafely(): Promise<void> {
    try {
      await this.#renew()
      this.#failing.passed()
    } catch (error) {
      this.#fault(error)
    }
  }

  /** Renews the leases of this process, takes over expired ones, and reads the reports of other processes. */
  async #renew(): Promise<void> {
    if (this.#leases === undefined || this.#stopped) return
    const supported = [...this.#destinations].filter(([, { unsupported }]) => unsupported === undefined)
    const fresh = await this.#leases.renew(supported.map(([id]) => id))
    for (const report of await this.#parts.store.outbox.reports()) {
      const { destination } = report
      if (fresh.includes(destination) || !this.#leases.holds(destination))
        this.#destinations.get(destination)?.state.restore(report)
    }
    await this.#countLetters()
    for (const id of fresh) this.#destinations.get(id)?.wake()
  }

  async #countLetters(): Promise<void> {
    for (const counts of await this.#parts.store.deadLetters.counts()) {
      this.#destinations.get(counts.destination)?.state.countLetters(counts)
    }
  }

  #fault(error: unknown): void {
    this.#failing.failed(() => this.#parts.log.warn({ err: error }, 'events wait: the store cannot be used'))
  }
}
