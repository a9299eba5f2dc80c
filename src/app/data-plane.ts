import type { Logger } from 'pino'
import type { Clock } from '../lib/clock.js'
import type { DescriptorShares } from '../lib/descriptor-shares.js'
import { isLinkLocal } from '../lib/http-client/addresses.js'
import type { InheritedSockets } from '../lib/inherited-sockets.js'
import { type Json, timestampText } from '../lib/json.js'
import { selfSigned } from '../lib/self-signed.js'
import type { Steps } from '../lib/slices.js'
import type { Options } from '../options/options.js'
import { trustingProxies } from '../proxy/client-address.js'
import { createTraffic, type Traffic, type TrafficParts } from '../proxy/data-plane.js'
import { FileServers } from '../proxy/files/file-servers.js'
import { HeaderKinds } from '../proxy/header-sanitizing.js'
import { type Found, HealthChecks, type ServerChecks } from '../proxy/health.js'
import type { RequestTracer } from '../proxy/observers.js'
import type { OutageJudge, OutageState } from '../proxy/server.js'
import { DevelopmentIdentity } from '../proxy/server-identity.js'
import type { TicketKeys } from '../proxy/ticket-keys.js'
import type { NameChange, ServerChange, TunnelGroups } from '../proxy/unit-servers.js'
import { Upstreams } from '../proxy/upstreams.js'
import { Via } from '../proxy/via.js'
import type { UnitNames } from '../runtime/names.js'
import type { Snapshot } from '../runtime/snapshot.js'
import type { EventSink } from '../telemetry/event-fields.js'
import type { ClientTransport, ServerTransport, SocketTransport } from '../transport/contract.js'
import { httpProxyBack } from '../transport/http-proxy/client.js'
import { nodeServerTransport } from '../transport/http-proxy/server.js'
import { codecBack } from '../transport/http1/forwarding.js'
import { codecServerTransport } from '../transport/http1/server.js'
import { byVersion, http2Back } from '../transport/http2/client.js'
import type { AccessLogOutput } from './access-log.js'
import type { TrafficFoundation } from './traffic-foundation.js'

type OfOptions = 'region' | 'limits' | 'timeouts' | 'forwarding' | 'via' | 'errorBodies' | 'tcp' | 'reserved'

/** Engines for the client side and the upstream side. */
const ENGINES = {
  'http-proxy': { front: nodeServerTransport, back: httpProxyBack },
  codec: { front: codecServerTransport, back: codecBack }
} as const

/** Handler on a shared TLS listener, with its address. */
type SharedListener = NonNullable<TrafficParts['beside']>

/** Dependencies of the data plane beside its foundation. State that is shared in the process comes from the caller. */
export interface DataPlaneParts {
  /** Live tunnels of agents. @default none */
  readonly tunnels?: TunnelGroups
  /** Receives events of traffic, and of servers that go down or come back. */
  readonly events: EventSink & { publish(type: typeof DOWN | typeof UP, object: Json): void }
  /** See `TrafficParts`. */
  readonly challenge: TrafficParts['challenge']
  /** Shown by TLS listeners for names without a certificate. */
  readonly development: DevelopmentIdentity
  /** Output of the access log. */
  readonly accessLog: Pick<AccessLogOutput, 'lines' | 'sample'>
  /** Sockets inherited by the process. @default this thread has none */
  readonly inherited?: InheritedSockets
  /** 32 bytes each: see `StickyCookies`. */
  readonly stickyKeys: readonly Uint8Array[]
  readonly ticketKeys: TicketKeys
  /** Creates traces, with the header fields that they take from peers. @default none */
  readonly tracing?: { readonly tracer: RequestTracer; readonly fields: ConstructorParameters<typeof HeaderKinds>[0] }
  /** Shares a TLS listener. @default none is shared */
  readonly beside?: SharedListener
  /** Source of connections, and limits of handshakes. @default this thread accepts connections */
  readonly sockets?: (transport: SocketTransport) => TrafficParts['sockets']
  readonly terminations?: TrafficParts['terminations']
  /** Number of workers, and the servers' state determined by the main thread. @default there is one thread */
  readonly learnt?: { readonly checks: ServerChecks; readonly judge: OutageJudge; readonly threads: number }
  /** Receives health changes that this thread detects. */
  readonly health?: ServerHealth
  /** Shared retry budgets of all threads. @default those of this thread */
  readonly budgetRecord?: ConstructorParameters<typeof Upstreams>[0]['budgetRecord']
}

