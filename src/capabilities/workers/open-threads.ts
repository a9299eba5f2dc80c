import type { DataPlane, DataPlaneParts } from '../../app/data-plane.js'
import type { Foundation, Host } from '../../app/foundation.js'
import { partKey } from '../../app/opened-parts.js'
import { CHALLENGES, EVENT_DELIVERY, TUNNELS } from '../../app/ports.js'
import type { Ruled } from '../../app/stages.js'
import { FolderRules } from '../../features/waf/rules.js'
import { clockOrigin } from '../../lib/clock.js'
import { canonicalAddress } from '../../lib/ip.js'
import { MadeRecords } from '../../lib/shared-records.js'
import { trustingProxies } from '../../proxy/client-address.js'
import type { Drained } from '../../proxy/ports.js'
import { BUDGET_NUMBERS, budgetName } from '../../proxy/retries.js'
import { OwnTerminationPlaces } from '../../proxy/tcp-termination.js'
import { RECORDER } from '../recorder/running-recorder.js'
import { TELEMETRY } from '../traces/open.js'
import { acceptingSockets } from './sockets/accepting.js'
import { SocketDealer } from './sockets/dealer.js'
import { CLUSTER_THREADS } from './thread-parts.js'
import { TrafficThreads } from './threads.js'

/** The threads that carry the traffic of this process. */
export const THREADS = partKey<TrafficThreads>('threads that carry traffic')
/** Parts that the main thread has for its threads before they begin. */
export const THREAD_PLACE = partKey<ThreadPlace>('place of threads')

/** Number of the main thread among those that share records. */
const OWN_NUMBER = 0

interface ThreadPlace {
  /** Gives connections to threads. */
  readonly dealer: SocketDealer
  /** Records that all threads share. */
  readonly records: MadeRecords
  /** Returns the parts of the main thread's data plane, which accepts connections for `threads`. */
  dataPlaneParts(threads: () => TrafficThreads | undefined): Partial<DataPlaneParts>
}

/** Opens what threads need in the main thread. */
export function openThreadPlace({
  live,
  trusted,
  sockets
}: Pick<Foundation, 'live' | 'trusted' | 'sockets'>): ThreadPlace {
  const forwarding = trustingProxies(trusted)
  const terminations = new OwnTerminationPlaces(live.limits, (peer) => forwarding.isTrusted(canonicalAddress(peer)))
  const dealer = new SocketDealer(terminations)
  const records = new MadeRecords(OWN_NUMBER)
  return {
    dealer,
    records,
    dataPlaneParts: (threads) => ({
      health: {
        outage: (place, state) => threads()?.outage(place, state),
        decided: (check, found) => threads()?.decided(check, found)
      },
      budgetRecord: (key) => records.of(budgetName(key), BUDGET_NUMBERS),
      sockets: () => acceptingSockets(dealer, sockets)
    })
  }
}

/** Starts the threads, which a stop drains and ends together with the traffic of the main thread. */
export async function beginThreads(
  { options, foundation, dataPlane, policies, opened }: Ruled,
  { size, ...output }: NonNullable<Host['threads']>,
  { dealer, records }: ThreadPlace
): Promise<TrafficThreads> {
  const { clock, log, live, lifecycle, holder, processId } = foundation
  const { traffic, development, keys } = dataPlane
  const cluster = opened.find(CLUSTER_THREADS)
  const data = {
    options,
    level: log.level,
    clockOrigin: clockOrigin(clock),
    processId,
    keys,
    // Threads show the same one.
    development: await development.ready(),
    descriptors: live.limits.descriptors.memory
  }
  const parts = {
    size,
    data,
    output,
    foundation,
    dataPlane,
    dealer,
    records,
    events: opened.find(EVENT_DELIVERY),
    tunnels: opened.get(TUNNELS),
    spans: opened.find(TELEMETRY)?.spans,
    login: policies.login,
    rules: policies.rules instanceof FolderRules ? policies.rules : undefined,
    recorder: opened.get(RECORDER),
    cluster,
    challenges: opened.find(CHALLENGES)
  }
  const threads = new TrafficThreads(parts, holder.current())
  cluster?.count(() => threads.cluster())
  // In place of the steps of the data plane alone.
  lifecycle.opens('traffic', {
    drain: (within) => drained(dataPlane, threads, within),
    traffic() {
      traffic.stop()
      void threads.stop()
    }
  })
  return threads
}

/** Drains all connections. The workers' own counts are more exact than those of their places. */
async function drained({ traffic }: DataPlane, threads: TrafficThreads, within: number): Promise<Drained> {
  const [elsewhere, here] = await Promise.all([threads.drain(within), traffic.ports.drain(within)])
  return elsewhere ?? here
}
