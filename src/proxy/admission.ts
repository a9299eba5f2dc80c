import type { ConnectionFacts } from '../exchange/connection.js'
import type { Exchange, RequestHead } from '../exchange/exchange.js'
import { type EntryFacts, Flow, type FlowRequest } from '../exchange/flow.js'
import { HeaderFields, type HeaderList } from '../exchange/headers.js'
import { RequestTarget } from '../exchange/target.js'
import type { Clock } from '../lib/clock.js'
import { formatAuthority } from '../lib/host.js'
import type { AddressGate } from '../snapshot/address-gate.js'
import type { SnapshotHolder } from '../snapshot/holder.js'
import { type FailureAnswer, REFUSALS } from './failures.js'
import { type Forwarding, plainAddress } from './forwarded.js'
import type { HeaderKinds } from './header-kinds.js'
import { cleanRequest } from './hygiene.js'
import type { ListenerTls } from './tls-table.js'

export type AdmittedFlow = Flow & { request: FlowRequest }

export interface AdmissionParts {
  readonly kinds: HeaderKinds
  readonly forwarding: Forwarding
  readonly clock: Clock
  readonly holder: SnapshotHolder
  readonly endpoints: AddressGate
  readonly tls: ListenerTls
}

/** The request came on a connection whose handshake was not held against the edge of its host (RFC 9110 15.5.20). */
const MISDIRECTED: FailureAnswer = { status: 421, code: 'MISDIRECTED_REQUEST' }

/** Turns what an engine read into the flow that policies see, in its one normal form, or says why it is refused. */
export class Admission {
  readonly #kinds: HeaderKinds
  readonly #forwarding: Forwarding
  readonly #clock: Clock
  readonly #parts: AdmissionParts

  constructor(parts: AdmissionParts) {
    this.#kinds = parts.kinds
    this.#forwarding = parts.forwarding
    this.#clock = parts.clock
    this.#parts = parts
  }

  admit(exchange: Exchange, entry: EntryFacts, results: Flow['results']): AdmittedFlow | FailureAnswer {
    const { request: head, connection } = exchange
    if (head.method === 'CONNECT' || head.method === 'TRACE') return REFUSALS.method
    // Only HTTP/1.0 may come without Host; an empty one names nobody.
    const named = head.authority !== ''
    if (!named && (head.version !== '1.0' || hasHost(head.headers))) return REFUSALS.target
    const { local } = connection
    const authority = named ? head.authority : formatAuthority(local.address, local.port)
    const target = RequestTarget.fromRequestLine(head.method, head.target, authority, head.scheme)
    if (target === undefined) return REFUSALS.target
    const peer = plainAddress(connection.peer.address)
    const origin = this.#forwarding.origin(peer, connection.peer.port, head.headers)
    const refused = this.#refused(connection, origin.address, target.host, entry)
    if (refused !== undefined) return refused
    const headers = cleanRequest(this.#kinds, head.headers, origin.trusted, exchange.upgrade === 'websocket')
    if (!named) headers.unshift('Host', authority)
    this.#forwarding.write(headers, peer, origin.trusted, head.scheme, authority)
    const flow = new Flow(connection, entry, origin.address, origin.port)
    flow.request = this.#request(head, exchange, target, headers)
    if (results !== undefined) flow.results = new Map(results)
    return flow as AdmittedFlow
  }

  /** What keeps a client away from this host before any route is looked for. The snapshot is that of the exchange: this is its first turn. */
  #refused(
    connection: ConnectionFacts,
    client: string,
    host: string,
    { publicPort, port }: EntryFacts
  ): FailureAnswer | undefined {
    const { holder, endpoints, tls } = this.#parts
    const snapshot = holder.current()
    if (!endpoints.admits(snapshot, client, { listener: connection.listener })) return REFUSALS.restricted
    const edge = snapshot.edge(host, publicPort, port)
    return tls.misdirected(connection, host, edge, snapshot) ? MISDIRECTED : undefined
  }

  #request(head: RequestHead, exchange: Exchange, target: RequestTarget, headers: string[]): FlowRequest {
    return {
      head,
      version: head.version,
      method: head.method,
      target,
      headers: new HeaderFields(headers),
      body: exchange.request.body,
      receivedAt: this.#clock.wall()
    }
  }
}

function hasHost(headers: HeaderList): boolean {
  for (let i = 0; i < headers.length; i += 2) if ((headers[i] as string).toLowerCase() === 'host') return true
  return false
}