/** Learns how servers do. Must not throw. */
export interface ServerHealth {
  outage(place: string, state: OutageState): void
  decided(check: string, found: Found | undefined): void
}

/** The data plane, without open ports: they open with the configuration. */
export interface DataPlane {
  readonly traffic: Traffic
  readonly upstreams: Upstreams
  /** The upstream side. */
  readonly clientTransport: ClientTransport
  /** Releases resources that traffic no longer needs, beside traffic. */
  settling(snapshot: Snapshot): Steps<void>
  /** Asks no server any more. */
  close(): void
}

/** The data plane over the network and `tunnels`. */
export function openDataPlane(options: Options, foundation: TrafficFoundation, parts: DataPlaneParts): DataPlane {
  const { clock, log, names, holder, observers, metrics, turnedAway } = foundation
  const {
    tunnels,
    events,
    challenge,
    development,
    stickyKeys,
    ticketKeys,
    beside,
    terminations,
    accessLog,
    inherited,
    tracing
  } = parts
  const engine = ENGINES[options.engine]
  const serverTransport = engine.front({ clock })
  const sockets = parts.sockets?.(serverTransport)
  const back = engine.back({ clock })
  const clientTransport = byVersion(back, http2Back({ clock, http1: back, windows: foundation.live.limits.windows }))
  const { learnt, health } = parts
  const checks = new HealthChecks({
    clientTransport,
    clock,
    decided: (check, found) => health?.decided(check, found)
  })
  const upstreams = new Upstreams({
    clock,
    ...(tunnels === undefined ? {} : { tunnels }),
    lookup: names.forSockets,
    names,
    ...(options.upstream_link_local ? {} : { refuses: isLinkLocal }),
    descriptors: foundation.live.limits.descriptors,
    files: fileServers(options, clock, foundation.live.limits.descriptors),
    keepAlive: () => foundation.live.limits.tcpKeepAlive ?? 0,
    certificate: (key) => holder.current().tables.certificates.at(key),
    ...(learnt ?? {
      checks,
      changed: serverChanges(log, events, holder.names),
      named: nameChanges(log),
      outage: (place, state) => health?.outage(place, state)
    }),
    retain: (keys) => clientTransport.retainUpstreams(keys),
    ...(parts.budgetRecord === undefined ? {} : { budgetRecord: parts.budgetRecord })
  })
  upstreams.cookies.useKeys(stickyKeys)
  const traffic = createTraffic({
    ...trafficOptions(options, foundation),
    development,
    ticketKeys,
    serverTransport: inherited === undefined ? serverTransport : takingOver(serverTransport, inherited),
    ...(sockets === undefined ? {} : { sockets }),
    ...(terminations === undefined ? {} : { terminations }),
    turnedAway,
    clientTransport,
    upstreams,
    challenge,
    observers,
    ...(tracing === undefined ? {} : { tracer: tracing.tracer }),
    holder,
    metrics,
    kinds: new HeaderKinds(tracing?.fields),
    clock,
    log,
    lines: accessLog.lines,
    accessLog: accessLog.sample,
    events,
    ...(beside === undefined ? {} : { beside })
  })
  return {
    traffic,
    upstreams,
    clientTransport,
    *settling({ tables }) {
      clientTransport.retainUpstreams(yield* upstreams.following(tables.upstreams))
    },
    close: () => closeUpstreams(clientTransport, checks)
  }
}

type FileOptions = Pick<Options, 'data' | 'store' | 'policy' | 'site_file' | 'file_folders'>

