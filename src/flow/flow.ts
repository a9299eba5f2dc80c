import type { Duplex } from 'node:stream'
import type { OutboundError, OutboundRequest, OutboundResponse } from '../lib/http-client/answer.js'
import type { AddressRules } from '../lib/ip.js'
import { UuidSource } from '../lib/uuid.js'
import type { InternalRequestError } from './error-codes.js'
import type { EventStreamMessage } from './event-stream.js'
import type { AbortSignalLike, Body, ConnectionFacts, Outgoing, RequestHead, Version } from './exchange.js'
import type { Explainer } from './explainer.js'
import type { HeaderFields, HeaderList } from './headers.js'
import type { PathForm, RequestTarget } from './target.js'
import type { FlowTrace } from './trace.js'
import type { Verdict } from './verdict.js'

/** What a flow may look up in the configuration that it is pinned to. */
export interface PinnedUnits {
  /** The networks of an IP policy; undefined when there is none with this id: it allows no address. */
  ipPolicy(id: string): AddressRules | undefined
  /** The value of a secret by the names of its vault and of itself. */
  secret(vault: string, name: string): string | undefined
  /** Is there an entry for this host, and port if one is given, that only policies lead to? */
  hasInternal(layer: 'http' | 'tcp', host: string, port: number | undefined): boolean
}

/** A configuration in which there is nothing. */
export const NO_UNITS: PinnedUnits = {
  ipPolicy: () => undefined,
  secret: () => undefined,
  hasInternal: () => false
}

const INTERNAL = '.internal'

/** Is this the host of an entry that no client reaches, only policies? `host`: lower-case. */
export function isInternal(host: string): boolean {
  return host.endsWith(INTERNAL)
}

/** The phases of a policy, in the order of their run. */
export const PHASES = ['on_tcp_connect', 'on_http_request', 'on_http_response', 'on_event_stream_message'] as const
/** Name of a phase. */
export type Phase = (typeof PHASES)[number]

const NO_HOSTS: readonly PublicHost[] = []

/** `endpoint.*`: what serves. An edge at one of its hostports; the listener itself for hosts that no edge claims. */
export interface EndpointFacts {
  readonly id: string
  readonly protocol: 'http' | 'https' | 'tcp' | 'tls'
  /** A wildcard as it is configured: `*.example.com`. */
  readonly host: string
  readonly port: number
}

/** The listener through which traffic came. */
export interface EntryFacts extends EndpointFacts {
  /** The port that clients know; then only edges with this port are served. */
  readonly publicPort?: number
  /** Of paths where the edge does not say; absent: strict. */
  readonly pathForm?: PathForm
  /** Configured name of the region that serves; '' when none. */
  readonly region: string
}

/** The request as policies see it and as it will be forwarded. */
export interface FlowRequest {
  /** As it came, before the normal form. */
  readonly head: RequestHead
  readonly version: Version
  /** Scheme that the client used, towards this process or a proxy that we trust. */
  readonly scheme: 'http' | 'https'
  /** Host and port that the client asked for, as `RequestTarget.authority`, whatever a policy has rewritten since. */
  readonly authority: string
  method: string
  /** Normal form; `url-rewrite` puts another in its place. */
  target: RequestTarget
  /** The form that paths have on the edge where the request is. */
  pathForm: PathForm
  /** Without hop-by-hop fields; with content-length as it came (the engine frames anew). */
  headers: HeaderFields
  /** The engine's body, or bytes that an action put in its place. */
  body: Body | Uint8Array
  /** Wall clock, milliseconds since the epoch. */
  readonly receivedAt: number
}

/** The response on its way to the client: the upstream's, or one of our own. */
export interface FlowResponse {
  status: number
  reason: string
  headers: HeaderFields
  body: Outgoing
  /** Made here (verdict, failure), not by an upstream. */
  readonly local: boolean
  /** The connection ends with it. */
  readonly close?: boolean
  /** Applied in order between body and client; a non-empty list means that the length is unknown. */
  transforms: (() => Duplex)[]
  trailers: (() => HeaderList) | undefined
}

/** A request for a path that is ours, such as that of a login: one module or action of the route answers it. */
export interface OwnRequest {
  /** Who answers; the same object for every request. */
  readonly by: object
  answer(flow: Flow): Verdict | Promise<Verdict>
}

/** A name and the public port under which an entry is known. */
interface PublicHost {
  readonly host: string
  readonly port: number
}

declare const held: unique symbol

/** A place in flows for one value of type `T`: what is worked out once per flow, or what one step leaves for a later one. */
export interface FlowSlot<T> {
  /** For people who look into a flow. */
  readonly name: string
  readonly [held]?: T
}

/** Declares a slot. The file that declares it fills it; other files read it through functions of that file. */
export function flowSlot<T>(name: string): FlowSlot<T> {
  return { name }
}

