import { connect, isIP, type LookupFunction, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls'
import type { BytePipe, Failure } from '../flow/exchange.js'
import { DialError, type Dialer } from './contract.js'
import { ignore, resetBelow, StreamPipe } from './pipes.js'

/** Where an upstream listens. `host` is a name or an address. */
export interface TcpAddress {
  readonly host: string
  readonly port: number
  /** Answers names; the system's resolver when left out. */
  readonly lookup?: LookupFunction | undefined
  /** It speaks HTTP/2: by prior knowledge (RFC 9113 3.3), or over TLS by ALPN, where it must agree. Left out: HTTP/1.1. */
  readonly http2?: boolean
}

/** TLS towards an upstream. `servername` is sent and must stand in the certificate. */
export interface TlsAddress extends TcpAddress {
  readonly servername: string
  /** PEM of the authorities that are trusted instead of the system's. */
  readonly ca?: string
  readonly minVersion?: 'TLSv1.2' | 'TLSv1.3'
  /** False accepts any certificate. */
  readonly rejectUnauthorized?: boolean
}

type Why = Parameters<Dialer['open']>[0]

/** Opens TCP connections. A name that does not resolve is `dial-refused`. */
export function tcpDialer(at: TcpAddress): Dialer {
  return {
    key: `tcp ${at.host}:${at.port}${at.http2 === true ? ' h2' : ''}`,
    reusable: true,
    ...(at.http2 === true ? { http2: true } : {}),
    open: (why) => opened(connectTcp(at), 'connect', why)
  }
}

/** Opens connections to a Unix domain socket. `http2`: as in `TcpAddress`. */
export function pathDialer(path: string, http2 = false): Dialer {
  return {
    key: `unix ${path}${http2 ? ' h2' : ''}`,
    reusable: true,
    ...(http2 ? { http2 } : {}),
    open: (why) => opened(connect({ path, allowHalfOpen: true }), 'connect', why)
  }
}

/** Opens TLS connections over TCP; a failed handshake is `dial-tls`. */
export function tlsDialer(at: TlsAddress): Dialer {
  const { host, port, servername, ca, minVersion, rejectUnauthorized = true, http2 = false } = at
  return {
    key: `tls ${host}:${port} ${servername} ${rejectUnauthorized} ${minVersion ?? ''} ${ca ?? ''}${http2 ? ' h2' : ''}`,
    reusable: true,
    ...(http2 ? { http2 } : {}),
    open: (why) => {
      const below = connectTcp(at)
      // What travels as bytes is not HTTP/2, whatever the server speaks otherwise.
      const protocol = http2 && why.bytes !== true ? 'h2' : 'http/1.1'
      const options: ConnectionOptions & { allowHalfOpen: boolean } = {
        socket: below,
        // Without SNI this is what the certificate is checked against.
        host,
        // SNI holds names only (RFC 6066 3); without one the certificate is checked against the address.
        ...(isIP(servername) === 0 ? { servername } : {}),
        rejectUnauthorized,
        allowHalfOpen: true,
        ALPNProtocols: [protocol],
        ...(minVersion === undefined ? {} : { minVersion }),
        ...(ca === undefined ? {} : { ca })
      }
      const socket = connectTls(options)
      resetBelow(socket, below)
      const refused = (): string | undefined =>
        protocol === 'h2' && socket.alpnProtocol !== 'h2' ? 'the server does not speak HTTP/2 (ALPN)' : undefined
      return opened(socket, 'secureConnect', why, refused)
    }
  }
}

function connectTcp({ host, port, lookup }: TcpAddress): Socket {
  const names = lookup === undefined ? {} : { lookup }
  return connect({ host, port, noDelay: true, allowHalfOpen: true, ...names })
}

/** The pipe once `event` came, unless `refused` says what is wrong with it; every other end of the attempt rejects with a `DialError`. */
function opened(
  socket: Socket | TLSSocket,
  event: 'connect' | 'secureConnect',
  why: Why,
  refused?: () => string | undefined
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
        fail('dial-tls', refusal)
        return
      }
      detach()
      // A break is heard as 'close'; without a listener an 'error' would end the process.
      socket.on('error', ignore)
      resolve(new StreamPipe(socket))
    }
    const onError = (error: NodeJS.ErrnoException): void => fail(kindOf(error, connected), error.code ?? error.message)
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

function kindOf(error: NodeJS.ErrnoException, connected: boolean): Failure {
  if (error.code === 'ETIMEDOUT') return 'dial-timeout'
  return connected ? 'dial-tls' : 'dial-refused'
}
