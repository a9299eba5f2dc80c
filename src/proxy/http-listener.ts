import type { EntryFacts } from '../flow/flow.js'
import { unmapIpv4 } from '../lib/ip.js'
import type { TurnedAway } from '../lib/turned-away.js'
import type { ListenerUnit } from '../runtime/plan.js'
import type { Front, Handler, ListenLimits, ListenOptions, SideDoor } from '../transport/contract.js'
import { ConnectionGate, type ConnectionGateParts } from './connection-gate.js'
import type { ClientAddress } from './forwarded.js'
import type { Pipeline } from './pipeline.js'
import type { OpenPort } from './ports.js'
import type { ListenerTls } from './tls-table.js'

export interface HttpListenerParts extends ConnectionGateParts {
  readonly front: Front
  readonly pipeline: Pipeline
  readonly tls: ListenerTls
  /** What else is served at the address of a listener with TLS. */
  readonly beside: (unit: ListenerUnit) => SideDoor | undefined
  readonly forwarding: ClientAddress
  readonly limits: ListenLimits
  readonly turnedAway: TurnedAway
  readonly region: string
  /** Are refused requests written to the access log? */
  readonly logRefused: boolean
}

/**
 * Opens a listening socket and hands its connections to the gate and its exchanges to the pipeline. Until `accept` its
 * connections are closed unread. Rejects with the system's error.
 */
export async function openHttpListener(unit: ListenerUnit, parts: HttpListenerParts): Promise<OpenPort> {
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
  const gate = new ConnectionGate(entry, parts)
  const tell = (facts: Parameters<Handler['connection']>[0], fields: object, message: string): void => {
    if (!parts.logRefused) return
    const client = unmapIpv4(facts.peer.address)
    parts.log.info({ connection: facts.id, listener: facts.listener, client, ...fields }, message)
  }
  let accepting = false
  const handler: Handler = {
    connection: (facts) => accepting && gate.admit(facts),
    closed: (facts) => gate.closed(facts),
    exchange: (exchange) => parts.pipeline.serve(exchange, entry, gate.results(exchange.connection.id)),
    refused(facts, status, why) {
      parts.metrics.malformed(status, why)
      if (why !== 'overloaded') tell(facts, { status, failure: why }, 'refused')
    },
    handshakeFailed(facts, why) {
      parts.metrics.handshakeFailed(why)
      if (why !== 'overloaded') tell(facts, { failure: why }, 'handshake failed')
    },
    turnedAway: (facts, why) => parts.turnedAway.tell(name, why, unmapIpv4(facts.peer.address))
  }
  const beside = parts.beside(unit)
  const options: ListenOptions = {
    name,
    limits: parts.limits,
    exempt: (address) => parts.forwarding.isTrusted(unmapIpv4(address)),
    ...(tls ? { tls: parts.tls.table(entry) } : {}),
    ...(tls && beside !== undefined ? { beside } : {}),
    ...(proxyProtocol
      ? { proxyProtocol: { trusted: (address) => parts.forwarding.isTrusted(unmapIpv4(address)) } }
      : {})
  }
  const listening = await parts.front.listen({ host, port }, options, handler)
  return {
    address: listening.address,
    accept() {
      accepting = true
    },
    drain: (deadline) => listening.drain(deadline)
  }
}
