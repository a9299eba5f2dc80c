import { ACCEPTED } from '../finding.js'
import { macKey, macOf, sameText } from '../mac.js'
import { type Scheme, single, type WebhookRequest } from '../scheme.js'
import { staleness } from '../timestamp.js'

const CONTENTFUL_FORM = { algorithm: 'sha256', encoding: 'hex' } as const
const SIGNATURE = 'x-contentful-signature'
const SIGNED = 'x-contentful-signed-headers'
const TIMESTAMP = 'x-contentful-timestamp'
/** As Contentful's own toolkit has it, in milliseconds. */
const CONTENTFUL_TOLERANCE = 30_000

/**
 * Contentful's canonical request: method, path, the signed fields as `name:value` joined by `;` and the body, a line each;
 * hex HMAC-SHA256. Its list of signed fields and its timestamp must be signed themselves.
 */
export const contentful: Scheme = (secret) => {
  const key = macKey(secret)
  return ({ headers, method, target, body, now }) => {
    const found = single(headers, SIGNATURE)
    if (typeof found === 'string') return found
    const list = single(headers, SIGNED)
    if (typeof list === 'string') return list
    const names = list.value.split(',').map((name) => name.trim().toLowerCase())
    if (!names.includes(SIGNED) || !names.includes(TIMESTAMP)) return 'SIGNATURE_INVALID'
    const fields = canonicalFields(headers, names)
    const path = canonicalPath(target)
    if (fields === undefined || path === undefined) return 'SIGNATURE_INVALID'
    const stale = staleness(headers.get(TIMESTAMP)?.trim(), now, CONTENTFUL_TOLERANCE)
    if (stale !== undefined) return stale
    const expected = macOf(CONTENTFUL_FORM, key, `${method}\n${path}\n${fields}\n`, body)
    return sameText(expected, found.value) ? ACCEPTED : 'SIGNATURE_INVALID'
  }
}

/** Undefined when a signed field is not there exactly once. */
function canonicalFields(headers: WebhookRequest['headers'], names: readonly string[]): string | undefined {
  const fields: string[] = []
  for (const name of [...names].sort()) {
    const found = single(headers, name)
    if (typeof found === 'string') return undefined
    fields.push(`${name}:${found.value.trim()}`)
  }
  return fields.join(';')
}

/** The query is escaped as a whole, and the result once more. Undefined for what Contentful would sign a part of only. */
function canonicalPath(target: string): string | undefined {
  const [path = '', query, ...more] = target.split('?')
  if (more.length > 0) return undefined
  return encodeURI(query === undefined || query === '' ? path : `${path}?${encodeURIComponent(query)}`)
}
