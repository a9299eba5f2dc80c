import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { ConnectionFacts } from '../../flow/exchange.js'
import { resetBelow } from '../byte-pipe.js'
import type { HandshakeFailure, TlsEntry, TlsTable } from '../contract.js'
import { ignore } from '../copy.js'
import { readAhead } from '../read-ahead.js'
import { HelloReader } from './client-hello.js'

/** What a handshake settled, as the facts of a connection hold it. */
type TlsFacts = NonNullable<ConnectionFacts['tls']>

export type Terminated =
  | { readonly kind: 'secure'; readonly secure: TLSSocket; readonly tls: TlsFacts }
  | { readonly kind: 'failed'; readonly why: HandshakeFailure }

export interface TerminateOptions {
  readonly table: TlsTable
  readonly local: ConnectionFacts['local']
}

/** The parts of a server's TLS socket that only node's own TLS server uses. */
interface ServerSide {
  readonly _handle: { verifyError(): Error | null } | null
  /** Without it every error stays with the event `_tlsError`, and one after the handshake does not end the socket. */
  _releaseControl(): boolean
  /** node:http2 waits for it to become false. */
  secureConnecting: boolean
  on(event: '_tlsError', listener: (error: NodeJS.ErrnoException) => void): unknown
}

/** A fatal alert in a record of its own: unrecognized_name (RFC 6066 3). */
const UNKNOWN_NAME = Buffer.from([21, 3, 3, 0, 2, 2, 112])
const MISSING = 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE'

/**
 * Runs the server's side of a TLS handshake on an accepted socket that nobody has read; bytes that were put back count
 * as its first. The ClientHello is read before OpenSSL sees it, so that everything can depend on the name. `done` is called
 * once; after a failure the socket is destroyed. Returns the way to give up, which does nothing when it is over.
 */
export function terminateTls(
  socket: Socket,
  options: TerminateOptions,
  done: (result: Terminated) => void
): (why: HandshakeFailure) => void {
  let over = false
  let secure: TLSSocket | undefined
  const fail = (why: HandshakeFailure): void => {
    if (over) return
    settle()
    secure?.destroy()
    if (why !== 'unknown-name') socket.destroy()
    done({ kind: 'failed', why })
  }
  const onClose = (): void => fail('client-gone')
  const hello = new HelloReader()
  const stop = readAhead(
    socket,
    (chunk) => {
      const read = hello.take(chunk)
      if (read === 'more') return 'more'
      const entry = read === 'malformed' ? undefined : options.table.entryFor(read, options.local)
      if (read === 'malformed') fail('not-tls')
      else if (entry === undefined) {
        socket.end(UNKNOWN_NAME, () => socket.destroy())
        fail('unknown-name')
      } else {
        socket.unshift(hello.bytes)
        const { sni } = read
        secure = shakeHands(socket, entry, fail, (ready) => {
          settle()
          done({ kind: 'secure', secure: ready, tls: factsOf(ready, entry, sni) })
        })
      }
      return 'enough'
    },
    onClose
  )
  const settle = (): void => {
    over = true
    stop()
    socket.removeListener('close', onClose)
  }
  socket.on('error', ignore)
  socket.once('close', onClose)
  if (socket.destroyed) process.nextTick(onClose)
  return fail
}

function shakeHands(
  socket: Socket,
  entry: TlsEntry,
  fail: (why: HandshakeFailure) => void,
  ready: (secure: TLSSocket) => void
): TLSSocket {
  const secure = new TLSSocket(socket, {
    isServer: true,
    secureContext: entry.context,
    ALPNProtocols: [...entry.alpn],
    requestCert: entry.clientCertificates !== undefined,
    rejectUnauthorized: entry.clientCertificates === 'require'
  })
  const serverSide = secure as unknown as ServerSide
  let over = false
  const failOnce = (why: HandshakeFailure): void => {
    if (over) return
    over = true
    fail(why)
  }
  secure.allowHalfOpen = true
  resetBelow(secure, socket)
  secure.on('error', ignore)
  serverSide.on('_tlsError', (error) => failOnce(error.code === MISSING ? 'certificate-missing' : 'handshake-failed'))
  socket.once('close', () => secure.destroy())
  secure.once('close', () => failOnce('client-gone'))
  // A client that leaves in the middle of its handshake ends its side first.
  secure.once('end', () => failOnce('client-gone'))
  secure.once('secure', () => {
    if (over) return
    // OpenSSL demands a certificate, node checks it, and a resumed session is believed what it was: all is checked here.
    if (entry.clientCertificates === 'require' && !verified(secure)) {
      failOnce(certificateOf(secure) === undefined ? 'certificate-missing' : 'certificate-refused')
      return
    }
    over = true
    serverSide._releaseControl()
    serverSide.secureConnecting = false
    ready(secure)
  })
  return secure
}

function factsOf(secure: TLSSocket, entry: TlsEntry, sni: string | undefined): TlsFacts {
  const asked = entry.clientCertificates !== undefined
  const client = asked ? certificateOf(secure) : undefined
  const server = entry.certificate ?? secure.getX509Certificate()?.raw
  return {
    version: secure.getProtocol() ?? '',
    cipher: secure.getCipher().name,
    resumed: secure.isSessionReused(),
    ...(sni === undefined ? {} : { sni }),
    ...(typeof secure.alpnProtocol === 'string' ? { alpn: secure.alpnProtocol } : {}),
    ...(client === undefined ? {} : { clientCertificate: client }),
    ...(asked ? { clientVerified: verified(secure) } : {}),
    ...(server === undefined ? {} : { serverCertificate: server })
  }
}

function certificateOf(secure: TLSSocket): Uint8Array | undefined {
  return secure.getPeerX509Certificate()?.raw
}

/** Node says that all is well where a resumed session brought no certificate, so there must be one. */
function verified(secure: TLSSocket): boolean {
  const { _handle: handle } = secure as unknown as ServerSide
  return certificateOf(secure) !== undefined && handle !== null && handle.verifyError() === null
}
