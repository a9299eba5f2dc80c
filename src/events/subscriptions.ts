import { everyRecord } from '../control/records.js'
import { eventDestination } from '../resources/event-destinations.js'
import { eventSubscription } from '../resources/event-subscriptions.js'
import type { RecordOf } from '../resources/resource.js'
import type { StoreReader } from '../store/store.js'
import type { EventFolders } from './destinations/event-folders.js'
import { unsupported } from './destinations/registry.js'

/** One type that one subscription names, with where it goes. */
export interface Subscribed {
  readonly type: string
  /** Names of the fields of a traffic event; all of them when absent. */
  readonly fields?: readonly string[] | undefined
  /** CEL over `ev`; absent: every event. */
  readonly filter?: string | undefined
  /** Ids. */
  readonly destinations: readonly string[]
}

type Body = RecordOf<typeof eventSubscription>['body']

/** What all subscriptions together name, by type; without destinations that nothing is sent to. */
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

/** What would wait for ever is not stored. */
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
