import { formatAuthority } from '../../../lib/host.js'
import { canonicalAddress } from '../../../lib/ip.js'
import { proxyHeader } from '../../../transport/proxy-protocol.js'
import { StreamType } from '../protocol/calls.js'
import type { MuxStream } from '../protocol/stream.js'
import type { Labels } from './authority.js'

/** One end of a visitor's connection. */
interface Peer {
  readonly address: string
  readonly port: number
}

/** Kind of a visitor's traffic; it decides how an agent answers for a dead upstream. `tls`: forwarded unchanged. */
export type VisitorKind = 'http' | 'tcp' | 'tls'

/** Facts of a visitor's connection that are sent to the agent. */
export interface Visitor {
  readonly kind: VisitorKind
  readonly from: Peer
  readonly to: Peer
}

/** A tunnel's view of its session. */
export interface TunnelCarrier {
  readonly id: string
  /** Could it take one more visitor now? */
  readonly hasRoom: boolean
  /** Are several of the agent's heartbeats missing? It may have stopped. */
  readonly late: boolean
  /** Does its agent return credit immediately for every read? */
  readonly creditsEachRead: boolean
  /** Resolves with true at the agent's next heartbeat, or with false when the session ends. */
  alive(): Promise<boolean>
  /** Opens a stream; undefined if that is impossible. */
  openStream(first: Buffer): MuxStream | undefined
  adopt(stream: MuxStream, first: Buffer): boolean
  /** Notifies the agent that the tunnel is over. */
  stopTunnel(id: string, message: string): void
}

interface TunnelOptions {
  readonly id: string
  /** Labels; undefined for an endpoint. */
  readonly labels: Labels | undefined
  /** '' for labels; http, https, tcp or tls for an endpoint. */
  readonly proto: string
  /** '' for labels. */
  readonly url: string
  readonly name: string
  readonly description: string
  readonly forwardsTo: string
  readonly metadata: string
  readonly proxyProtocol: 0 | 1 | 2
  /** True for an endpoint that may share its URL. */
  readonly pooled: boolean
  /** HTTP is spoken as HTTP/2, by prior knowledge; else as HTTP/1.1. */
  readonly http2: boolean
  /** Wall clock, milliseconds since the epoch. */
  readonly startedAt: number
}

const EDGE_TYPES: Readonly<Record<VisitorKind, string>> = { tcp: '1', tls: '2', http: '3' }
const NO_EDGE = '0'
const LENGTH_BYTES = 8
const TYPE_BYTES = 4

/** One offer of one agent: visitors' connections can be opened through it. */
export class Tunnel {
  readonly id: string
  readonly labels: Labels | undefined
  readonly proto: string
  readonly url: string
  readonly forwardsTo: string
  readonly startedAt: number
  readonly http2: boolean
  readonly pooled: boolean
  readonly session: TunnelCarrier
  name: string
  description: string
  metadata: string
  readonly #proxyProtocol: 0 | 1 | 2
  readonly #streams = new Set<MuxStream>()
  #over = false

  constructor(session: TunnelCarrier, options: TunnelOptions) {
    this.session = session
    this.id = options.id
    this.labels = options.labels
    this.proto = options.proto
    this.url = options.url
    this.name = options.name
    this.description = options.description
    this.forwardsTo = options.forwardsTo
    this.metadata = options.metadata
    this.startedAt = options.startedAt
    this.http2 = options.http2
    this.pooled = options.pooled
    this.#proxyProtocol = options.proxyProtocol
  }

  /** Visitors' connections open now. */
  get active(): number {
    return this.#streams.size
  }

  /** The agent does not offer it any more. */
  get over(): boolean {
    return this.#over
  }

  /** Can it take a visitor now? */
  get ready(): boolean {
    return !this.#over && this.session.hasRoom
  }

  /** Has the agent been silent so long that other agents are preferred? */
  get late(): boolean {
    return this.session.late
  }

