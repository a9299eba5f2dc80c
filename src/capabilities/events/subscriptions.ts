import { everyRecord } from '../../control/records.js'
import type { Json } from '../../lib/json.js'
import { eventDestination } from '../../resources/event-destinations.js'
import { eventSubscription } from '../../resources/event-subscriptions.js'
import type { RecordOf } from '../../resources/resource.js'
import type { StoreReader } from '../../store/store.js'
import type { Subscribed } from '../../telemetry/traffic-events.js'
import type { EventFolders } from './destinations/folders.js'
import { unsupported } from './destinations/registry.js'

type Body = RecordOf<typeof eventSubscription>['body']

/** Reads all subscriptions by event type, without destinations that receive no events. */
export async function readSubscriptions(
  reader: StoreReader,
  folders: EventFolders | undefined
): Promise<ReadonlyMap<string, readonly Subscribed[]>> {
  const table = new Map<string, Subscribed[]>()
  let served: ReadonlySet<string> | undefined
  for await (const page of everyRecord(reader, eventSubscription.name)) {
    for (const { body } of page) {
      const { sources, destinations: named } = body as unknown as Body
      if (named.length === 0) continue
      served ??= await servedDestinations(reader, folders)
      const destinations = named.filter((id) => served?.has(id))
      if (destinations.length === 0) continue
      for (const source of sources) {
        const list = table.get(source.type) ?? []
        table.set(source.type, list)
        list.push({ ...source, destinations })
      }
    }
  }
  return table
}

/** Events that cannot be delivered are not stored. */
async function servedDestinations(
  reader: StoreReader,
  folders: EventFolders | undefined
): Promise<ReadonlySet<string>> {
  const served = new Set<string>()
  for await (const page of everyRecord(reader, eventDestination.name)) {
    for (const { id, body } of page) {
      if (unsupported(body as Readonly<Record<string, unknown>>, folders) === undefined) served.add(id)
    }
  }
  return served
}

/** Originator of an event, as the event shows it. */
export type EventPrincipal = {
  readonly id: string
  readonly subject: string
  readonly source: 'API' | 'Dashboard'
  /** The API key that was used; null for keys of the operator. */
  readonly credential: { readonly id: string; readonly uri: string } | null
}

/** An event as destinations get it. */
type Envelope = {
  /** `ev_` and a KSUID; the same in every repetition, so that a receiver can recognise it. */
  readonly event_id: string
  readonly event_type: string
  /** RFC 3339 with milliseconds, UTC. */
  readonly event_timestamp: string
  readonly account_id: string
  /** Null when no user caused it: traffic, agents. */
  readonly principal: EventPrincipal | null
  readonly object: Json
}

/** Contents of an envelope; `at` in milliseconds since the Unix epoch. */
interface EnvelopeParts {
  readonly id: string
  readonly type: string
  readonly at: number
  readonly account: string
  readonly principal: EventPrincipal | null
  readonly object: Json
}

export function envelope({ id, type, at, account, principal, object }: EnvelopeParts): Envelope {
  return {
    event_id: id,
    event_type: type,
    event_timestamp: new Date(at).toISOString(),
    account_id: account,
    principal,
    object
  }
}

/** Common fields of all envelopes. */
export type EventHead = Pick<Envelope, 'event_id' | 'event_type' | 'event_timestamp'>

/** Reads the head of an envelope from its text; undefined when the text is none. */
export function readHead(body: string): EventHead | undefined {
  try {
    const value = JSON.parse(body) as Readonly<Record<string, unknown>> | null
    const { event_id, event_type, event_timestamp } = value ?? {}
    if (typeof event_id !== 'string' || typeof event_type !== 'string' || typeof event_timestamp !== 'string')
      return undefined
    return { event_id, event_type, event_timestamp }
  } catch {
    return undefined
  }
}