/** Creates the servers of file folders. The product's own files are never served. */
export function fileServers(
  { data, store, policy, site_file, file_folders: folders }: FileOptions,
  clock: Clock,
  descriptors?: DescriptorShares
): FileServers {
  const own = [data, store, policy, site_file].filter((path) => path?.startsWith('/'))
  return new FileServers({
    clock,
    own: own as string[],
    folders,
    ...(descriptors === undefined ? {} : { descriptors })
  })
}

/** Returns a transport that uses inherited sockets for their addresses. */
function takingOver(transport: ServerTransport, inherited: InheritedSockets): ServerTransport {
  return { listen: (at, ...how) => transport.listen('fd' in at ? at : inherited.at(at), ...how) }
}

/** A certificate for names that have none. */
export function developmentIdentity(zone: string, clock: Clock): DevelopmentIdentity {
  return new DevelopmentIdentity(() => selfSigned('Sluice development', developmentNames(zone), clock.wall()))
}

const DOWN = 'backend_server_down.v0'
const UP = 'backend_server_up.v0'
const LINES = {
  check: 'an upstream is down: its health check fails',
  traffic: 'an upstream is down: requests to it fail'
}

/** Logs and publishes an event for each server that goes down or comes back. */
function serverChanges(
  log: Logger,
  events: DataPlaneParts['events'],
  names: UnitNames
): (change: ServerChange) => void {
  return ({ backend, server, state: { state, reason, since }, by }) => {
    const fields = { backend, name: names.backendOf(backend) ?? backend, upstream: server, reason, by }
    if (state === 'down') log.warn(fields, LINES[by])
    else log.info(fields, 'an upstream is up again')
    const type = state === 'down' ? DOWN : UP
    if (!events.wants(type)) return
    const at = since === undefined ? null : timestampText(since)
    events.publish(type, { backend_id: backend, server, status: state, reason, seen_by: by, since: at })
  }
}

/** Logs when a server name no longer resolves, when its last addresses are dropped, and when it resolves again. */
function nameChanges(log: Logger): (change: NameChange) => void {
  let failing: ReadonlySet<string> = new Set()
  return ({ backend, name, state: { state, reason } }) => {
    const key = `${backend} ${name}`
    if (state === 'resolved') {
      if (!failing.has(key)) return
      failing = new Set([...failing].filter((one) => one !== key))
      log.info({ backend, name }, 'the name of an upstream resolves again')
      return
    }
    failing = new Set([...failing, key])
    if (state === 'stale')
      log.warn({ backend, name, reason }, 'the name of an upstream does not resolve: its last addresses are used')
    else log.warn({ backend, name, reason }, 'the name of an upstream does not resolve: it has no address')
  }
}

/** Stops health checks and closes connections to servers. */
function closeUpstreams(clientTransport: ClientTransport, checks: HealthChecks): void {
  checks.stop()
  clientTransport.close()
}

/** Returns the options of traffic. */
function trafficOptions(
  options: Options,
  { trusted, live, processId }: TrafficFoundation
): Pick<TrafficParts, OfOptions> {
  const { region } = options
  const { listen, listeners, agents, api, tcp_host, tcp_proxy_protocol } = options
  return {
    region,
    limits: live.limits,
    timeouts: live.timeouts,
    forwarding: trustingProxies(trusted),
    errorBodies: options.error_bodies,
    via: options.via === 'off' ? undefined : new Via(options.via, processId),
    tcp: { host: tcp_host ?? listen.host, proxyProtocol: tcp_proxy_protocol },
    reserved: [
      ...(listen.preset === true ? [] : [listen]),
      api.listen,
      ...(agents === undefined ? [] : [agents]),
      ...listeners.map((one) => one.listen)
    ]
  }
}

/** Returns the names in the development certificate. */
function developmentNames(zone: string): string[] {
  return ['localhost', '*.localhost', zone, `*.${zone}`, '127.0.0.1', '::1']
}
