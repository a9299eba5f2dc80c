import { createHash } from 'node:crypto'
import { ACCEPTED, type Finding } from '../finding.js'
import { macKey, macOf, sameText } from '../mac.js'
import { type Scheme, single, type WebhookRequest } from '../scheme.js'
import { staleness, TOLERANCE } from '../timestamp.js'

const HUBSPOT_FORM = { algorithm: 'sha256', encoding: 'base64' } as const
/** What HubSpot reads decoded in a URL before it signs it. */
const DECODED = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi

/**
 * HubSpot's signatures. Version 3, when its field is there: base64 HMAC-SHA256 of method, URL, body and timestamp. Else
 * the version that a field names, a hex SHA-256: of secret, method, URL and body (2), or of secret and body (1).
 */
export const hubspot: Scheme = (secret) => {
  const key = macKey(secret)
  return (request) => {
    if (request.headers.has('x-hubspot-signature-v3'))
      return third(request, (text) => macOf(HUBSPOT_FORM, key, ...text))
    const found = single(request.headers, 'x-hubspot-signature')
    if (typeof found === 'string') return found
    const version = single(request.headers, 'x-hubspot-signature-version')
    if (typeof version === 'string') return version
    const { method, body } = request
    const texts =
      version.value === 'v1'
        ? [secret]
        : version.value === 'v2'
          ? request.urls().map((url) => secret + method + url)
          : []
    let same = false
    for (const text of texts) if (sameText(hashOf(text, body), found.value)) same = true
    return same ? ACCEPTED : 'SIGNATURE_INVALID'
  }
}

function third(request: WebhookRequest, mac: (text: readonly (string | Uint8Array)[]) => string): Finding {
  const { headers, method, body, now } = request
  const found = single(headers, 'x-hubspot-signature-v3')
  if (typeof found === 'string') return found
  const time = single(headers, 'x-hubspot-request-timestamp')
  if (typeof time === 'string') return time === 'SIGNATURE_MISSING' ? 'TIMESTAMP_INVALID' : time
  const stale = staleness(time.value, now, TOLERANCE)
  if (stale !== undefined) return stale
  let same = false
  for (const url of request.urls()) {
    if (sameText(mac([method + decoded(url), body, time.value]), found.value)) same = true
  }
  return same ? ACCEPTED : 'SIGNATURE_INVALID'
}

function decoded(url: string): string {
  return url.replace(DECODED, (encoded) => String.fromCharCode(Number.parseInt(encoded.slice(1), 16)))
}

function hashOf(text: string, body: Uint8Array): string {
  return createHash('sha256').update(text, 'utf8').update(body).digest('hex')
}
