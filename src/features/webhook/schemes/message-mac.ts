import { createHash, type KeyObject } from 'node:crypto'
import { objectMember, readObject, textMember } from '../json.js'
import {
  ACCEPTED,
  type Finding,
  fieldsOfForm,
  hashed,
  isAmong,
  isForm,
  keyFromBase64,
  macKey,
  macOf,
  type Scheme,
  sameText,
  single,
  staleness,
  TOLERANCE,
  type WebhookRequest
} from '../scheme.js'

const FORM = { algorithm: 'sha256', encoding: 'base64' } as const
/** Prefix of a secret; some senders add the signature version. */
const SECRET_PREFIX = /^(?:v1,)?(?:whsec_)?/
/** Separator of secrets; a blank counts only before a prefixed secret. */
const SEPARATOR = /\||\s+(?=(?:v1,)?whsec_)/
/** Maximum number of secrets during a rotation. */
const MAX_SECRETS = 10

/**
 * Standard Webhooks: fields `<prefix>id`, `<prefix>timestamp` and `<prefix>signature`, the last a list of `v1,<base64>` separated by
 * blanks; HMAC-SHA256 of `<id>.<timestamp>.<body>` with a base64 key after `whsec_` or `v1,whsec_`. The first prefix with an id is used;
 * any of several secrets, separated by blanks or `|`, is valid.
 */
