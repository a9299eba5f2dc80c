import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { parseAuthority } from '../../../lib/host.js'
import type { Dialer } from '../../../transport/contract.js'
import { pathDialer, tcpDialer, tlsDialer } from '../../../transport/dialers.js'
import { type JoinLimits, join } from '../../../transport/join.js'
import { ignore } from '../../../transport/pipes.js'
import { JsonObjectReader, readBytes } from '../protocol/calls.js'
import type { MuxStream } from '../protocol/stream.js'
import type { Labels } from '../server/authority.js'

/** Address of the server for agents. */
export interface ServerAddress {
  readonly host: string
  readonly port: number
  /** PEM of the authorities that are trusted instead of the system's. */
  readonly ca?: string
  /** Name in the server's certificate; `host` when left out. */
  readonly serverName?: string
  /** An HTTP proxy on the way (`http://user:password@host:port`, or `https://`); left out: none. */
  readonly proxy?: URL
  /** DNS resolver. @default the system's resolver */
  readonly lookup?: LookupFunction
}

/** A tunnel with its own name or port. */
export interface EndpointOffer {
  readonly proto: 'http' | 'https' | 'tcp' | 'tls'
  /** Name, or host:port; left out: the server makes one. */
  readonly at?: string
  /** Text of a traffic policy document that the server runs. */
  readonly trafficPolicy?: string
  /** Allows other agents with the same credential to serve it, too. */
  readonly pooled?: boolean
}

/** Brings a visitor to the target; `failed` is called with the reason when that is not possible. */
export type Forward = (stream: MuxStream, head: VisitorHead, failed: (why: string) => void) => void

/** One tunnel: selected by its labels, or an endpoint. */
export type AgentTunnel = {
  readonly target: AgentTarget
  /** The target as the user wrote it. */
  readonly forwardsTo: string
  readonly metadata?: string
  /** Forwarding function. @default bytes are passed to the target unchanged */
  readonly forward?: Forward
} & (
  | { readonly labels: Labels; readonly endpoint?: undefined }
  | { readonly endpoint: EndpointOffer; readonly labels?: undefined }
)

/**
 * Target of forwarding. `lookup`: DNS resolver, the system's by default. `http2`: the target supports HTTP/2, by prior
 * knowledge, or over TLS by ALPN; otherwise it uses HTTP/1.1 or another protocol.
 */
export type AgentTarget = { readonly http2?: boolean } & AgentTargetAddress

type AgentTargetAddress =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly lookup?: LookupFunction }
  | {
      readonly kind: 'tls'
      readonly host: string
      readonly port: number
      readonly verify: boolean
      readonly lookup?: LookupFunction
    }
  | { readonly kind: 'unix'; readonly path: string }

const DEFAULT_PORTS: Readonly<Record<string, number>> = { http: 80, https: 443 }

/**
 * Parses `http://host:port`, `https://host:port`, `tcp://host:port`, `tls://host:port`, `unix:/path`, `host:port` or a local
 * port. Returns undefined for any other text. Bytes are forwarded unchanged, so a path has no meaning here.
 */
