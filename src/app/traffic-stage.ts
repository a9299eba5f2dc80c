import type { OpenClusterLimits } from '../capabilities/cluster-limits/open.js'
import type { Events } from '../capabilities/events/events.js'
import type { ExchangeRecorder } from '../capabilities/recorder/exchange-recorder.js'
import type { OpenTelemetry } from '../capabilities/traces/open.js'
import type { Agents } from '../capabilities/tunnel/agents/agents.js'
import { sharesListener } from '../capabilities/tunnel/open-agents.js'
import { acceptingSockets } from '../capabilities/workers/sockets/accepting.js'
import { SocketDealer } from '../capabilities/workers/sockets/dealer.js'
import { HandedTunnels } from '../capabilities/workers/sockets/handed-tunnels.js'
import type { FromServing } from '../capabilities/workers/sockets/protocol.js'
import type { HeldTunnels } from '../capabilities/workers/sockets/tunnel-outlet.js'
import { TrafficThreads } from '../capabilities/workers/threads.js'
import { withoutThreads } from '../capabilities/workers/without-threads.js'
import type { Login } from '../features/login/service.js'
import { clockOrigin } from '../lib/clock.js'
import { CodedError } from '../lib/errors.js'
import { canonicalAddress } from '../lib/ip.js'
import type { Sealer } from '../lib/seal.js'
import { MadeRecords } from '../lib/shared-records.js'
import type { Options } from '../options/options.js'
import { trustingProxies } from '../proxy/client-address.js'
import { BUDGET_NUMBERS, budgetName } from '../proxy/retries.js'
import { OwnTerminationPlaces } from '../proxy/tcp-termination.js'
import { OwnTicketKeys } from '../proxy/ticket-keys.js'
import { type DataPlane, developmentIdentity, openDataPlane, type SharedListener } from './data-plane.js'
import { startErrors } from './errors.js'
import type { Foundation, Host } from './foundation.js'
import type { Drained } from './stop.js'

interface TrafficStage {
  readonly agents: Agents
  readonly seal: Sealer
  readonly beside: SharedListener | undefined
  readonly telemetry: Pick<OpenTelemetry, 'tracer' | 'spans'>
}

/** Dependencies of workers beside the data plane. */
interface BesideThreads {
  readonly events: Events
  readonly login: Login
  readonly cluster: OpenClusterLimits
  readonly recorder: ExchangeRecorder
}

/** The data plane of a process, with the threads that carry its traffic, if there are any. */
interface OpenTraffic extends DataPlane {
  /** Records shared by all threads; undefined if there is one thread. */
  readonly records: MadeRecords | undefined
  readonly ticketKeys: OwnTicketKeys
  /** Tunnels of agents that are connected here, or were until now to the predecessor process. */
  readonly tunnels: HeldTunnels
  /** Starts the workers; undefined if this thread carries traffic. */
  begin(beside: BesideThreads): TrafficThreads | undefined
}

/** Number of this thread among those that share records. */
const OWN_NUMBER = 0

/** Returns the handler on a shared traffic listener. Throws a CodedError `AGENTS_ADDRESS`. */
export function besideTraffic(options: Options, agents: Agents): SharedListener | undefined {
  const { agents: at, listeners } = options
  return at !== undefined && sharesListener(options, listeners) ? { at, handler: agents.shared } : undefined
}

/** The data plane of this process. Throws a CodedError `WORKERS`: the options do not go with threads. */
export async function openTraffic(
  options: Options,
  { threads: wanted, predecessor }: Host,
  foundation: Foundation,
  { agents, seal, beside, telemetry: { tracer, spans } }: TrafficStage
): Promise<OpenTraffic> {
  const { clock, log, live, bus, challenges, lifecycle, trusted, holder, metrics, lookups } = foundation
  const { accessLog, sockets: inherited, limiter, limitsElsewhere } = foundation
  const [against] = wanted === undefined ? [] : withoutThreads(options)
  if (against !== undefined) throw new CodedError(startErrors.WORKERS, against)
  const keys = { sticky: seal.derive('sticky'), login: seal.derive('login') }
  const development = developmentIdentity(options.zone, clock)
  // Threads show the same one.
  const shown = wanted === undefined ? undefined : await development.ready()
  const ticketKeys = new OwnTicketKeys(clock, predecessor?.ticketKeys)
  const forwarding = trustingProxies(trusted)
  const dealer =
    wanted === undefined
      ? undefined
      : new SocketDealer(new OwnTerminationPlaces(live.limits, (peer) => forwarding.isTrusted(canonicalAddress(peer))))
  const records = wanted === undefined ? undefined : new MadeRecords(OWN_NUMBER)
  const tunnels = tunnelsOf(agents, predecessor)
  let threads: TrafficThreads | undefined
  const dataPlane = openDataPlane(options, foundation, {
    health: {
      outage: (place, state) => threads?.outage(place, state),
      decided: (check, found) => threads?.decided(check, found)
    },
    tunnels,
    events: bus,
    challenge: (host, path) => challenges.answer(host, path),
    development,
    accessLog,
    inherited,
    stickyKeys: keys.sticky,
    ticketKeys,
    ...(tracer === undefined ? {} : { tracer }),
    ...(beside === undefined ? {} : { beside }),
    ...(records === undefined ? {} : { budgetRecord: (key: string) => records.of(budgetName(key), BUDGET_NUMBERS) }),
    ...(dealer === undefined ? {} : { sockets: () => acceptingSockets(dealer, inherited) })
  })
  const { traffic } = dataPlane
  lifecycle.opens({ clientTransport: dataPlane, traffic })
  return {
    ...dataPlane,
    ticketKeys,
    tunnels,
    records,
    begin({ events, login, cluster, recorder }) {
      if (wanted === undefined || shown === undefined || dealer === undefined || records === undefined) return undefined
      const { size, ...output } = wanted
      const { processId } = foundation
      const data = {
        options,
        level: log.level,
        clockOrigin: clockOrigin(clock),
        processId,
        keys,
        development: shown,
        descriptors: live.limits.descriptors.memory
      }
      const { servers } = dataPlane.upstreams
      const parts = {
        size,
        data,
        servers,
        ticketKeys,
        descriptors: live.limits.descriptors,
        dealer,
        limiter,
        limitsElsewhere,
        access: (lines: readonly string[]) => accessLog.take(lines),
        metrics,
        looked: lookups,
        output,
        log,
        clock,
        events,
        records,
        tunnels,
        spans,
        login,
        recorder,
        cluster: cluster.threads,
        challenges
      }
      const begun = new TrafficThreads(parts, holder.current())
      threads = begun
      cluster.count(() => begun.cluster())
      const ports = { drain: (within: number) => drained(dataPlane, begun, within) }
      const stop = () => {
        traffic.stop()
        void begun.stop()
      }
      lifecycle.opens({ traffic: { ports, stop } })
      return begun
    }
  }
}

function tunnelsOf(agents: Agents, predecessor: Host['predecessor']): HeldTunnels {
  if (predecessor === undefined) return agents.groups
  let send: (message: FromServing) => void = () => undefined
  const tunnels = new HandedTunnels(agents.groups, (message) => send(message))
  send = predecessor.tunnels(tunnels)
  return tunnels
}

/** Drains all connections. The workers' own counts are more exact than those of their places. */
async function drained({ traffic }: DataPlane, threads: TrafficThreads, within: number): Promise<Drained> {
  const [elsewhere, here] = await Promise.all([threads.drain(within), traffic.ports.drain(within)])
  return elsewhere ?? here
}
