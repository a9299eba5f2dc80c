import { lookup as lookupName } from 'node:dns'
import { connect, isIP, type LookupFunction, type Socket } from 'node:net'
import { type ConnectionOptions, checkServerIdentity, connect as connectTls, type TLSSocket } from 'node:tls'
import type { BytePipe, Failure } from '../flow/exchange.js'
import type { DescriptorShares } from '../lib/descriptor-shares.js'
import { readAfterReset } from './broken-writes.js'
import { DialError, type Dialer } from './contract.js'
import { ignore, resetBelow, StreamPipe } from './pipes.js'
import { proxyHeader } from './proxy-protocol.js'
import { handshakeFailure, type PeerRefusal, type Pin, peerRefusal } from './tls/peer.js'

/** TCP address of an upstream. `host` is a name or an address. */
export interface TcpAddress {
  readonly host: string
  readonly port: number
  /** Path of a Unix domain socket, used instead of host and port. */
  readonly socket?: string | undefined
  /**
   * Version of the PROXY header that begins each connection, which then carries one client only.
   * @default none
   */
  readonly proxyProtocol?: 1 | 2 | undefined
  /**
   * Resolves names.
   * @default the system's resolver
   */
  readonly lookup?: LookupFunction | undefined
  /** Returns whether an address is blocked, also for results of `lookup`. */
  readonly refuses?: ((address: string) => boolean) | undefined
  /**
   * Idle time after which the system sends TCP keep-alive probes (ms).
   * @default 0, never
   */
  readonly keepAlive?: (() => number) | undefined
  /** Budget of the process's descriptors, of which each connection uses one. */
  readonly descriptors?: DescriptorShares | undefined
  /**
   * Uses HTTP/2: by prior knowledge (RFC 9113 3.3), or over TLS by ALPN, which must succeed.
   * @default HTTP/1.1
   */
  readonly http2?: boolean
  /** See `Dialer`. */
  readonly lenient?: boolean
}

/** TLS to an upstream. `servername` is sent and must match the certificate. */
export interface TlsAddress extends TcpAddress {
  readonly servername: string
  /** PEM of authorities trusted instead of the system's. */
  readonly ca?: string
  readonly minVersion?: 'TLSv1.2' | 'TLSv1.3'
  /** False accepts any certificate. */
  readonly rejectUnauthorized?: boolean
  /** Accepted certificates; without `ca` they replace an authority. */
  readonly pins?: readonly Pin[]
  /** False skips the check of the name; only for pins without `ca`. */
  readonly checkName?: boolean
  /** Certificate for upstreams that request one; read for each connection. */
  readonly client?: ClientIdentity
}

/** A client certificate of the proxy. */
interface ClientIdentity {
  /** Identity of the certificate: connections with different ones are not interchangeable. */
  readonly key: string
  /** Returns PEM, the chain with its leaf first; undefined while unavailable. */
  readonly find: () => { readonly chain: string; readonly privateKey: string } | undefined
}

type Why = Parameters<Dialer['open']>[0]

/** Opens TCP connections. A name that does not resolve is `dial-refused`. */
export function tcpDialer(at: TcpAddress): Dialer {
  return {
    key: `${placeOf('tcp', at)}${protocolOf(at)}`,
    ...useOf(at),
    open: async (why) => await opened(connectTo(at, why), 'connect', why)
  }
}

/** Opens connections to a Unix domain socket. `http2`: as in `TcpAddress`. */
export function pathDialer(path: string, http2 = false): Dialer {
  return tcpDialer({ host: 'localhost', port: 0, socket: path, http2 })
}

function placeOf(kind: 'tcp' | 'tls', { host, port, socket, proxyProtocol }: TcpAddress): string {
  const place = socket === undefined ? `${kind} ${host}:${port}` : `${kind === 'tcp' ? '' : 'tls '}unix ${socket}`
  return proxyProtocol === undefined ? place : `${place} proxy${proxyProtocol}`
}

