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

/** Flow of an admitted request. */
export type AdmittedFlow = Flow & { request: FlowRequest }

export interface AdmissionParts {
  readonly kinds: HeaderKinds
  readonly forwarding: ClientAddress
  readonly clock: Clock
  readonly endpoints: AddressFilter
  /** @default no Via is sent and loops are not detected */
  readonly via?: Via | undefined
  readonly tls: Pick<ListenerTls, 'misdirected'>
}

/** Endpoint of an exchange before its route is selected. */
export interface Place {
  readonly entry: EntryFacts
  /** Snapshot of the exchange. */
  readonly snapshot: Snapshot
  /** The edge; undefined if none has the host. */
  readonly found: EdgeAt | undefined
}

/** Converts a parsed request to the normalized flow that policies see, or returns why it is rejected. */
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

  /** Returns the request target in the lenient form; its host selects the edge. */
  target({ request: head, connection }: Exchange): RequestTarget | FailureAnswer {
    if (head.method === 'CONNECT' || head.method === 'TRACE') return requestErrors.method
    // Only HTTP/1.0 may omit Host; an empty one has no host.
    if (head.authority === '' && (head.version !== '1.0' || hasHost(head.headers))) return requestErrors.target
    const authority = head.authority === '' ? ownAuthority(connection) : head.authority
    return RequestTarget.fromRequestLine(head.method, head.target, authority, head.scheme) ?? requestErrors.target
  }

  /** Returns true if this proxy has already forwarded the request, or too many proxies have. */
  returned({ request }: Exchange): boolean {
    return this.#parts.via?.returned(request) === true
  }

  /** Adds this proxy to Via before a request is sent. */
  sends(request: FlowRequest): void {
    this.#parts.via?.write(request)
  }

  /** Returns the flow of an exchange for the target `asked` at `place`. */
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
    // Without TLS it may be redirected to HTTPS.
    return misdirected && plainAnswer(admitted, place.found, place.snapshot) === undefined
      ? flowErrors.MISDIRECTED_REQUEST
      : admitted
  }
}

/** Returns the form of paths on `edge`, behind the listener `entry`. */
export function formAt(edge: CompiledEdge | undefined, entry: EntryFacts): PathForm {
  return edge?.pathForm ?? entry.pathForm ?? 'strict'
}

function ownAuthority({ local }: ConnectionFacts): string {
  return formatAuthority(local.address, local.port)
}

/** Sets Host to the host that policies see. */
function setHost(headers: string[], authority: string): void {
  for (let i = 0; i < headers.length; i += 2) {
    if ((headers[i] as string).toLowerCase() === 'host') headers[i + 1] = authority
  }
}

function hasHost(headers: HeaderList): boolean {
  for (let i = 0; i < headers.length; i += 2) if ((headers[i] as string).toLowerCase() === 'host') return true
  return false
}
