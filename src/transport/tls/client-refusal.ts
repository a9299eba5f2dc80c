import type { X509Certificate } from 'node:crypto'
import { systemClock } from '../../lib/clock.js'
import type { Revoked } from '../../lib/crl.js'
import { shown, topIssuer, UNTRUSTED } from './peer.js'

/** Certificate of a client for a line of the log: whose it is and how its issuer calls it. */
function nameOf({ subject, serialNumber, issuer }: X509Certificate): string {
  return `the certificate of ${shown(subject)} (serial number ${serialNumber}, issued by ${shown(issuer)})`
}

/**
 * Words for why the certificates that a client showed, leaf first, are refused. `code`: that of OpenSSL's check (X509_V_ERR without its
 * beginning), which does not say which certificate it is about.
 */
export function clientRefusal(chain: readonly X509Certificate[], code: string): string {
  const [leaf] = chain
  if (leaf === undefined) return code
  const now = systemClock.wall()
  const expired = chain.find(({ validTo }) => Date.parse(validTo) < now)
  if (code === 'CERT_HAS_EXPIRED' && expired !== undefined) {
    return `${nameOf(expired)} was valid until ${expired.validTo}`
  }
  const early = chain.find(({ validFrom }) => Date.parse(validFrom) > now)
  if (code === 'CERT_NOT_YET_VALID' && early !== undefined) {
    return `${nameOf(early)} is not valid before ${early.validFrom}`
  }
  if (code === 'INVALID_PURPOSE') return `${nameOf(leaf)} is not for clients (extended key usage)`
  if (!UNTRUSTED.has(code)) return `${nameOf(leaf)}: ${code}`
  return `${nameOf(leaf)} leads to ${shown(topIssuer(chain))}, which is no authority for clients here`
}

/** Words for why a client is refused that its authorities vouch for. */
export function revocationRefusal(leaf: X509Certificate, revoked: Revoked): string {
  return revoked === 'issuer-not-shown'
    ? `${nameOf(leaf)}: its chain does not show which authority has issued it, and that one may be revoked`
    : `${nameOf(revoked)} is revoked by its issuer`
}
