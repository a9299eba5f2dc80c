import { formatAuthority } from '../../lib/host.js'
import { unmapIpv4 } from '../../lib/ip.js'
import type { MuxStream } from '../protocol/stream.js'
import type { Labels } from './authority.js'
import { type Peer, proxyHeader } from './proxy-protocol.js'
import { StreamType } from './stream-type.js'

/** What kind of traffic a visitor's connection is; it decides how an agent answers for a dead upstream. */
export type VisitorKind = 'http' | 'tcp' | 'tls'

/** A visitor's connection as the agent hears of it. */
export interface Visitor {
  readonly kind: VisitorKind
  readonly from: Peer
  readonly to: Peer
}

/** What a tunnel needs of the session that carries it. */
export interface TunnelCarrier {
  readonly id: string
  /** Could it take one more visitor now? */
  readonly hasRoom: boolean
  /** Does its agent give credit for every read at once? */
  readonly creditsEachRead: boolean
  /** Undefined: it cannot. */
  openStream(first: Buffer): MuxStream | undefined
  adopt(stream: MuxStream, first: Buffer): boolean
  /** Tells the agent that the tunnel is over. */
  stopTunnel(id: string, message: string): void
}

export interface TunnelOptions {
  readonly id: string
  /** Undefined: an endpoint. */
  readonly labels: Labels | undefined
  /** '' for labels; http, https or tcp for an endpoint. */
  readonly proto: string
  /** '' for labels. */
  readonly url: string
  readonly name: string
  readonly description: string
  readonly forwardsTo: string
  readonly metadata: string
  readonly proxyProtocol: 0 | 1 | 2
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

  /** A byte pipe to what the agent forwards to; undefined when the agent cannot take it. The agent's part is still to come. */
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

  /** A stream that has gone elsewhere. */
  release(stream: MuxStream): void {
    this.#streams.delete(stream)
  }

  /** No new visitors; `cut` breaks those that are there. */
  end(cut: boolean): void {
    this.#over = true
    if (cut) for (const stream of this.#streams) stream.destroy()
  }

  #hold(stream: MuxStream): void {
    this.#streams.add(stream)
    stream.once('close', () => this.#streams.delete(stream))
  }

  /** Type, length, header and PROXY header in one piece: an agent that has read half of it would make all others wait. */
  #first({ kind, from, to }: Visitor): Buffer {
    const labelled = this.labels !== undefined
    const header = JSON.stringify({
      Id: this.id,
      ClientAddr: formatAuthority(unmapIpv4(from.address), from.port),
      Proto: labelled ? kind : this.proto,
      EdgeType: labelled ? EDGE_TYPES[kind] : NO_EDGE,
      PassthroughTLS: false
    })
    const length = Buffer.byteLength(header)
    const first = Buffer.allocUnsafe(TYPE_BYTES + LENGTH_BYTES + length)
    first.writeUInt32BE(StreamType.proxy, 0)
    first.writeBigInt64LE(BigInt(length), TYPE_BYTES)
    first.write(header, TYPE_BYTES + LENGTH_BYTES)
    return this.#proxyProtocol === 0 ? first : Buffer.concat([first, proxyHeader(this.#proxyProtocol, from, to)])
  }
}
