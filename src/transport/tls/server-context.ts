import { constants, createHash, createHmac } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { TlsEntry } from '../contract.js'

export interface ServerContextOptions {
  /** PEM: the certificate with the intermediate ones behind it, and its key. */
  readonly cert: string
  readonly key: string
  /** PEM of the authorities that may vouch for client certificates. */
  readonly ca?: string | readonly string[]
  /** As in the entry that this context is for. */
  readonly clientCertificates?: TlsEntry['clientCertificates']
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
  const { cert, key, ca, ticketKeys, clientCertificates, minVersion = 'TLSv1.2', maxVersion = 'TLSv1.3' } = options
  const authorities = ca === undefined ? [] : typeof ca === 'string' ? [ca] : [...ca]
  const identity = createHash('sha256')
    .update(JSON.stringify([cert, authorities, clientCertificates ?? '', minVersion, maxVersion]))
    .digest()
  return createSecureContext({
    cert,
    key,
    minVersion,
    maxVersion,
    ciphers: CIPHERS,
    honorCipherOrder: true,
    secureOptions: OPTIONS,
    ecdhCurve: CURVES,
    sessionIdContext: identity.toString('hex', 0, 16),
    // Without authorities of its own a context would believe those that node trusts on the way out.
    ...(clientCertificates === undefined ? {} : { ca: authorities }),
    ...(ticketKeys === undefined ? {} : { ticketKeys: derived(ticketKeys, identity) })
  })
}

function derived(ticketKeys: Buffer, identity: Buffer): Buffer {
  return createHmac('sha512', ticketKeys).update(identity).digest().subarray(0, TICKET_KEY_BYTES)
}
