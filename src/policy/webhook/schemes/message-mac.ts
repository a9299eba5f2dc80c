import type { Finding } from '../finding.js'
import { isAmong, keyFromBase64, macKey, macOf } from '../mac.js'
import { type Scheme, single, type WebhookRequest } from '../scheme.js'
import { staleness, TOLERANCE } from '../timestamp.js'

const FORM = { algorithm: 'sha256', encoding: 'base64' } as const
const SECRET_PREFIX = 'whsec_'

/**
 * Standard Webhooks: fields `<prefix>id`, `<prefix>timestamp` and `<prefix>signature`, the last a list of `v1,<base64>`
 * parted by blanks; HMAC-SHA256 of `<id>.<timestamp>.<body>` under a key in base64 behind `whsec_`. Of several prefixes
 * the first counts whose id is there.
 */
export function messageMac(...prefixes: readonly string[]): Scheme {
  return (secret) => {
    const bytes = keyFromBase64(secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret)
    if (bytes === undefined) return `must be base64, behind ${SECRET_PREFIX} or alone`
    const key = macKey(bytes)
    return ({ headers, body, now }): Finding => {
      const fields = signedFields(headers, prefixes)
      if (typeof fields === 'string') return fields
      const { id, timestamp, signature } = fields
      const stale = staleness(timestamp, now, TOLERANCE)
      if (stale !== undefined) return stale
      const expected = `v1,${macOf(FORM, key, `${id}.${timestamp}.`, body)}`
      if (!isAmong(expected, signature.split(' '))) return 'SIGNATURE_INVALID'
      // A retry has the same id and another timestamp.
      return { accepted: true, once: `${id}.${timestamp}` }
    }
  }
}

function signedFields(headers: WebhookRequest['headers'], prefixes: readonly string[]) {
  const prefix = prefixes.find((one) => headers.has(`${one}id`))
  if (prefix === undefined) return 'SIGNATURE_MISSING'
  const [id, timestamp, signature] = ['id', 'timestamp', 'signature'].map((name) => single(headers, prefix + name))
  if (id === undefined || timestamp === undefined || signature === undefined) return 'SIGNATURE_MISSING'
  if (typeof id === 'string') return id
  if (typeof timestamp === 'string') return timestamp === 'SIGNATURE_MISSING' ? 'TIMESTAMP_INVALID' : timestamp
  if (typeof signature === 'string') return signature
  return { id: id.value, timestamp: timestamp.value, signature: signature.value }
}