/** The field that carries the id of a request from hop to hop. */
export const REQUEST_ID = 'x-request-id'
/** As others write them: UUIDs, KSUIDs, hexadecimal numbers, with a prefix or without. Nothing that a log or a header could be cut by. */
const GIVEN_ID = /^[\w.:+/=@-]{1,128}$/
const uuids = new UuidSource()

function idOf(request: FlowRequest | undefined): string {
  const given = request?.headers.get(REQUEST_ID)
  return given !== undefined && GIVEN_ID.test(given) ? given : uuids.make(request?.receivedAt ?? Date.now())
}

/** Abort signal that never fires; the default of a flow. */
const NEVER: AbortSignalLike = { aborted: undefined, onAbort: () => () => undefined }

/**
 * What modules and policies see and change of one exchange, or of one connection before any exchange.
 *
 * Holds plain values and the seam's types only, never a Node request, response or socket. One flow lives as long
 * as its exchange; `vars` live as long as one phase.
 */
export class Flow {
  readonly connection: ConnectionFacts
  readonly entry: EntryFacts
  /** Changes with the edge that has the flow: what is internal sees itself. */
  endpoint: EndpointFacts
  /** The right-most untrusted address of the forwarding chain; without trusted proxies the peer. IPv4-mapped addresses are unmapped. */
  readonly clientAddress: string
  readonly clientPort: number
  /** The configuration that serves the flow from its first step to its last. */
  units: PinnedUnits = NO_UNITS
  /** Fires when the client has left or the exchange was given up: work for it stops. */
  signal: AbortSignalLike = NEVER
  /** How many requests of policies led here, one made for the other; 0 for what a client asked. */
  depth = 0
  request: FlowRequest | undefined = undefined
  response: FlowResponse | undefined = undefined
  /** The message of the response's event stream that is looked at; undefined outside of `on_event_stream_message`. */
  message: EventStreamMessage | undefined = undefined
  /** `vars.<name>`: values in the representation of the expression engine. Cleared between phases. */
  vars: Map<string, unknown> | undefined = undefined
  /** `actions.service.<name>.*`: the last execution of each action, by snake-case result name. */
  results: Map<string, Readonly<Record<string, unknown>>> | undefined = undefined
  /** Fields that are added to the answer, whatever makes it: name and value by turns. Added before `on_http_response` runs. */
  responseFields: string[] | undefined = undefined
  /** The request is for a reserved path: access control checks it, then the handler of the path answers. */
  reservedPath: OwnRequest | undefined = undefined
  /**
   * What policies will do with the content of the response: read it while it streams, or have all of it first. The upstream
   * is then asked for content that can be read here.
   */
  reads: 'stream' | 'whole' | undefined = undefined
  /** Bytes go to the upstream instead of the request, in a WebSocket that is accepted with these fields. */
  speaksBytes: { readonly headers: HeaderList } | undefined = undefined
  /** How the edge through which the request came is known; empty when it takes every host. */
  hosts: readonly PublicHost[] = NO_HOSTS
  /** Rule and action that ended the exchange. */
  decidedBy: { readonly phase: Phase; readonly rule: string; readonly action: string } | undefined = undefined
  /** Values of vaults that policies have read, where they must be known: they are shown nowhere. */
  secretsRead: Set<string> | undefined = undefined
  /** Takes down how the exchange is decided, where that is wanted. */
  explainer: Explainer<Flow> | undefined = undefined
  /** The trace that it belongs to, where traces are made. */
  trace: FlowTrace | undefined = undefined
  /** Slots and their values by turns. A flow fills a handful, so that a scan is faster than a map. */
  #slots: unknown[] | undefined
  #requestId: string | undefined
  #recorded: (() => Readonly<Record<string, unknown>>)[] | undefined
  #ends: (() => void)[] | undefined
  #forwards: (() => void)[] | undefined
  #over = false

  constructor(connection: ConnectionFacts, entry: EntryFacts, clientAddress: string, clientPort: number) {
    this.connection = connection
    this.entry = entry
    this.endpoint = entry
    this.clientAddress = clientAddress
    this.clientPort = clientPort
  }

  /**
   * What tells the request from all others, in logs here and at the upstream: `x-request-id` as a trusted peer or a policy has set it,
   * else a UUID of version 7. Made when it is read first.
   */
  get requestId(): string {
    this.#requestId ??= idOf(this.request)
    return this.#requestId
  }

  /** The value of a slot; undefined when there is none. */
  get<T>(slot: FlowSlot<T>): T | undefined {
    const slots = this.#slots
    if (slots === undefined) return undefined
    for (let i = 0; i < slots.length; i += 2) if (slots[i] === slot) return slots[i + 1] as T
    return undefined
  }

