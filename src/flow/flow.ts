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

/** Look-ups in the configuration that a flow is pinned to. */
export interface PinnedUnits {
  /** Returns the networks of an IP policy; undefined if the policy does not exist: all addresses are denied. */
  ipPolicy(id: string): AddressRules | undefined
  /** Returns the value of a secret by vault name and secret name. */
  secret(vault: string, name: string): string | undefined
  /** Returns whether an internal entry exists for this host, and for the port if given. */
  hasInternal(layer: 'http' | 'tcp', host: string, port: number | undefined): boolean
}

/** An empty configuration. */
export const NO_UNITS: PinnedUnits = {
  ipPolicy: () => undefined,
  secret: () => undefined,
  hasInternal: () => false
}

const INTERNAL = '.internal'

/** Returns whether the host belongs to an internal entry, reachable from policies only. `host` is in lower case. */
export function isInternal(host: string): boolean {
  return host.endsWith(INTERNAL)
}

/** Phases of a policy in execution order. */
export const PHASES = ['on_tcp_connect', 'on_http_request', 'on_http_response', 'on_event_stream_message'] as const
/** Name of a phase. */
export type Phase = (typeof PHASES)[number]

const NO_HOSTS: readonly PublicHost[] = []

/** `endpoint.*`: the serving endpoint. An edge at one of its hostports, or the listener for hosts without an edge. */
export interface EndpointFacts {
  readonly id: string
  readonly protocol: 'http' | 'https' | 'tcp' | 'tls'
  /** A wildcard as configured: `*.example.com`. */
  readonly host: string
  readonly port: number
}

/** The listener that accepted the traffic. */
export interface EntryFacts extends EndpointFacts {
  /** Port that clients use; only edges with this port are served. */
  readonly publicPort?: number
  /**
   * Path form of edges that do not set one.
   * @default strict
   */
  readonly pathForm?: PathForm
  /** Configured name of the serving region; '' if none. */
  readonly region: string
}

/** The request as policies see it and as it will be forwarded. */
export interface FlowRequest {
  /** Head as received, before normalization. */
  readonly head: RequestHead
  readonly version: Version
  /** Scheme that the client used, to this process or to a trusted proxy. */
  readonly scheme: 'http' | 'https'
  /** Host and port requested by the client, as `RequestTarget.authority`; rewrites of a policy do not change it. */
  readonly authority: string
  method: string
  /** Normalized target; `url-rewrite` replaces it. */
  target: RequestTarget
  /** Path form of the current edge. */
  pathForm: PathForm
  /** Fields without hop-by-hop fields; with the received content-length (the engine frames anew). */
  headers: HeaderFields
  /** The engine's body, or replacement bytes from an action. */
  body: Body | Uint8Array
  /** Wall clock, milliseconds since the epoch. */
  readonly receivedAt: number
}

/** The response for the client, from the upstream or from the proxy. */
export interface FlowResponse {
  status: number
  reason: string
  headers: HeaderFields
  body: Outgoing
  /** Created by the proxy (verdict, failure), not by an upstream. */
  readonly local: boolean
  /** Error of a folder of files: the body only names the status, so that an error page may replace it. */
  readonly folderError?: boolean
  /** Closes the connection after the response. */
  readonly close?: boolean
  /** Transforms in order from body to client; any transform makes the length unknown. */
  transforms: (() => Duplex)[]
  trailers: (() => HeaderList) | undefined
}

/** A request for a reserved path, such as that of a login: one module or action of the route responds. */
export interface OwnRequest {
  /** Identity of the responder; the same object for every request. */
  readonly by: object
  answer(flow: Flow): Verdict | Promise<Verdict>
}

/** A host name and public port of an entry. */
interface PublicHost {
  readonly host: string
  readonly port: number
}

/** Data that a refusal leaves, from which its reason is said. It holds names of the configuration and numbers, no value of the request. */
export interface Refusal {
  /** Limit that refused. `used`: what its bucket held of `capacity` in a window of `seconds`; capacity 0: it had none. */
  readonly limit?: {
    readonly name: string
    readonly used: number
    readonly capacity: number
    readonly seconds: number
  }
  /** The firewall refused. `rules`: ids of the rules that matched. */
  readonly firewall?: { readonly score: number; readonly threshold: number; readonly rules: readonly number[] }
  /** Seconds until such a request may pass again. */
  readonly retryAfter?: number
}

declare const held: unique symbol

