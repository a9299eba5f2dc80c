import type { Socket } from 'node:net'
import { type SecureContext, TLSSocket } from 'node:tls'
import type { ConnectionFacts } from '../exchange/connection.js'
import type { TlsTable } from './contract.js'
import { ignore } from './copy.js'

/** What a handshake settled, as the facts of a connection hold it. */
export type TlsFacts = NonNullable<ConnectionFacts['tls']>

/** The handshakes of one listener. A connection counts from its first byte, so each is watched from there. */
export class Handshakes {
  readonly #table: TlsTable
  readonly #timeout: number
  readonly #running = new Set<Socket>()

  /** `timeout` in milliseconds; 0: no limit. */
  constructor(table: TlsTable, timeout: number) {
    this.#table = table
    this.#timeout = timeout
  }

  get size(): number {
    return this.#running.size
  }

  /** One of `ready` and `failed` is called, once. */
  begin(socket: Socket, ready: (secure: TLSSocket, facts: TlsFacts) => void, failed: () => void): void {
    const over = (): void => {
      this.#running.delete(socket)
      failed()
    }
    this.#running.add(socket)
    socket.once('close', over)
    acceptTls(socket, this.#table, this.#timeout, (secure, facts) => {
      socket.removeListener('close', over)
      this.#running.delete(socket)
      ready(secure, facts)
    })
  }

  cut(): void {
    for (const socket of this.#running) socket.destroy()
  }
}

/**
 * Runs the server's side of a TLS handshake on an accepted socket. `ready` is called at most once; a handshake that
 * fails or takes longer than `timeout` milliseconds (0: no limit) destroys the socket.
 */
function acceptTls(
  socket: Socket,
  table: TlsTable,
  timeout: number,
  ready: (secure: TLSSocket, facts: TlsFacts) => void
): void {
  const context = table.contextFor(undefined) as SecureContext | undefined
  const secure = new TLSSocket(socket, {
    isServer: true,
    ALPNProtocols: [...table.alpn],
    SNICallback: (name, done) => done(null, table.contextFor(name) as SecureContext | undefined),
    ...(context === undefined ? {} : { secureContext: context })
  })
  secure.allowHalfOpen = true
  const timer = timeout > 0 ? setTimeout(() => socket.destroy(), timeout) : undefined
  secure.on('error', ignore)
  socket.on('error', ignore)
  socket.once('close', () => {
    clearTimeout(timer)
    secure.destroy()
  })
  secure.once('error', () => socket.destroy())
  secure.once('secure', () => {
    clearTimeout(timer)
    ready(secure, factsOf(secure))
  })
}

function factsOf(secure: TLSSocket): TlsFacts {
  const sni = (secure as TLSSocket & { servername?: string | false }).servername
  const certificate = secure.getPeerCertificate().raw as Uint8Array | undefined
  return {
    version: secure.getProtocol() ?? '',
    cipher: secure.getCipher().name,
    resumed: secure.isSessionReused(),
    ...(typeof sni === 'string' ? { sni } : {}),
    ...(typeof secure.alpnProtocol === 'string' ? { alpn: secure.alpnProtocol } : {}),
    ...(certificate === undefined ? {} : { clientCertificate: certificate })
  }
}
