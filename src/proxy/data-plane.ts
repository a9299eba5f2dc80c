import type { Exchange } from '../flow/exchange.js'
import type { EntryFacts, InternalRequests } from '../flow/flow.js'
import type { TurnedAway } from '../lib/client-limits.js'
import type { Clock } from '../lib/clock.js'
import { canonicalAddress } from '../lib/ip.js'
import { AddressFilter } from '../runtime/address-filter.js'
import type { Snapshot, SnapshotHolder } from '../runtime/snapshot.js'
import { AccessLog, type AccessSample, ConnectionLog, type LineWriter } from '../telemetry/access-log.js'
import { type EventSink, TrafficEventSource } from '../telemetry/event-fields.js'
import type { Metrics } from '../telemetry/metrics.js'
import type { ClientTransport, ListenLimits, ServerTransport, SharedPortHandler } from '../transport/contract.js'
import { READ_BYTES } from '../transport/http1/wire.js'
import { Admission } from './admission.js'
import type { ClientAddress } from './client-address.js'
import { ConnectionLogins } from './connection-logins.js'
import { Forwarder } from './forwarder.js'
import type { HeaderKinds } from './header-sanitizing.js'
import { type HttpListenerParts, openHttpListener } from './http-listener.js'
import { PipelineRequests } from './internal-requests.js'
import type { Observers, RequestTracer } from './observers.js'
import { Pipeline } from './pipeline.js'
import { type Address, type PortsParts, ProcessPorts } from './ports.js'
import type { DevelopmentIdentity } from './server-identity.js'
import { TcpConnections, TcpListener, type TcpListenerParts } from './tcp-listener.js'
import { OwnTerminationPlaces, TcpTermination, type TerminationPlaces } from './tcp-termination.js'
import type { TicketKeys } from './ticket-keys.js'
import { ListenerTls, TlsContexts } from './tls.js'
import { TlsPassthroughs } from './tls-passthrough.js'
import type { Upstreams, UpstreamTimeouts } from './upstreams.js'
import type { Via } from './via.js'

/** Dependencies of listeners and pipelines. */
export interface TrafficParts {
  readonly serverTransport: ServerTransport
  readonly clientTransport: ClientTransport
  readonly upstreams: Upstreams
  /** See `PipelineParts`. */
  readonly challenge: (host: string, path: string) => Uint8Array | undefined
  /** See `PipelineParts`. */
  readonly observers: Observers
  /** Creates traces. @default no tracing */
  readonly tracer?: RequestTracer
  readonly holder: SnapshotHolder
  readonly metrics: Metrics
  readonly kinds: HeaderKinds
  readonly clock: Clock
  readonly log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
    error(fields: object, message: string): void
  }
  /** Writes the lines of the access log, which has its own switch. */
  readonly lines: LineWriter
  /** Selects the logged exchanges; undefined: no access log. */
  readonly accessLog: AccessSample | undefined
  /** Receives the traffic events. */
  readonly events: EventSink
  readonly region: string
  readonly limits: ListenLimits
  readonly turnedAway: TurnedAway
  readonly timeouts: UpstreamTimeouts & Pick<TcpListenerParts['timeouts'], 'headers' | 'half_closed' | 'drain'>
  readonly forwarding: ClientAddress
  /** See `AdmissionParts`. */
  readonly via?: Via | undefined
  /** See `PipelineParts`. */
  readonly errorBodies?: boolean
  /** Certificate of TLS listeners for names without their own. */
  readonly development: DevelopmentIdentity
  readonly tcp: { readonly host: string; readonly proxyProtocol: boolean }
  /** Handler that shares the TLS listener at this address. @default not shared */
  readonly beside?: { readonly at: Address; readonly handler: SharedPortHandler }
  /** Addresses of the process itself: see `PortsParts`. */
  readonly reserved: readonly Address[]
  readonly ticketKeys: TicketKeys
  /** Limits for handshakes of TCP edges. @default limits of this thread alone */
  readonly terminations?: TerminationPlaces
  /** Opens ports. @default sockets that this thread accepts and serves */
  readonly sockets?: (parts: SocketParts) => Pick<PortsParts, 'openHttp' | 'openTcp'>
}

/** Handlers for the connections of a port. */
export interface SocketParts {
  readonly http: HttpListenerParts
  readonly tcp: TcpListenerParts
}