function protocolOf({ http2, lenient }: TcpAddress): string {
  return `${http2 === true ? ' h2' : ''}${lenient === true ? ' lenient' : ''}`
}

function useOf({ http2, lenient, proxyProtocol }: TcpAddress): Omit<Dialer, 'key' | 'open'> {
  return {
    reusable: proxyProtocol === undefined,
    ...(http2 === true ? { http2 } : {}),
    ...(lenient === true ? { lenient } : {})
  }
}

/** Opens TLS connections over TCP; a failed handshake is `dial-tls`, or the result of `peerRefusal`. */
export function tlsDialer(at: TlsAddress): Dialer {
  const { servername, ca, minVersion, rejectUnauthorized = true, http2 = false, client, pins = [] } = at
  const rules = {
    name: servername,
    pins,
    pinsAlone: pins.length > 0 && ca === undefined,
    checkName: at.checkName ?? true,
    ownAuthorities: ca !== undefined
  }
  const settings = [servername, rejectUnauthorized, minVersion, ca, client?.key, pins, rules.checkName]
  return {
    key: `${placeOf('tls', at)} ${JSON.stringify(settings)}${protocolOf(at)}`,
    ...useOf(at),
    open: async (why) => {
      // The client performs the handshake with this server itself.
      if (why.client.passed !== undefined) return await opened(connectTo(at, why), 'connect', why)
      const identity = client?.find()
      if (client !== undefined && identity === undefined)
        throw new DialError('tls-client-certificate', 'the client certificate of the backend is not there')
      const below = connectTo(at, why)
      // A byte pipe is not HTTP/2, even if the server supports it.
      const protocol = http2 && why.bytes !== true ? 'h2' : 'http/1.1'
      const options: ConnectionOptions & { allowHalfOpen: boolean } = {
        socket: below,
        // SNI contains names only (RFC 6066 3).
        ...(isIP(servername) === 0 ? { servername } : {}),
        checkServerIdentity: (_host, certificate) => checkServerIdentity(servername, certificate),
        // The certificate is checked below, where its problem can be named.
        rejectUnauthorized: false,
        allowHalfOpen: true,
        ALPNProtocols: [protocol],
        ...(minVersion === undefined ? {} : { minVersion }),
        ...(ca === undefined ? {} : { ca, allowPartialTrustChain: true }),
        ...(identity === undefined ? {} : { cert: identity.chain, key: identity.privateKey })
      }
      const socket = connectTls(options)
      resetBelow(socket, below)
      const refused = (): PeerRefusal | undefined => {
        const refusal = rejectUnauthorized ? peerRefusal(socket, rules) : undefined
        if (refusal !== undefined || protocol !== 'h2' || socket.alpnProtocol === 'h2') return refusal
        return { failure: 'dial-tls', message: 'the server does not speak HTTP/2 (ALPN)' }
      }
      await opened(socket, 'secureConnect', why, refused)
      return new TlsPipe(socket)
    }
  }
}

/** With TLS 1.3, a server rejects a client's certificate after the handshake has completed for the client. */
class TlsPipe extends StreamPipe {
  refusal: PeerRefusal | undefined

  constructor(socket: TLSSocket) {
    super(socket)
    socket.on('error', ({ code = '' }: NodeJS.ErrnoException) => {
      const { failure, message } = handshakeFailure(code)
      if (failure === 'tls-client-certificate') this.refusal = { failure, message }
    })
  }

  get unreached(): boolean {
    return this.refusal !== undefined
  }
}

/** Starts a connection, with its PROXY header. */
function connectTo(at: TcpAddress, { client }: Why): Socket {
  const { descriptors } = at
  if (descriptors?.admitsUpstream === false)
    throw new DialError('no-descriptor', 'no file descriptor is left for upstreams')
  const socket = at.socket === undefined ? connectTcp(at) : connect({ path: at.socket, allowHalfOpen: true })
  if (descriptors !== undefined) {
    descriptors.countUpstream(1)
    socket.once('close', () => descriptors.countUpstream(-1))
  }
  if (at.proxyProtocol !== undefined) socket.write(proxyHeader(at.proxyProtocol, client.peer, client.local))
  return socket
}

