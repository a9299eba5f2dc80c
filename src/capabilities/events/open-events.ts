import { join } from 'node:path'
import type { Foundation } from '../../app/foundation.js'
import { partKey } from '../../app/opened-parts.js'
import { namesOptions, outboundRules } from '../../app/server-services.js'
import { ThreadedOutbound } from '../../lib/http-client/threaded.js'
import { newId, unpredictable } from '../../lib/id.js'
import type { Sealer } from '../../lib/seal.js'
import { isShared, storeAddress } from '../../options/catalogue.js'
import type { Options } from '../../options/options.js'
import { IN_MEMORY } from '../../options/values.js'
import { EventFolders } from './destinations/folders.js'
import { Events } from './events.js'

/** The events of this process, for the API. */
export const EVENTS = partKey<Events>('events')

/** The open event service and its folders. */
export interface OpenEvents {
  readonly events: Events
  readonly folders: EventFolders
}

/** Events without a store yet; their traffic events go through the bus from now on. Fails with `FILE_UNREADABLE`. */
export async function openEvents(options: Options, foundation: Foundation, seal: Sealer): Promise<OpenEvents> {
  const { clock, log, output, lookups, lifecycle, bus, publicUrl } = foundation
  const folders = eventFolders(options.events.folders, options.data, options.policy)
  const rules = await outboundRules(options)
  const outbound = new ThreadedOutbound({ ...rules, names: namesOptions(options) }, lookups)
  lifecycle.opens('requests of events', { outbound: () => outbound.close() })
  const events = new Events({
    outbound,
    folders,
    clock,
    log,
    seal,
    stdout: output ?? process.stdout,
    random: unpredictable,
    baseUrl: publicUrl.read,
    process: isShared(storeAddress(options)) ? newId('proc', clock.wall()) : undefined
  })
  lifecycle.opens('events', { shared: () => events.handOver(), events: () => events.stop() })
  bus.connect(events.traffic)
  return { events, folders }
}

/** The folders that the operator names for files of events; by default one of their own in the data folder. */
function eventFolders(named: readonly string[] | undefined, data: string, policy: string | undefined): EventFolders {
  const spared = data === IN_MEMORY ? undefined : join(data, 'events')
  const own = [...(data === IN_MEMORY ? [] : [data]), ...(policy === undefined ? [] : [policy])]
  return new EventFolders({ folders: named ?? (spared === undefined ? [] : [spared]), own, spared })
}
