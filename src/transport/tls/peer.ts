import { createHash, type X509Certificate } from 'node:crypto'
import { checkServerIdentity, type TLSSocket } from 'node:tls'
import type { Failure } from '../../flow/exchange.js'
import { systemClock } from '../../lib/clock.js'

/** A certificate that an upstream must show, by the SHA-256 of all of it (DER) or of its public key (SubjectPublicKeyInfo). */
export interface Pin {
  readonly of: 'certificate' | 'public-key'
  /** 64 lower-case hexadecimal digits. */
  readonly sha256: string
}

/** Requirements for an upstream's certificate. */
export interface PeerRules {
  /** Host name or address that must stand in its certificate. */
  readonly name: string
  /** One of them must be its own certificate; empty: any. */
  readonly pins: readonly Pin[]
  /** Pins take the place of an authority: who has issued the certificate is not asked. */
  readonly pinsAlone: boolean
  /** False: the name in the certificate is not asked for; only with `pinsAlone`. */
  readonly checkName: boolean
  /** Are there authorities of its own, in place of the known ones? */
  readonly ownAuthorities: boolean
}

/** Why a handshake is refused; `message` is for the log. */
export interface PeerRefusal {
  readonly failure: Failure
  readonly message: string
}

/** Longest part of a certificate that goes into a log, and most names of it. */
const LONGEST = 200
/** Maximum number of a certificate's names in a log line. */
const MOST_NAMES = 5

/** Codes of OpenSSL for a chain that leads to no authority that is trusted. */
export const UNTRUSTED: ReadonlySet<string> = new Set([
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'CERT_UNTRUSTED',
  'INVALID_CA'
])
const NAME = 'ERR_TLS_CERT_ALTNAME_INVALID'

/** Judges what the upstream has shown, once its handshake is done; undefined: nothing is wrong with it. */
export function peerRefusal(socket: TLSSocket, rules: PeerRules): PeerRefusal | undefined {
  const leaf = socket.getPeerX509Certificate()
  if (leaf === undefined) return { failure: 'dial-tls', message: 'it shows no certificate' }
  const pin = pinRefusal(leaf, rules.pins)
  if (!rules.pinsAlone) return (socket.authorized ? undefined : refusalFor(socket, leaf, rules)) ?? pin
  return pin ?? timeRefusal(leaf) ?? (rules.checkName ? nameRefusal(leaf, rules) : undefined)
}

/** Why a handshake broke, from the code of its error: `dial-tls` where the code says no more. */
export function handshakeFailure(code: string): PeerRefusal {
  const alert = alertOf(code)
  if (alert !== undefined && REFUSES_CLIENT.has(alert))
    return { failure: 'tls-client-certificate', message: `it refuses the client certificate, or wants one: ${code}` }
  if (alert === 'PROTOCOL_VERSION' || VERSION.has(code))
    return { failure: 'tls-version', message: `it speaks no version of TLS that is permitted: ${code}` }
  if (alert === 'HANDSHAKE_FAILURE')
    return { failure: 'dial-tls', message: `no common ground, or it wants a client certificate: ${code}` }
  return { failure: 'dial-tls', message: code }
}

/** The words of an alert (RFC 8446 6) in an error code of OpenSSL; since 3.2 codes of old alerts have `SSL/TLS` in place of `SSLV3`. */
function alertOf(code: string): string | undefined {
  return /^ERR_SSL_(?:SSLV3|SSL\/TLS|TLSV1|TLSV13)_ALERT_(\w+)$/.exec(code)?.[1]
}

const REFUSES_CLIENT: ReadonlySet<string> = new Set([
  'CERTIFICATE_REQUIRED',
  'NO_CERTIFICATE',
  'BAD_CERTIFICATE',
  'UNSUPPORTED_CERTIFICATE',
  'CERTIFICATE_REVOKED',
  'CERTIFICATE_EXPIRED',
  'CERTIFICATE_UNKNOWN',
  'UNKNOWN_CA',
  'ACCESS_DENIED'
])
const VERSION: ReadonlySet<string> = new Set([
  'ERR_SSL_UNSUPPORTED_PROTOCOL',
  'ERR_SSL_WRONG_SSL_VERSION',
  'ERR_SSL_VERSION_TOO_LOW'
])

function pinRefusal(leaf: X509Certificate, pins: readonly Pin[]): PeerRefusal | undefined {
  if (pins.length === 0) return undefined
  const certificate = sha256(leaf.raw)
  const key = sha256(leaf.publicKey.export({ type: 'spki', format: 'der' }))
  if (pins.some((pin) => pin.sha256 === (pin.of === 'certificate' ? certificate : key))) return undefined
  return {
    failure: 'tls-pin',
    message: `none of its pins fits ${shown(leaf.subject)}: certificate:${certificate}, public-key:${key}`
  }
}

function refusalFor(socket: TLSSocket, leaf: X509Certificate, rules: PeerRules): PeerRefusal {
  const code = String(socket.authorizationError)
  if (code === NAME) return wrongName(leaf, rules)
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') {
    const other = { failure: 'tls-expired', message: `a certificate of its chain is not valid now: ${code}` } as const
    return timeRefusal(leaf) ?? other
  }
  if (!UNTRUSTED.has(code)) return { failure: 'dial-tls', message: code }
  const among = rules.ownAuthorities ? 'the authorities of the backend' : 'the known authorities'
  return { failure: 'tls-untrusted', message: `${shown(topIssuer(chainOf(leaf)))} is not among ${among}: ${code}` }
}

/** The certificates that a peer has sent, leaf first. */
function chainOf(leaf: X509Certificate): readonly X509Certificate[] {
  const chain = [leaf]
  for (let next = leaf.issuerCertificate; next !== undefined && chain.length < 10; next = next.issuerCertificate) {
    if (next.fingerprint256 === chain.at(-1)?.fingerprint256) break
    chain.push(next)
  }
  return chain
}

/** The issuer of the last certificate that was sent: what is missing. */
export function topIssuer(chain: readonly X509Certificate[]): string {
  return chain.at(-1)?.issuer ?? ''
}

function timeRefusal({ validFrom, validTo, subject }: X509Certificate): PeerRefusal | undefined {
  const now = systemClock.wall()
  if (Date.parse(validTo) < now)
    return { failure: 'tls-expired', message: `the certificate of ${shown(subject)} was valid until ${validTo}` }
  if (Date.parse(validFrom) > now)
    return { failure: 'tls-expired', message: `the certificate of ${shown(subject)} is not valid before ${validFrom}` }
  return undefined
}

function nameRefusal(leaf: X509Certificate, rules: PeerRules): PeerRefusal | undefined {
  return checkServerIdentity(rules.name, leaf.toLegacyObject()) === undefined ? undefined : wrongName(leaf, rules)
}

function wrongName({ subjectAltName }: X509Certificate, { name }: PeerRules): PeerRefusal {
  const names = (subjectAltName ?? '').split(', ').filter((one) => one !== '')
  const more = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : ''
  const has = names.length === 0 ? 'no name' : `${shown(names.slice(0, MOST_NAMES).join(', '))}${more}`
  return { failure: 'tls-name', message: `its certificate is not for ${name}; it has ${has}` }
}

/** A text of the peer, fit for a line of the log. */
export function shown(text: string): string {
  const line = text.replaceAll('\n', ', ').replace(/\p{C}/gu, '')
  return `"${line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line}"`
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
