import { flowErrors } from '../flow/error-codes.js'
import type { ConnectionFacts } from '../flow/exchange.js'
import { type EntryFacts, Flow } from '../flow/flow.js'
import type { TurnedAway } from '../lib/client-limits.js'
import type { Clock } from '../lib/clock.js'
import { canonicalAddress } from '../lib/ip.js'
import type { ListenerUnit } from '../runtime/plan.js'
import type { SnapshotHolder } from '../runtime/snapshot.js'
import type { Metrics } from '../telemetry/metrics.js'
import type { Handler, ListenLimits, ListenOptions, ServerTransport, SharedPortHandler } from '../transport/contract.js'
import type { ClientAddress } from './client-address.js'
import type { ConnectionLogins } from './connection-logins.js'
import type { Pipeline } from './pipeline.js'
import type { OpenPort } from './ports.js'
import type { ListenerTls } from './tls.js'

interface ConnectionPolicyParts {
  readonly holder: SnapshotHolder
  readonly clock: Clock
  readonly metrics: Metrics
  readonly log: { info(fields: object, message: string): void }
}

/** Runs `on_tcp_connect` before the first byte of a connection and keeps its results for the exchanges. */
class ConnectionPolicy {
  readonly #entry: EntryFacts
  readonly #parts: ConnectionPolicyParts
  readonly #results = new Map<number, NonNullable<Flow['results']>>()

  constructor(entry: EntryFacts, parts: ConnectionPolicyParts) {
    this.#entry = entry
    this.#parts = parts
  }

  /** Returns false if the connection must be closed unread. */
  admit(facts: ConnectionFacts): boolean {
    const { holder, metrics } = this.#parts
    const phase = holder.current().connectPolicy()?.phases.on_tcp_connect
    if (phase) {
      const flow = new Flow(facts, this.#entry, canonicalAddress(facts.peer.address), facts.peer.port)
      flow.units = holder.current()
      const verdict = phase.run(flow)
      const refused = verdict !== undefined
      if (refused) this.#refused()
      else if (flow.results !== undefined) this.#results.set(facts.id, flow.results)
      if (refused || flow.logs !== undefined) this.#log(facts, flow, refused)
      if (refused) return false
    }
    metrics.connections.inc()
    return true
  }

  /** Returns the results of `on_tcp_connect` for the exchanges of this connection. */
  results(connection: number): Flow['results'] {
    return this.#results.get(connection)
  }

  closed(facts: ConnectionFacts): void {
    this.#parts.metrics.connections.dec()
    this.#results.delete(facts.id)
  }

  /** Counts the connection as refused, because its requests are never read. */
  #refused(): void {
    const { holder, metrics, clock } = this.#parts
    metrics.failed(flowErrors.CONNECTION_REFUSED.code)
    const { tables, revision } = holder.current()
    const place = { route: undefined, edge: tables.edges.hosts.every?.id, inner: undefined, host: undefined }
    metrics.rates.count({ ...place, inside: false, revision, outcome: 'refused', at: clock.monotonic() })
  }

  #log(facts: ConnectionFacts, flow: Flow, refused: boolean): void {
    this.#parts.log.info(
      {
        connection: facts.id,
        listener: facts.listener,
        client: flow.clientAddress,
        refused,
        rule: flow.decidedBy?.rule,
        action: flow.decidedBy?.action,
        logs: flow.logs
      },
      'connection'
    )
  }
}

export interface HttpListenerParts extends ConnectionPolicyParts {
  readonly serverTransport: ServerTransport
  readonly pipeline: Pipeline
  readonly logins: ConnectionLogins
  readonly tls: ListenerTls
  /** Returns the other handler at the address of a TLS listener. */
  readonly beside: (unit: ListenerUnit) => SharedPortHandler | undefined
  readonly forwarding: ClientAddress
  readonly limits: ListenLimits
  readonly turnedAway: TurnedAway
  readonly region: string
  /** Logs refused requests in the access log. */
  readonly logRefused: boolean
}

/** Handlers and options of a listener's connections. */
export interface HttpService {
  readonly options: ListenOptions
  readonly handler: Handler
  /** Starts serving; earlier connections wait until then. */
  accept(): void
  /** Closes the connections that still wait. */
  close(): void
}

/** Passes the connections of a listener to the policy and their exchanges to the pipeline. */
export function httpService(unit: ListenerUnit, parts: HttpListenerParts): HttpService {
  const { name, host, port, tls, publicPort, proxyProtocol, pathForm } = unit
  const protocol = tls ? 'https' : 'http'
  const entry: EntryFacts = {
    id: name,
    protocol,
    host,
    port,
    region: parts.region,
    ...(publicPort === undefined ? {} : { publicPort }),
    ...(pathForm === undefined ? {} : { pathForm })
  }
  const policy = new ConnectionPolicy(entry, parts)
  const logRefusal = (facts: Parameters<Handler['connection']>[0], fields: object, message: string): void => {
    if (!parts.logRefused) return
    const client = canonicalAddress(facts.peer.address)
    parts.log.info({ connection: facts.id, listener: facts.listener, client, ...fields }, message)
  }
  let open: (served: boolean) => void = () => undefined
  const opened = new Promise<boolean>((resolve) => {
    open = resolve
  })
  const handler: Handler = {
    connection: (facts) => policy.admit(facts),
    closed(facts) {
      policy.closed(facts)
      parts.logins.closed(facts)
    },
    exchange: (exchange) => parts.pipeline.serve(exchange, entry, policy.results(exchange.connection.id)),
    refused(facts, status, why) {
      parts.metrics.malformed(status, why)
      if (why !== 'overloaded') logRefusal(facts, { status, failure: why }, 'refused')
    },
    handshakeFailed(facts, why, detail = {}) {
      parts.metrics.handshakeFailed(why)
      if (why !== 'overloaded') logRefusal(facts, { failure: why, ...detail }, 'handshake failed')
    },
    turnedAway: (facts, why) => parts.turnedAway.report(name, why, canonicalAddress(facts.peer.address))
  }
  const beside = parts.beside(unit)
  const options: ListenOptions = {
    name,
    limits: parts.limits,
    opened,
    filled: (full) => parts.turnedAway.filled(name, full),
    exempt: (address) => parts.forwarding.isTrusted(canonicalAddress(address)),
    ...(tls ? { tls: parts.tls.table(entry) } : {}),
    ...(tls && beside !== undefined ? { beside } : {}),
    ...(proxyProtocol
      ? { proxyProtocol: { trusted: (address) => parts.forwarding.isTrusted(canonicalAddress(address)) } }
      : {})
  }
  return {
    options,
    handler,
    accept() {
      open(true)
    },
    close() {
      open(false)
    }
  }
}

/** Opens a listening socket served by this thread. Rejects with the system's error. */
export async function openHttpListener(unit: ListenerUnit, parts: HttpListenerParts): Promise<OpenPort> {
  const { host, port, tls } = unit
  if (tls) await parts.tls.ready()
  const { options, handler, accept, close } = httpService(unit, parts)
  const listening = await parts.serverTransport.listen({ host, port }, options, handler)
  return {
    address: listening.address,
    accept,
    drain(deadline) {
      close()
      return listening.drain(deadline)
    }
  }
}