export function messageMac(...prefixes: readonly string[]): Scheme {
  return (secret) => {
    const secrets = secret.split(SEPARATOR)
    if (secrets.length > MAX_SECRETS) return `must be at most ${MAX_SECRETS} secrets`
    const keys: KeyObject[] = []
    for (const one of secrets) {
      const bytes = keyFromBase64(one.replace(SECRET_PREFIX, ''))
      if (bytes === undefined)
        return 'must be base64, behind whsec_ or v1,whsec_ or alone; several are parted by blanks or "|"'
      keys.push(macKey(bytes))
    }
    return async ({ headers, body, now }): Promise<Finding> => {
      const fields = signedFields(headers, prefixes)
      if (typeof fields === 'string') return fields
      const { id, timestamp, signature } = fields
      const stale = staleness(timestamp, now, TOLERANCE)
      if (stale !== undefined) return stale
      const given = signature.split(' ')
      let isSigned = false
      for (const key of keys) {
        const expected = `v1,${await macOf(FORM, key, `${id}.${timestamp}.`, body)}`
        if (isAmong(expected, given)) isSigned = true
      }
      if (!isSigned) return 'SIGNATURE_INVALID'
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

const CONTENTFUL_FORM = { algorithm: 'sha256', encoding: 'hex' } as const
const SIGNATURE = 'x-contentful-signature'
const SIGNED = 'x-contentful-signed-headers'
const TIMESTAMP = 'x-contentful-timestamp'
/** Tolerance of Contentful's own toolkit (ms). */
const CONTENTFUL_TOLERANCE = 30_000

/**
 * Contentful's canonical request: method, path, signed fields as `name:value` joined by `;`, and body, a line each; hex HMAC-SHA256. Its
 * list of signed fields and its timestamp must be signed themselves.
 */
export const contentful: Scheme = (secret) => {
  const key = macKey(secret)
  return async ({ headers, method, target, body, now }) => {
    const found = single(headers, SIGNATURE)
    if (typeof found === 'string') return found
    const list = single(headers, SIGNED)
    if (typeof list === 'string') return list
    const names = list.value.split(',').map((name) => name.trim().toLowerCase())
    if (!names.includes(SIGNED) || !names.includes(TIMESTAMP)) return 'SIGNATURE_INVALID'
    // A repeated name would add its value to the signed text again.
    if (new Set(names).size < names.length) return 'SIGNATURE_INVALID'
    const fields = canonicalFields(headers, names)
    const path = canonicalPath(target)
    if (fields === undefined || path === undefined) return 'SIGNATURE_INVALID'
    const stale = staleness(headers.get(TIMESTAMP)?.trim(), now, CONTENTFUL_TOLERANCE)
    if (stale !== undefined) return stale
    const expected = await macOf(CONTENTFUL_FORM, key, `${method}\n${path}\n${fields}\n`, body)
    return sameText(expected, found.value) ? ACCEPTED : 'SIGNATURE_INVALID'
  }
}

/** Returns the signed fields; undefined unless each is present exactly once. */
function canonicalFields(headers: WebhookRequest['headers'], names: readonly string[]): string | undefined {
  const fields: string[] = []
  for (const name of [...names].sort()) {
    const found = single(headers, name)
    if (typeof found === 'string') return undefined
    fields.push(`${name}:${found.value.trim()}`)
  }
  return fields.join(';')
}

/** Returns the path with its query escaped as a whole, then escaped again. Undefined if Contentful would sign only a part. */
function canonicalPath(target: string): string | undefined {
  const [path = '', query, ...more] = target.split('?')
  if (more.length > 0) return undefined
  return encodeURI(query === undefined || query === '' ? path : `${path}?${encodeURIComponent(query)}`)
}

const HUBSPOT_FORM = { algorithm: 'sha256', encoding: 'base64' } as const
/** Escapes that HubSpot decodes in a URL before signing. */
const DECODED = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi

/**
 * HubSpot's signatures. Version 3, if its field is present: base64 HMAC-SHA256 of method, URL, body and timestamp. Otherwise the version in
 * a field, a hex SHA-256: of secret, method, URL and body (2), or of secret and body (1).
 */
export const hubspot: Scheme = (secret) => {
  const key = macKey(secret)
  return async (request) => {
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
    for (const text of texts) if (sameText(await hashOf(text, body), found.value)) same = true
    return same ? ACCEPTED : 'SIGNATURE_INVALID'
  }
}

async function third(
  request: WebhookRequest,
  mac: (text: readonly (string | Uint8Array)[]) => Promise<string>
): Promise<Finding> {
  const { headers, method, body, now } = request
  const found = single(headers, 'x-hubspot-signature-v3')
  if (typeof found === 'string') return found
  const time = single(headers, 'x-hubspot-request-timestamp')
  if (typeof time === 'string') return time === 'SIGNATURE_MISSING' ? 'TIMESTAMP_INVALID' : time
  const stale = staleness(time.value, now, TOLERANCE)
  if (stale !== undefined) return stale
  let same = false
  for (const url of request.urls()) {
    if (sameText(await mac([method + decoded(url), body, time.value]), found.value)) same = true
  }
  return same ? ACCEPTED : 'SIGNATURE_INVALID'
}

function decoded(url: string): string {
  return url.replace(DECODED, (encoded) => String.fromCharCode(Number.parseInt(encoded.slice(1), 16)))
}

async function hashOf(text: string, body: Uint8Array): Promise<string> {
  const hash = createHash('sha256')
  await hashed(hash, [text, body])
  return hash.digest('hex')
}

const MAILGUN_FORM = { algorithm: 'sha256', encoding: 'hex' } as const

interface Signature {
  readonly timestamp: string
  readonly token: string
  readonly signature: string
}

/**
 * Mailgun's signature of a timestamp and a random token, and nothing else of the body. It is in the member `signature` of JSON, or in the
 * fields of a form. So a token counts once.
 */
export const mailgun: Scheme = (secret) => {
  const key = macKey(secret)
  return async (request) => {
    const found = isForm(request) ? await fromForm(request) : await fromJson(request)
    if (found === undefined) return 'SIGNATURE_MISSING'
    const { timestamp, token, signature } = found
    const stale = staleness(timestamp, request.now, TOLERANCE)
    if (stale !== undefined) return stale
    if (!sameText(await macOf(MAILGUN_FORM, key, timestamp + token), signature)) return 'SIGNATURE_INVALID'
    return { accepted: true, once: token }
  }
}

const MEMBERS = ['timestamp', 'token', 'signature']

async function fromJson({ body }: WebhookRequest): Promise<Signature | undefined> {
  const object = await readObject(body, ['signature'])
  const member = object === undefined ? undefined : await objectMember(object, 'signature', MEMBERS)
  return member === undefined ? undefined : signatureOf((name) => textMember(member, name))
}

async function fromForm({ body }: WebhookRequest): Promise<Signature | undefined> {
  const fields = await fieldsOfForm(body)
  return signatureOf((name) => {
    const values = fields?.get(name)
    return values?.length === 1 ? values[0] : undefined
  })
}

function signatureOf(member: (name: string) => string | undefined): Signature | undefined {
  const [timestamp, token, signature] = [member('timestamp'), member('token'), member('signature')]
  if (timestamp === undefined || token === undefined || signature === undefined) return undefined
  return { timestamp, token, signature }
}