export function readTarget(text: string, verify = true): AgentTarget | undefined {
  if (text.startsWith('unix:')) {
    const path = text.slice('unix:'.length)
    return path.startsWith('/') ? { kind: 'unix', path } : undefined
  }
  if (/^\d{1,5}$/.test(text)) return readTarget(`127.0.0.1:${text}`)
  const [, scheme = 'tcp', rest = ''] = /^(?:([a-z]+):\/\/)?([^/?#@]+)\/?$/i.exec(text) ?? []
  const authority = parseAuthority(rest)
  const port = authority?.port ?? DEFAULT_PORTS[scheme.toLowerCase()]
  if (authority === undefined || port === undefined) return undefined
  const { host } = authority
  switch (scheme.toLowerCase()) {
    case 'http':
    case 'tcp':
      return { kind: 'tcp', host, port }
    case 'https':
    case 'tls':
      return { kind: 'tls', host, port, verify }
    default:
      return undefined
  }
}

/** Silence after which the system probes a connection to a target. Milliseconds. */
const KEEP_ALIVE = 60_000
/** Time between two checks of the pipes to targets. Milliseconds. */
export const PIPE_CHECKS = 1_000

/** The target as an upstream of HTTP. */
export function targetDialer(target: AgentTarget): Dialer {
  switch (target.kind) {
    case 'unix':
      return pathDialer(target.path, target.http2)
    case 'tcp':
      return tcpDialer({ ...target, keepAlive: () => KEEP_ALIVE })
    case 'tls':
      return tlsDialer({
        ...target,
        keepAlive: () => KEEP_ALIVE,
        servername: target.host,
        rejectUnauthorized: target.verify
      })
  }
}

/** Returns the target without TLS, for visitors that speak TLS with it themselves. */
export function rawTarget(target: AgentTarget): AgentTarget {
  if (target.kind !== 'tls') return target
  const { host, port, lookup } = target
  return { kind: 'tcp', host, port, ...(lookup === undefined ? {} : { lookup }) }
}

/** Opens a connection to the target; `ready` is the event of its establishment. */
export function connectTarget(target: AgentTarget): {
  readonly socket: Socket
  readonly ready: 'connect' | 'secureConnect'
} {
  if (target.kind === 'unix') {
    return { socket: connectTcp({ path: target.path, allowHalfOpen: true }), ready: 'connect' }
  }
  const { host, port, lookup } = target
  const probes = { keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE }
  const at = { host, port, ...probes, ...(lookup === undefined ? {} : { lookup }) }
  if (target.kind === 'tcp') {
    return { socket: connectTcp({ ...at, noDelay: true, allowHalfOpen: true }), ready: 'connect' }
  }
  const name = isIP(host) === 0 ? { servername: host } : {}
  const alpn = target.http2 === true ? { ALPNProtocols: ['h2'] } : {}
  const options = { ...at, rejectUnauthorized: target.verify, allowHalfOpen: true, ...name, ...alpn }
  const socket = connectTls(options)
  socket.setNoDelay(true)
  socket.setKeepAlive(true, KEEP_ALIVE)
  return { socket, ready: 'secureConnect' }
}

const LENGTH_BYTES = 8
const MOST_HEADER = 65_536

/** A visitor's connection on its way to a target. */
interface VisitorHead {
  readonly tunnelId: string
  /** ip:port. */
  readonly from: string
  /** Does it speak HTTP? Else its bytes are anything. */
  readonly http: boolean
  /** Does it speak TLS with the target itself? */
  readonly passthrough: boolean
}

/** Parses the head of a visitor's stream whose type has been read; a malformed one is rejected. */
export function readVisitor(stream: MuxStream, found: (head: VisitorHead) => void): void {
  readBytes(stream, LENGTH_BYTES, (bytes) => {
    const length = bytes.readBigInt64LE(0)
    if (length < 2n || length > MOST_HEADER) {
      stream.refuse()
      return
    }
    readBytes(stream, Number(length), (text) => {
      const head = new JsonObjectReader(MOST_HEADER).read(text)
      if (typeof head === 'string' || typeof head.Id !== 'string') stream.refuse()
      else {
        const from = typeof head.ClientAddr === 'string' ? head.ClientAddr : ''
        const http = head.Proto === 'http' || head.Proto === 'https'
        found({ tunnelId: head.Id, from, http, passthrough: head.PassthroughTLS === true })
      }
    })
  })
}

/**
 * Joins a visitor's stream and a new connection to the target, both ways with back-pressure and half-close. An unreachable
 * target is reported to `failed`, and the stream is rejected unread, so that the server may try another agent. The server
 * limits the silence of visitors; `deadlines` checks whether the target is gone.
 */
export function forwardVisitor(
  stream: MuxStream,
  target: AgentTarget,
  deadlines: JoinLimits['timer'],
  failed: (why: string) => void
): void {
  const { socket, ready } = connectTarget(target)
  const giveUp = (): void => {
    socket.destroy()
  }
  const refuse = (error: NodeJS.ErrnoException): void => {
    stream.removeListener('close', giveUp)
    if (stream.destroyed) return
    failed(error.code ?? error.message)
    stream.refuse()
  }
  socket.once('error', refuse)
  stream.once('close', giveUp)
  socket.once(ready, () => {
    if (target.http2 === true && 'alpnProtocol' in socket && socket.alpnProtocol !== 'h2') {
      refuse(new Error('it does not speak HTTP/2 (ALPN)'))
      socket.destroy()
      return
    }
    socket.removeListener('error', refuse)
    stream.removeListener('close', giveUp)
    socket.on('error', ignore)
    join(stream, socket, { idle: 0, halfClosed: 0, timer: deadlines }, ignore)
  })
}