/** Running data plane. */
export interface Traffic {
  readonly ports: ProcessPorts
  /** Sends requests of policies to internal endpoints. */
  readonly internal: InternalRequests
  /** Serves an exchange without a listener like a client's. Resolves when it has finished; never rejects. */
  serve(exchange: Exchange, entry: EntryFacts): Promise<void>
  /** Called when a snapshot becomes current. */
  serves(snapshot: Snapshot): void
  /** Stops background work. */
  stop(): void
}

/** Composes the data plane above the engine. Opens no port: ports open with a configuration. */
export function createTraffic(parts: TrafficParts): Traffic {
  const { holder, clock, metrics, log, lines, upstreams, accessLog, region, limits, timeouts, forwarding } = parts
  const contexts = new TlsContexts({ clock, ticketKeys: parts.ticketKeys })
  const tls: ListenerTls = new ListenerTls({
    clock,
    holder,
    contexts,
    development: parts.development,
    challenge: parts.challenge,
    passes: (...connection) => passthroughs.of(...connection),
    log
  })
  const endpoints = new AddressFilter('endpoints', { log: lines, refused: (enforced) => metrics.restricted(enforced) })
  const events = new TrafficEventSource(parts.events)
  const logins = new ConnectionLogins(parts.clientTransport)
  const pipeline = new Pipeline({
    holder,
    admission: new Admission({ kinds: parts.kinds, forwarding, clock, endpoints, tls, via: parts.via }),
    forwarder: new Forwarder({
      clientTransport: parts.clientTransport,
      upstreams,
      kinds: parts.kinds,
      logins,
      clock,
      metrics,
      timeouts,
      log
    }),
    observers: parts.observers,
    tracer: parts.tracer,
    errorBodies: parts.errorBodies === true,
    clock,
    metrics,
    challenge: parts.challenge,
    upstreamServes: (unit) => unit.form !== 'tunnels' || upstreams.servers.tunnelsOf(unit).tunnels.length > 0,
    listenerPort: (key) => ports.listener(key)?.port,
    accessLog: accessLog === undefined ? undefined : new AccessLog(lines, accessLog),
    events,
    log
  })
  const http = {
    serverTransport: parts.serverTransport,
    pipeline,
    logins,
    tls,
    beside: ({ host, port }: Address) =>
      parts.beside?.at.host === host && parts.beside.at.port === port ? parts.beside.handler : undefined,
    forwarding,
    limits,
    turnedAway: parts.turnedAway,
    region,
    holder,
    clock,
    metrics,
    log: lines,
    logRefused: accessLog !== undefined
  }
  const tcp = {
    holder,
    clock,
    metrics,
    endpoints,
    upstreams,
    termination: new TcpTermination({
      contexts,
      listeners: tls,
      places:
        parts.terminations ?? new OwnTerminationPlaces(limits, (peer) => forwarding.isTrusted(canonicalAddress(peer))),
      turnedAway: parts.turnedAway,
      log
    }),
    shared: Buffer.allocUnsafeSlow(READ_BYTES),
    lines: accessLog === undefined ? undefined : new ConnectionLog(lines),
    events,
    log,
    timeouts,
    forwarding,
    proxyProtocol: parts.tcp.proxyProtocol,
    limits,
    turnedAway: parts.turnedAway,
    region
  }
  const passthroughs = new TlsPassthroughs(tcp)
  const ports: ProcessPorts = new ProcessPorts({
    ...(parts.sockets ?? ownSockets)({ http, tcp }),
    tcpHost: parts.tcp.host,
    reserved: parts.reserved,
    timeouts,
    log
  })
  let certificates: Snapshot['tables']['certificates'] | undefined
  return {
    ports,
    internal: new PipelineRequests(pipeline, clock),
    serve: (exchange, entry) => pipeline.serveToEnd(exchange, entry, undefined),
    serves(snapshot) {
      void passthroughs.serves(snapshot)
      if (snapshot.tables.certificates === certificates) return
      certificates = snapshot.tables.certificates
      tls.ahead(snapshot)
    },
    stop: () => contexts.stop()
  }
}

function ownSockets({ http, tcp }: SocketParts): Pick<PortsParts, 'openHttp' | 'openTcp'> {
  return {
    openHttp: (unit) => openHttpListener(unit, http),
    openTcp: (edge, at, address) => TcpListener.open(edge, new TcpConnections(edge, at, tcp), address, tcp)
  }
}