/** A typed slot in flows for a value computed once per flow, or passed from one step to a later one. */
export interface FlowSlot<T> {
  /** Name for debugging. */
  readonly name: string
  readonly [held]?: T
}

/** Declares a slot. The declaring file fills it; other files read it through functions of that file. */
export function flowSlot<T>(name: string): FlowSlot<T> {
  return { name }
}

/** Header field that carries a request's id across hops. */
export const REQUEST_ID = 'x-request-id'
/** Accepted id formats: UUIDs, KSUIDs, hexadecimal numbers, with or without a prefix. No character can split a log line or a header. */
const GIVEN_ID = /^[\w.:+/=@-]{1,128}$/
const uuids = new UuidSource()

function idOf(request: FlowRequest | undefined): string {
  const given = request?.headers.get(REQUEST_ID)
  return given !== undefined && GIVEN_ID.test(given) ? given : uuids.make(request?.receivedAt ?? Date.now())
}

/** Default abort signal of a flow; never fires. */
const NEVER: AbortSignalLike = { aborted: undefined, onAbort: () => () => undefined }

/**
 * State of one exchange, or of one connection before any exchange, that modules and policies read and change. Contains only plain values
 * and types of this interface, never a Node request, response or socket. A flow lives as long as its exchange; `vars` live as long as one
 * phase.
 */
export class Flow {
  readonly connection: ConnectionFacts
  readonly entry: EntryFacts
  /** Changes with the edge that handles the flow: internal edges see themselves. */
  endpoint: EndpointFacts
  /** Right-most untrusted address of the forwarding chain; the peer without trusted proxies. IPv4-mapped addresses are unmapped. */
  readonly clientAddress: string
  readonly clientPort: number
  /** The configuration for the flow from its first step to its last. */
  units: PinnedUnits = NO_UNITS
  /** Fires when the client has disconnected or the exchange was cancelled: work for it stops. */
  signal: AbortSignalLike = NEVER
  /** Depth of nested policy requests that led here; 0 for a client's request. */
  depth = 0
  request: FlowRequest | undefined = undefined
  response: FlowResponse | undefined = undefined
  /** Current message of the response's event stream; undefined outside `on_event_stream_message`. */
  message: EventStreamMessage | undefined = undefined
  /** `vars.<name>`: values in the representation of the expression engine. Cleared between phases. */
  vars: Map<string, unknown> | undefined = undefined
  /** `actions.service.<name>.*`: the last execution of each action, by snake-case result name. */
  results: Map<string, Readonly<Record<string, unknown>>> | undefined = undefined
  /** Fields added to every response, whatever its source: a flat list of names and values. Added before `on_http_response` runs. */
  responseFields: string[] | undefined = undefined
  /** Set for a reserved path: access control checks the request, then the path's handler responds. */
  reservedPath: OwnRequest | undefined = undefined
  /** Use of the response content by policies: while streaming, or as a whole. The upstream is then asked for readable content. */
  reads: 'stream' | 'whole' | undefined = undefined
  /** Bytes go to the upstream instead of the request, in a WebSocket that is accepted with these fields. */
  speaksBytes: { readonly headers: HeaderList } | undefined = undefined
  /** Hosts of the edge that received the request; empty for a catch-all. */
  hosts: readonly PublicHost[] = NO_HOSTS
  /** Rule and action that ended the exchange. */
  decidedBy: { readonly phase: Phase; readonly rule: string; readonly action: string } | undefined = undefined
  /** Data of the refusal; undefined for an exchange that passed, or whose rule alone says why. */
  refusal: Refusal | undefined = undefined
  /** Values of vaults that policies have read, so that they are not shown; undefined for none. */
  secretsRead: Set<string> | undefined = undefined
  /** Records how the exchange is decided, on demand. */
  explainer: Explainer<Flow> | undefined = undefined
  /** Trace of the exchange, if tracing is enabled. */
  trace: FlowTrace | undefined = undefined
  /** Flat list of slots and values. A flow fills a handful, so that a scan is faster than a map. */
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
   * Unique id of the request, for logs here and at the upstream: `x-request-id` from a trusted peer or a policy, or else a version 7 UUID.
   * Created on first use.
   */
  get requestId(): string {
    this.#requestId ??= idOf(this.request)
    return this.#requestId
  }

  /** Returns the value of a slot, or undefined. */
  get<T>(slot: FlowSlot<T>): T | undefined {
    const slots = this.#slots
    if (slots === undefined) return undefined
    for (let i = 0; i < slots.length; i += 2) if (slots[i] === slot) return slots[i + 1] as T
    return undefined
  }