function connectTcp({ host, port, lookup, keepAlive, refuses }: TcpAddress): Socket {
  if (refuses?.(host) === true) throw new DialError('dial-refused', `${host} ${REFUSED}`)
  const filtered = refuses === undefined || isIP(host) !== 0 ? lookup : filteredLookup(lookup ?? lookupName, refuses)
  const names = filtered === undefined ? {} : { lookup: filtered }
  const keepAliveInitialDelay = keepAlive?.() ?? 0
  return connect({
    host,
    port,
    noDelay: true,
    allowHalfOpen: true,
    keepAlive: keepAliveInitialDelay > 0,
    keepAliveInitialDelay,
    ...names
  })
}

const REFUSED = 'is an address that backends may not have'

/** Filters the blocked addresses from `lookup`; fails if none is left. */
function filteredLookup(lookup: LookupFunction, refuses: (address: string) => boolean): LookupFunction {
  return (host, options, done) =>
    lookup(host, options, (error, found, family) => {
      const addresses = typeof found === 'string' ? [{ address: found, family: family ?? 0 }] : found
      const allowed = error === null ? addresses.filter(({ address }) => !refuses(address)) : addresses
      if (error === null && allowed.length === 0 && addresses.length > 0) {
        done(new Error(`${addresses[0]?.address} ${REFUSED}`), found, family)
      } else done(error, typeof found === 'string' ? found : allowed, family)
    })
}

/** Resolves with the pipe after `event`, unless `refused` reports a problem; any other end rejects with a `DialError`. */
function opened(
  socket: Socket | TLSSocket,
  event: 'connect' | 'secureConnect',
  why: Why,
  refused?: () => PeerRefusal | undefined
): Promise<BytePipe> {
  return new Promise((resolve, reject) => {
    let connected = false
    const fail = (failure: Failure, message: string): void => {
      detach()
      socket.on('error', ignore)
      socket.destroy()
      reject(new DialError(failure, message))
    }
    const timer =
      why.deadline > 0 ? setTimeout(() => fail('dial-timeout', 'no connection in time'), why.deadline) : null
    const onConnect = (): void => {
      connected = true
    }
    const onReady = (): void => {
      const refusal = refused?.()
      if (refusal !== undefined) {
        fail(refusal.failure, refusal.message)
        return
      }
      detach()
      // Errors are handled on 'close'; this listener only prevents a crash.
      socket.on('error', ignore)
      readAfterReset(socket)
      resolve(new StreamPipe(socket))
    }
    const onError = (error: NodeJS.ErrnoException): void => {
      const { failure, message } = kindOf(error, connected)
      fail(failure, message)
    }
    const onClose = (): void => fail(connected ? 'dial-tls' : 'dial-refused', 'closed before it was ready')
    const detach = (): void => {
      if (timer !== null) clearTimeout(timer)
      stopListening()
      socket.removeListener('connect', onConnect)
      socket.removeListener(event, onReady)
      socket.removeListener('error', onError)
      socket.removeListener('close', onClose)
    }
    socket.on('connect', onConnect)
    socket.on(event, onReady)
    socket.on('error', onError)
    socket.on('close', onClose)
    let stopListening: () => void = ignore
    stopListening = why.signal.onAbort((failure) => fail(failure, 'given up'))
  })
}

function kindOf(error: NodeJS.ErrnoException, connected: boolean): PeerRefusal {
  const message = error.code ?? error.message
  if (error.code === 'EMFILE' || error.code === 'ENFILE') return { failure: 'no-descriptor', message }
  if (error.code === 'ETIMEDOUT') return { failure: 'dial-timeout', message }
  return connected ? handshakeFailure(message) : { failure: 'dial-refused', message }
}
