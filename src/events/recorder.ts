import type { ChangeEvent, EventRecorder, RecordedWrite } from '../control/calls.js'
import type { Clock } from '../lib/clock.js'
import { newId } from '../lib/id.js'
import { eventDestination } from '../resources/event-destinations.js'
import { eventSubscription } from '../resources/event-subscriptions.js'
import { apiKey } from '../resources/identities.js'
import type { Posted, StoreTransaction } from '../store/store.js'
import type { EventFolders } from './destinations/local.js'
import { type EventPrincipal, envelope, readSubscriptions, type Subscribed } from './subscriptions.js'

export interface RecorderParts {
  readonly clock: Clock
  /** Scheme, host and port of the API as clients see it, without a slash at the end. */
  readonly baseUrl: () => string
  readonly account: () => string
  readonly folders: EventFolders | undefined
}

type Table = ReadonlyMap<string, readonly Subscribed[]>

/**
 * Matches the events of a write with the subscriptions as they stand within its transaction. Matching there and not at
 * delivery means: subscriptions of the time when it happened get it, no others do, and what no subscription takes is never stored.
 */
export class Recorder implements EventRecorder {
  readonly #parts: RecorderParts
  readonly #tables = new WeakMap<StoreTransaction, Promise<Table>>()

  constructor(parts: RecorderParts) {
    this.#parts = parts
  }

  async wants(tx: StoreTransaction, { kind, type }: { kind: string; type: string | null }): Promise<boolean> {
    // A write may subscribe and go on; what it does from then on is subscribed to.
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
    const { id, subject, key } = call.principal
    const credential = key === null ? null : { id: key, uri: `${this.#parts.baseUrl()}${apiKey.path}/${key}` }
    const principal: EventPrincipal = { id, subject, source: 'API', credential }
    const posted = events.flatMap((event) => this.#posts(event, table, principal, tx.at))
    if (posted.length > 0) await tx.post(posted)
  }

  /** Once to each destination, however many subscriptions lead there. */
  #posts({ type, object }: ChangeEvent, table: Table, principal: EventPrincipal, at: number): Posted[] {
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