  /** Sets a slot; undefined clears it. */
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

  /** Returns a secret's value in the configuration of the flow. */
  secret(vault: string, name: string): string | undefined {
    const value = this.units.secret(vault, name)
    if (value !== undefined) {
      this.secretsRead ??= new Set()
      this.secretsRead.add(value)
    }
    return value
  }

  /** Adds data to the exchange's log record. `make` runs only if the log reads it. It must not throw. */
  record(make: () => Readonly<Record<string, unknown>>): void {
    this.#recorded ??= []
    this.#recorded.push(make)
  }

  /** Records of `log` actions, in order; undefined without any. */
  get logs(): readonly Readonly<Record<string, unknown>>[] | undefined {
    return this.#recorded?.map((make) => make())
  }

  /**
   * Publishes `values` as `actions.service.<name>.*`; numbers may be plain, the expression engine converts them to the declared type.
   * Expensive values are accessors, evaluated when an expression reads the field.
   */
  publish(name: string, values: Readonly<Record<string, unknown>>): void {
    this.results ??= new Map()
    this.results.set(name, values)
  }

  /** Calls `run` when the exchange ends for any reason; immediately if it has ended. `run` must not throw. */
  onEnd(run: () => void): void {
    if (this.#over) run()
    else if (this.#ends === undefined) this.#ends = [run]
    else this.#ends.push(run)
  }

  /**
   * Calls `run` after a forwarding result, a response or a failure, before any step changes `response`. Not called if the exchange ends
   * without forwarding. `run` must not throw.
   */
  onForwarded(run: () => void): void {
    if (this.#forwards === undefined) this.#forwards = [run]
    else this.#forwards.push(run)
  }

  /** Called by the forwarder once `response` has the result. */
  forwarded(): void {
    const forwards = this.#forwards
    this.#forwards = undefined
    if (forwards !== undefined) for (const run of forwards) run()
  }

  /** Ends the exchange. Called by the owner of the flow; a second call has no effect. */
  end(): void {
    this.#over = true
    const ends = this.#ends
    this.#ends = undefined
    if (ends !== undefined) for (const run of ends) run()
  }
}

/** Parameters of TLS termination on a connection that has not been read yet. */
export interface Termination {
  /**
   * Certificate in PEM; each object is one certificate.
   * @default the certificate for the client's server name
   */
  readonly identity?: { readonly chain: string; readonly privateKey: string }
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3'
  readonly maxVersion: 'TLSv1.2' | 'TLSv1.3'
  /**
   * Client certificates.
   * @default not requested
   */
  readonly clients?: {
    /** PEM texts, or ids of authorities; removed ids verify no client. */
    readonly authorities: readonly string[]
    /** `verified`: must be verified by the authorities. `any`: must be present. `requested`: optional. */
    readonly must: 'verified' | 'any' | 'requested'
  }
}

/** Result of TLS termination: the handshake's data, or the reason of a failure, after which the connection is closed. */
type Terminated =
  | { readonly kind: 'secure'; readonly tls: NonNullable<ConnectionFacts['tls']> }
  | { readonly kind: 'failed'; readonly why: string }

/** Terminates TLS on the connection of a flow; once. */
type Terminate = (how: Termination) => Promise<Terminated>

const termination = flowSlot<Terminate>('flow.termination')

/** Lets the policy of a flow terminate TLS. */
export function offerTermination(flow: Flow, terminate: Terminate): void {
  flow.set(termination, terminate)
}

/** Takes the offer from the flow, so that TLS is terminated once; undefined if termination is impossible. */
export function takeTermination(flow: Flow): Terminate | undefined {
  const terminate = flow.get(termination)
  flow.set(termination, undefined)
  return terminate
}

/** Reason why an internal entry was not called. */
interface InternalRefusal {
  readonly ok: false
  /** Missing entry, an entry that the policy does not spell out, or an endless recursion of policies. */
  readonly code: InternalRequestError
  readonly message: string
  readonly timeMs: number
}

/** Result of a request to an internal entry: a response, a failure, or a rejection. */
export type InternalAnswer = OutboundResponse | OutboundError | InternalRefusal

/** Requests of policies to internal entries, without a network: modules and policy of the entry run as for a client. */
export interface InternalRequests {
  /** Sends a request to the entry in the URL on behalf of `flow`, in the configuration that `flow` is pinned to. Never rejects. */
  request(flow: Flow, request: OutboundRequest): Promise<InternalAnswer>
}
