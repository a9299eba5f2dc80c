import { constants, createHash, createHmac, X509Certificate } from 'node:crypto'
import type { Socket } from 'node:net'
import { createSecureContext, type DetailedPeerCertificate, type SecureContext, TLSSocket } from 'node:tls'
import type { ConnectionFacts } from '../../flow/exchange.js'
import { codeOf } from '../../lib/errors.js'
import type {
  HandshakeDetail,
  HandshakeFailure,
  ListenerTlsTable,
  TlsEntry,
  TlsPassthrough,
  TlsTable
} from '../contract.js'
import { ignore, readAhead, resetBelow } from '../pipes.js'
import { HelloReader } from './client-hello.js'
import { clientRefusal, revocationRefusal } from './client-refusal.js'

/** Result of a handshake, in the form of a connection's facts. */
type TlsFacts = NonNullable<ConnectionFacts['tls']>

/** Result of terminating TLS. */
export type Terminated =
  | { readonly kind: 'secure'; readonly secure: TLSSocket; readonly tls: TlsFacts }
  | { readonly kind: 'failed'; readonly why: HandshakeFailure; readonly detail: HandshakeDetail }

interface TerminateOptions<Table = TlsTable> {
  readonly table: Table
  readonly local: ConnectionFacts['local']
  /**
   * Returns the answer to a client whose first bytes are not TLS, or `more` if they do not show its protocol yet.
   * @default the connection is closed without an answer
   */
  readonly answerOther?: ((first: Buffer) => Buffer | 'more' | undefined) | undefined
}

/** Result for a listener's connection: its handshake, or TLS passthrough. */
export type TerminatedOrPassed =
  | Terminated
  /** The socket is as it was: all bytes that were read are put back. */
  | { readonly kind: 'passed'; readonly by: TlsPassthrough }

/** The parts of a server's TLS socket that only node's own TLS server uses. */
interface ServerSide {
  readonly _handle: { verifyError(): Error | null } | null
  /** Without it every error stays with the event `_tlsError`, and one after the handshake does not end the socket. */
  _releaseControl(): boolean
  on(event: '_tlsError', listener: (error: NodeJS.ErrnoException) => void): unknown
  removeListener(event: '_tlsError', listener: (error: NodeJS.ErrnoException) => void): unknown
}

/** A fatal alert in a record of its own: unrecognized_name (RFC 6066 3). */
const UNKNOWN_NAME = Buffer.from([21, 3, 3, 0, 2, 2, 112])
/** OpenSSL's error for a missing client certificate. */
const MISSING = 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE'

/**
 * Runs the server's side of a TLS handshake on an accepted socket that has not been read; bytes that were put back count
 * as its first. The ClientHello is read before OpenSSL sees it, so that everything can depend on the name. `done` is called
 * once; after a failure the socket is destroyed. Returns the way to give up, which does nothing when it is over.
 */
export function terminateTls(
  socket: Socket,
  options: TerminateOptions,
  done: (result: Terminated) => void
): (why: HandshakeFailure) => void {
  // Such a table has no entry that passes.
  return terminateOrPass(socket, options, done as (result: TerminatedOrPassed) => void)
}

