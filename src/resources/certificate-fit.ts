import type { Body, Makers } from '../schema/field.js'
import { tlsCertificate } from './certificates.js'

/**
 * Returns why an uploaded certificate cannot serve a domain now: the name does not match (RFC 6125 6.4.3: a wildcard matches one label), or
 * it is not yet valid or expired. Undefined if it can, or if it does not exist, which other checks report.
 */
export async function unfit(certificate: string, domain: string, { find, clock }: Makers): Promise<string | undefined> {
  const found = await find(tlsCertificate.name, certificate)
  if (found === undefined) return undefined
  const {
    subject_alternative_names: subject,
    not_before: from,
    not_after: until
  } = found.body as Body & {
    readonly subject_alternative_names: { readonly dns_names: readonly string[] }
    readonly not_before: string
    readonly not_after: string
  }
  const names = subject.dns_names.map((name) => name.toLowerCase())
  const above = `*${domain.slice(domain.indexOf('.'))}`
  if (!names.includes(domain) && !names.includes(above)) {
    const named = names.length === 0 ? 'has no DNS names' : `is for ${names.slice(0, 5).join(', ')}`
    return `does not cover ${domain}: the certificate ${named}`
  }
  const now = clock.wall()
  if (Date.parse(until) <= now) return `has expired (${until}): upload a certificate that is valid`
  return Date.parse(from) > now ? `is not valid before ${from}` : undefined
}