  /** Fills a slot, or empties it with undefined. */
  set<T>(slot: FlowSlot<T>, value: NoInfer<T> | undefined): void {
    this.#slots ??= []
    const slots = this.#slots
    for (let i = 0; i < slots.length; i += 2) {
      if (slots[i] !== slot) continue
      slots[i + 1] = value
      return
    }
    slots.push(slot, value)
  }

  /** The value of a secret in the configuration that serves the flow. */
  secret(vault: string, name: string): string | undefined {
    const value = this.units.secret(vault, name)
    if (value !== undefined) this.secretsRead?.add(value)
    return value
  }

  /** Records data with the exchange. `make` is called when they are read: there may be no log. It does not throw. */
  record(make: () => Readonly<Record<string, unknown>>): void {
    this.#recorded ??= []
    this.#recorded.push(make)
  }

  /** What `log` actions recorded, in order; undefined when they recorded nothing. */
  get logs(): readonly Readonly<Record<string, unknown>>[] | undefined {
    return this.#recorded?.map((make) => make())
  }

  /**
   * Makes `values` readable as `actions.service.<name>.*`; numbers may be plain, the expression engine converts by declared
   * type. What costs something is an accessor, which runs when an expression reads the field.
   */
  publish(name: string, values: Readonly<Record<string, unknown>>): void {
    this.results ??= new Map()
    this.results.set(name, values)
  }

  /** Calls `run` when the exchange is over, whatever ended it; at once when it is over already. `run` does not throw. */
  onEnd(run: () => void): void {
    if (this.#over) run()
    else if (this.#ends === undefined) this.#ends = [run]
    else this.#ends.push(run)
  }

  /**
   * Calls `run` when something came of forwarding, an answer or a failure, before any step changes `response`. Not called when
   * the exchange ends without being forwarded. `run` does not throw.
   */
  onForwarded(run: () => void): void {
    if (this.#forwards === undefined) this.#forwards = [run]
    else this.#forwards.push(run)
  }

  /** Called by the forwarder once `response` holds the result. */
  forwarded(): void {
    const forwards = this.#forwards
    this.#forwards = undefined
    if (forwards !== undefined) for (const run of forwards) run()
  }

  /** The exchange is over. Called by the owner of the flow; a second call does nothing. */
  end(): void {
    this.#over = true
    const ends = this.#ends
    this.#ends = undefined
    if (ends !== undefined) for (const run of ends) run()
  }
}

/** Terminates TLS on a connection whose bytes have not been read yet. */
export interface Termination {
  /** PEM; absent: the certificate that the name of the client's choice has here. One object is one certificate. */
  readonly identity?: { readonly chain: string; readonly privateKey: string }
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3'
  readonly maxVersion: 'TLSv1.2' | 'TLSv1.3'
  /** Absent: no certificate is asked for. */
  readonly clients?: {
    /** PEM texts, or ids of authorities; ids that are gone vouch for no client. */
    readonly authorities: readonly string[]
    /** `verified`: the authorities vouch for it. `any`: it shows one. `requested`: it may show one. */
    readonly must: 'verified' | 'any' | 'requested'
  }
}

/** What came of it: the facts of the handshake, or a word for why there was none; the connection has ended then. */
type Terminated =
  | { readonly kind: 'secure'; readonly tls: NonNullable<ConnectionFacts['tls']> }
  | { readonly kind: 'failed'; readonly why: string }

/** Ends TLS on the connection of a flow; once. */
type Terminate = (how: Termination) => Promise<Terminated>

const termination = flowSlot<Terminate>('flow.termination')

/** Lets the policy of a flow end TLS. */
export function offerTermination(flow: Flow, terminate: Terminate): void {
  flow.set(termination, terminate)
}

/** Takes the offer away from the flow, so that TLS ends once; undefined where it cannot end. */
export function takeTermination(flow: Flow): Terminate | undefined {
  const terminate = flow.get(termination)
  flow.set(termination, undefined)
  return terminate
}

/** Why an internal entry was not asked. */
interface InternalRefusal {
  readonly ok: false
  /** No such entry, one that the policy does not spell out, or policies that ask each other without end. */
  readonly code: InternalRequestError
  readonly message: string
  readonly timeMs: number
}

/** What a request to an internal entry comes to: a response, a failure, or why it was not asked. */
export type InternalAnswer = OutboundResponse | OutboundError | InternalRefusal

/** Requests of policies to internal entries. No network is between: the modules and the policy of the entry run as for a client. */
export interface InternalRequests {
  /** Asks the entry that the URL names on behalf of `flow`, in the configuration that `flow` is pinned to. Never rejects. */
  request(flow: Flow, request: OutboundRequest): Promise<InternalAnswer>
}