/** Like `terminateTls`, for a listener whose table can also pass TLS through for a name. */
export function terminateOrPass(
  socket: Socket,
  options: TerminateOptions<ListenerTlsTable>,
  done: (result: TerminatedOrPassed) => void
): (why: HandshakeFailure) => void {
  let over = false
  let secure: TLSSocket | undefined
  let sni: string | undefined
  let answered = false
  const fail = (why: HandshakeFailure, detail: HandshakeDetail = {}): void => {
    if (over) return
    settle()
    secure?.destroy()
    if (why !== 'unknown-name') socket.destroy()
    done({ kind: 'failed', why: answered ? 'not-tls' : why, detail: sni === undefined ? detail : { ...detail, sni } })
  }
  const onClose = (): void => fail('client-gone')
  // Unread bytes would turn the close into a reset, which can overtake the answer, so the client closes first.
  const answer = (bytes: Buffer): void => {
    answered = true
    stop()
    socket.on('end', onClose)
    socket.on('data', ignore)
    socket.end(bytes)
  }
  const hello = new HelloReader()
  const stop = readAhead(
    socket,
    (chunk) => {
      const read = hello.take(chunk)
      if (read === 'more') return 'more'
      if (read === 'malformed') {
        const other = options.answerOther?.(hello.bytes)
        if (other === 'more') return 'more'
        if (other === undefined) fail('not-tls')
        else answer(other)
        return 'enough'
      }
      const entry = options.table.entryFor(read, options.local)
      sni = read.sni
      if (entry === undefined) {
        socket.end(UNKNOWN_NAME, () => socket.destroy())
        fail('unknown-name')
      } else if ('carry' in entry) {
        socket.unshift(hello.bytes)
        settle()
        socket.removeListener('error', ignore)
        done({ kind: 'passed', by: entry })
      } else {
        socket.unshift(hello.bytes)
        secure = shakeHands(socket, entry, fail, (ready, revoked) => {
          settle()
          done({ kind: 'secure', secure: ready, tls: factsOf(ready, entry, sni, revoked) })
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
  fail: (why: HandshakeFailure, detail?: HandshakeDetail) => void,
  ready: (secure: TLSSocket, revoked: boolean) => void
): TLSSocket {
  const secure = new TLSSocket(socket, {
    isServer: true,
    secureContext: entry.context,
    ALPNProtocols: [...entry.alpn],
    requestCert: entry.clientCertificates !== undefined,
    rejectUnauthorized: entry.clientCertificates === 'require'
  })
  const serverSide = secure as unknown as ServerSide
  // Nothing of the handshake stays with the connection.
  const settle = (): void => {
    serverSide.removeListener('_tlsError', onError)
    secure.removeListener('close', onGone)
    secure.removeListener('end', onGone)
    secure.removeListener('secure', onSecure)
  }
  const failOnce = (why: HandshakeFailure, detail?: HandshakeDetail): void => {
    settle()
    fail(why, detail)
  }
  const onError = (error: NodeJS.ErrnoException): void =>
    error.code === MISSING ? failOnce('certificate-missing') : failOnce('handshake-failed', { reason: error.code })
  const onGone = (): void => failOnce('client-gone')
  const onSecure = (): void => {
    const refusal = codeOf(serverSide._handle?.verifyError())
    const isRequired = entry.clientCertificates === 'require'
    const chain = entry.revoked !== undefined || (isRequired && refusal !== undefined) ? shownBy(secure) : []
    const [leaf] = chain
    const revoked = leaf === undefined ? undefined : entry.revoked?.(chain)
    // OpenSSL demands a certificate, node checks it, and a resumed session is believed what it was: all is checked here.
    if (isRequired && !verified(secure)) {
      if (certificateOf(secure) === undefined) failOnce('certificate-missing')
      else failOnce('certificate-refused', { reason: refusal, cause: clientRefusal(chain, refusal ?? '') })
    } else if (isRequired && leaf !== undefined && revoked !== undefined) {
      const why = revoked === 'issuer-not-shown' ? 'certificate-refused' : 'certificate-revoked'
      failOnce(why, { cause: revocationRefusal(leaf, revoked) })
    } else {
      settle()
      serverSide._releaseControl()
      ready(secure, revoked !== undefined)
    }
  }
  secure.allowHalfOpen = true
  resetBelow(secure, socket)
  secure.on('error', ignore)
  serverSide.on('_tlsError', onError)
  secure.on('close', onGone)
  // A client that leaves in the middle of its handshake ends its side first.
  secure.on('end', onGone)
  secure.on('secure', onSecure)
  return secure
}

function factsOf(secure: TLSSocket, entry: TlsEntry, sni: string | undefined, revoked: boolean): TlsFacts {
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
    ...(asked ? { clientVerified: verified(secure) && !revoked } : {}),
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

/**
 * The certificates that the client has shown, leaf first. Must be read before anything else about them: node hands out those behind the
 * leaf until `getPeerX509Certificate` is called for the first time.
 */
function shownBy(secure: TLSSocket): readonly X509Certificate[] {
  const shown: X509Certificate[] = []
  let next: DetailedPeerCertificate | undefined = secure.getPeerCertificate(true)
  // An authority that has signed itself is its own issuer.
  for (let raw: Buffer | undefined; next?.raw !== undefined && next.raw !== raw; next = next.issuerCertificate) {
    raw = next.raw
    shown.push(new X509Certificate(raw))
  }
  return shown
}

/** Options of a server's TLS context. */
export interface ServerContextOptions {
  /** PEM: the certificate with the intermediate ones behind it, and its key; or several, each with a key of another type. */
  readonly cert: string | string[]
  readonly key: string | string[]
  /** PEM of the authorities that may vouch for client certificates. */
  readonly ca?: string | readonly string[]
  /** Client certificate setting of the context's entry. */
  readonly clientCertificates?: TlsEntry['clientCertificates']
  /** Tells apart what the authorities have revoked; given, no session is resumed: only the leaf of a chain is kept in one. */
  readonly revocations?: string
  readonly minVersion?: 'TLSv1.2' | 'TLSv1.3'
  readonly maxVersion?: 'TLSv1.2' | 'TLSv1.3'
  /** 48 random bytes that all threads and processes share; left out: this context makes its own, and only it resumes. */
  readonly ticketKeys?: Buffer
}

const TICKET_KEY_BYTES = 48
/** Forward secrecy and AEAD only (RFC 9325 4.2), which is also what HTTP/2 asks of TLS 1.2 (RFC 9113 9.2.2). */
const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305'
].join(':')
/** The cheapest first: who offers several gets it. No finite fields, and no curve that costs many times as much. */
const CURVES = 'X25519:P-256:P-384'
/** X25519 with ML-KEM-768: what is recorded today cannot be read by a quantum computer of tomorrow. OpenSSL has it since 3.5. */
const HYBRID = 'X25519MLKEM768'
/** The key exchanges in our order: the hybrid one first, wherever the OpenSSL of this process has it. */
export const GROUPS = isGroup(HYBRID) ? `${HYBRID}:${CURVES}` : CURVES
/**
 * Our order of ciphers, but for clients that put ChaCha20 first because their machine has no AES of its own. A client cannot
 * make us shake hands again on one connection (RFC 9325 3.5): each time would cost us more than it.
 */
const OPTIONS = constants.SSL_OP_PRIORITIZE_CHACHA | constants.SSL_OP_NO_RENEGOTIATION

/**
 * The context of a listener's entry. A session is resumed only where certificate, versions, authorities and demand are
 * the same: both the session-id context and the ticket keys are made of them, so that a ticket of another entry, whose client may
 * never have shown a certificate, leads to a whole handshake. Throws when certificate and key do not fit, as
 * `createSecureContext` does.
 */
export function serverContext(options: ServerContextOptions): SecureContext {
  const { cert, key, ca, revocations, ticketKeys, clientCertificates } = options
  const { minVersion = 'TLSv1.2', maxVersion = 'TLSv1.3' } = options
  const authorities = ca === undefined ? [] : typeof ca === 'string' ? [ca] : [...ca]
  const identity = createHash('sha256')
    .update(JSON.stringify([cert, authorities, revocations ?? '', clientCertificates ?? '', minVersion, maxVersion]))
    .digest()
  return createSecureContext({
    cert,
    key,
    minVersion,
    maxVersion,
    ciphers: CIPHERS,
    honorCipherOrder: true,
    secureOptions: revocations === undefined ? OPTIONS : OPTIONS | constants.SSL_OP_NO_TICKET,
    ecdhCurve: GROUPS,
    sessionIdContext: identity.toString('hex', 0, 16),
    // Without authorities of its own a context would believe those that node trusts on the way out.
    // An intermediate authority may be named as well as its root.
    ...(clientCertificates === undefined ? {} : { ca: authorities, allowPartialTrustChain: true }),
    ...(ticketKeys === undefined ? {} : { ticketKeys: derived(ticketKeys, identity) })
  })
}

/** Only a context that is made says what OpenSSL has: it refuses names that it does not know. */
function isGroup(name: string): boolean {
  try {
    createSecureContext({ ecdhCurve: name })
    return true
  } catch {
    return false
  }
}

function derived(ticketKeys: Buffer, identity: Buffer): Buffer {
  return createHmac('sha512', ticketKeys).update(identity).digest().subarray(0, TICKET_KEY_BYTES)
}