  /** Opens a byte pipe to the agent's target; undefined if the agent cannot accept it. Its target is not connected yet. */
  open(visitor: Visitor): { readonly stream: MuxStream; readonly headerBytes: number } | undefined {
    if (!this.ready) return undefined
    const first = this.#first(visitor)
    const stream = this.session.openStream(first)
    if (stream === undefined) return undefined
    this.#hold(stream)
    return { stream, headerBytes: first.length }
  }

  /** Takes a stream over that another tunnel has turned away; the length of the header, or undefined as `open`. */
  take(stream: MuxStream, visitor: Visitor): number | undefined {
    if (!this.ready) return undefined
    const first = this.#first(visitor)
    if (!this.session.adopt(stream, first)) return undefined
    this.#hold(stream)
    return first.length
  }

  /** Forgets a stream that has moved to another tunnel. */
  release(stream: MuxStream): void {
    this.#streams.delete(stream)
  }

  /** Stops accepting visitors; `cut` disconnects active ones. */
  end(cut: boolean): void {
    this.#over = true
    if (cut) for (const stream of this.#streams) stream.destroy()
  }

  #hold(stream: MuxStream): void {
    this.#streams.add(stream)
    stream.once('close', () => this.#streams.delete(stream))
  }

  /** Builds type, length, header and PROXY header as one buffer: an agent that has read half of it would block all other streams. */
  #first({ kind, from, to }: Visitor): Buffer {
    const labelled = this.labels !== undefined
    const header = JSON.stringify({
      Id: this.id,
      ClientAddr: formatAuthority(canonicalAddress(from.address), from.port),
      Proto: labelled ? kind : this.proto,
      EdgeType: labelled ? EDGE_TYPES[kind] : NO_EDGE,
      PassthroughTLS: kind === 'tls'
    })
    const length = Buffer.byteLength(header)
    const first = Buffer.allocUnsafe(TYPE_BYTES + LENGTH_BYTES + length)
    first.writeUInt32BE(StreamType.proxy, 0)
    first.writeBigInt64LE(BigInt(length), TYPE_BYTES)
    first.write(header, TYPE_BYTES + LENGTH_BYTES)
    return this.#proxyProtocol === 0 ? first : Buffer.concat([first, proxyHeader(this.#proxyProtocol, from, to)])
  }
}

/** Limits of an agent. Bytes and milliseconds. */
export interface TunnelLimits {
  /** Maximum time from the first byte to a successful authentication. */
  readonly authTime: number
  /** Connections that have not authenticated: in all, and from one address. */
  readonly unauthenticated: number
  readonly unauthenticatedPerAddress: number
  /** Tunnels of one session. */
  readonly tunnels: number
  /** Visitors' streams of one session. Agents on the Rust core break as a whole beyond 512. */
  readonly visitors: number
  /** Maximum response time of an agent to a command. */
  readonly commandTime: number
  /** Maximum time that data may wait for a peer that does not read. */
  readonly writeTime: number
}

export const DEFAULT_LIMITS: TunnelLimits = {
  authTime: 10_000,
  unauthenticated: 4096,
  unauthenticatedPerAddress: 2048,
  tunnels: 512,
  visitors: 448,
  commandTime: 5000,
  writeTime: 30_000
}

/**
 * Before authentication: one call and the heartbeat; the longest request, beyond which an answer says so; and all bytes of the
 * connection, frames included, beyond which it ends.
 */
export const EARLY_STREAMS = 2
/** Maximum bytes of the first call. */
export const EARLY_CALL = 16_384
/** Maximum bytes of the connection before authentication, frames included. */
export const EARLY_BYTES = 65_536
/** Afterwards. */
export const CALL_STREAMS = 64
/** Most bytes of one call. */
export const CALL = 1_048_576
/** Minimum silence after which an agent is disconnected, regardless of its request (ms). */
export const LEAST_SILENCE = 5000
/** Maximum silence after which an agent is disconnected (ms). */
export const MOST_SILENCE = 300_000
/** Heartbeats between two looks of `sweep`, which come about each second. */
export const MOST_BEATS = 100
