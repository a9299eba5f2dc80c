import { type FailureAnswer, flowErrors, pathErrors, requestErrors } from '../flow/error-codes.js'
import type { ConnectionFacts, Exchange } from '../flow/exchange.js'
import { type EntryFacts, Flow, type FlowRequest } from '../flow/flow.js'
import { HeaderFields, type HeaderList } from '../flow/headers.js'
import { type PathForm, RequestTarget } from '../flow/target.js'
import type { Clock } from '../lib/clock.js'
import { formatAuthority } from '../lib/host.js'
import { canonicalAddress } from '../lib/ip.js'
import type { AddressFilter } from '../runtime/address-filter.js'
import type { CompiledEdge, EdgeAt } from '../runtime/http-edges.js'
import type { Snapshot } from '../runtime/snapshot.js'
import type { ClientAddress } from './client-address.js'
import { cleanRequest, type HeaderKinds, HeadRules } from './header-sanitizing.js'
import { plainAnswer } from './plain-http.js'
import type { ListenerTls } from './tls.js'
import type { Via } from './via.js'

/** The flow of a request that has been admitted. */
export type AdmittedFlow = Flow & { request: FlowRequest }

export interface AdmissionParts {
  readonly kinds: HeaderKinds
  readonly forwarding: ClientAddress
  readonly clock: Clock
  readonly endpoints: AddressFilter
  /** Absent: no Via is sent, and no loop is noticed. */
  readonly via?: Via | undefined
  readonly tls: Pick<ListenerTls, 'misdirected'>
}

/** Where an exchange is: what it is held to before any route is looked for. */
export interface Place {
  readonly entry: EntryFacts
  /** The one that the exchange is pinned to. */
  readonly snapshot: Snapshot
  /** Undefined where no edge claims the host. */
  readonly found: EdgeAt | undefined
}

/** Turns what an engine read into the flow that policies see, in its one normal form, or says why it is refused. */
export class Admission {
  readonly #kinds: HeaderKinds
  readonly #forwarding: ClientAddress
  readonly #clock: Clock
  readonly #parts: AdmissionParts

  constructor(parts: AdmissionParts) {
    this.#kinds = parts.kinds
    this.#forwarding = parts.forwarding
    this.#clock = parts.clock
    this.#parts = parts
  }

  /** What is asked for, in the lenient form: its host decides which edge serves it. */
  target({ request: head, connection }: Exchange): RequestTarget | FailureAnswer {
    if (head.method === 'CONNECT' || head.method === 'TRACE') return requestErrors.method
    // Only HTTP/1.0 may come without Host; an empty one names no host.
    if (head.authority === '' && (head.version !== '1.0' || hasHost(head.headers))) return requestErrors.target
    const authority = head.authority === '' ? ownAuthority(connection) : head.authority
    return RequestTarget.fromRequestLine(head.method, head.target, authority, head.scheme) ?? requestErrors.target
  }

  /** Has the request been here before, or gone through too many proxies? */
  returned({ request }: Exchange): boolean {
    return this.#parts.via?.returned(request) === true
  }

  /** Names this proxy to the upstream of a request that is about to be sent. */
  sends(request: FlowRequest): void {
    this.#parts.via?.write(request)
  }

  /** The flow of an exchange that asks for `asked` at `place`. */
  admit(
    exchange: Exchange,
    asked: RequestTarget,
    place: Place,
    results: Flow['results']
  ): AdmittedFlow | FailureAnswer {
    const { request: head, connection } = exchange
    const peer = canonicalAddress(connection.peer.address)
    const origin = this.#forwarding.origin(peer, connection.peer.port, head.headers, head.scheme)
    if (!this.#parts.endpoints.admits(place.snapshot, origin.address, { listener: connection.listener }))
      return requestErrors.restricted
    const misdirected = this.#parts.tls.misdirected(connection, asked.host, place.found?.edge, place.snapshot)
    if (misdirected && connection.tls !== undefined) return flowErrors.MISDIRECTED_REQUEST
    const pathForm = formAt(place.found?.edge, place.entry)
    const target = asked.in(pathForm, origin.scheme)
    if (typeof target === 'string') return pathErrors[target]
    const headers = cleanRequest(this.#kinds, head.headers, origin.trusted, exchange.upgrade === 'websocket')
    const { authority } = target
    if (head.authority === '') headers.unshift('Host', authority)
    else if (head.authority !== authority) setHost(headers, authority)
    this.#forwarding.write(headers, peer, origin, head.scheme, authority)
    const flow = new Flow(connection, place.entry, origin.address, origin.port)
    const fields = new HeaderFields(headers, true)
    const { body } = exchange.request
    if (body.framing.kind !== 'none') body.trailerRules = new HeadRules(this.#kinds, head.headers, fields)
    flow.request = {
      head,
      version: head.version,
      scheme: target.scheme,
      authority,
      method: head.method,
      target,
      pathForm,
      headers: fields,
      body,
      receivedAt: this.#clock.wall()
    }
    if (results !== undefined) flow.results = new Map(results)
    const admitted = flow as AdmittedFlow
    // Without TLS it may be sent to where its host is served with it.
    return misdirected && plainAnswer(admitted, place.found, place.snapshot) === undefined
      ? flowErrors.MISDIRECTED_REQUEST
      : admitted
  }
}

/** The form of paths on `edge`, behind the listener `entry`. */
export function formAt(edge: CompiledEdge | undefined, entry: EntryFacts): PathForm {
  return edge?.pathForm ?? entry.pathForm ?? 'strict'
}

function ownAuthority({ local }: ConnectionFacts): string {
  return formatAuthority(local.address, local.port)
}

/** The upstream receives the host that policies see. */
function setHost(headers: string[], authority: string): void {
  for (let i = 0; i < headers.length; i += 2) {
    if ((headers[i] as string).toLowerCase() === 'host') headers[i + 1] = authority
  }
}

function hasHost(headers: HeaderList): boolean {
  for (let i = 0; i < headers.length; i += 2) if ((headers[i] as string).toLowerCase() === 'host') return true
  return false
}
