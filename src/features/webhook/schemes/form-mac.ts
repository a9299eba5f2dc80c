import { createHash } from 'node:crypto'
import {
  ACCEPTED,
  type Failure,
  type Fields,
  fieldsOfForm,
  fieldsOfQuery,
  hashed,
  isAmong,
  isForm,
  macKey,
  macOf,
  type Scheme,
  sameText,
  single,
  sortedNames,
  type WebhookRequest
} from '../scheme.js'
import { partsOf } from './body-mac.js'

const FORM = { algorithm: 'sha256', encoding: 'base64' } as const
const SIGNATURE = 'x-plivo-signature-v3'
const NONCE = 'x-plivo-signature-v3-nonce'

/**
 * Plivo's signature, version 3: base64 HMAC-SHA256 of the URL with its query decoded and sorted, of form fields, and of a nonce, joined by
 * dots. The field may contain several signatures separated by commas.
 */
export const plivo: Scheme = (secret) => {
  const key = macKey(secret)
  return async (request) => {
    const found = single(request.headers, SIGNATURE)
    if (typeof found === 'string') return found
    const nonce = single(request.headers, NONCE)
    if (typeof nonce === 'string') return nonce
    const form = isForm(request)
    if (!form && request.body.length > 0) return 'BODY_INVALID'
    const fields = form ? await fieldsOfForm(request.body) : undefined
    if (form && fields === undefined) return 'BODY_INVALID'
    const ofForm = fields === undefined || fields.size === 0 ? undefined : joined(fields, '', '')
    const given = partsOf(found.value, ',')
    let same = false
    for (const url of request.urls()) {
      for (const text of signedTexts(url, request.method, ofForm)) {
        if (isAmong(await macOf(FORM, key, ...text, `.${nonce.value}`), given)) same = true
      }
    }
    return same ? ACCEPTED : 'SIGNATURE_INVALID'
  }
}

/** Returns the possible signed texts: after a URL without a query, Plivo's own libraries use a question mark or a dot before the fields. */
function signedTexts(url: string, method: string, form: string | undefined): readonly (readonly string[])[] {
  const mark = url.indexOf('?')
  const base = mark === -1 ? url : url.slice(0, mark)
  const query = joined(fieldsOfQuery(mark === -1 ? '' : url.slice(mark + 1)), '=', '&')
  const whole = query === '' ? base : `${base}?${query}`
  // A GET has only the fields of its query.
  if (form === undefined || method === 'GET') return [[whole]]
  return query === ''
    ? [
        [`${base}?`, form],
        [`${base}.`, form]
      ]
    : [[`${whole}.`, form]]
}

/** Joins the fields sorted by name, then by value. */
function joined(fields: Fields, between: string, behind: string): string {
  return sortedNames(fields)
    .flatMap((name) => [...(fields.get(name) ?? [])].sort().map((value) => name + between + value))
    .join(behind)
}

interface UrlFieldsMacOptions {
  readonly header: string
  /** Query parameter with the hex SHA-256 of the body, which signs the body; forms are not read then. */
  readonly bodyHash?: string
}

const URL_FIELDS_FORM = { algorithm: 'sha1', encoding: 'base64' } as const

/** Base64 HMAC-SHA1 of the URL and, for a form, of all names and values sorted by name. */
export function urlFieldsMac({ header, bodyHash }: UrlFieldsMacOptions): Scheme {
  return (secret) => {
    const key = macKey(secret)
    return async (request) => {
      const found = single(request.headers, header)
      if (typeof found === 'string') return found
      const signed = await signedBody(request, bodyHash)
      if (typeof signed === 'string') return signed
      let same = false
      for (const url of request.urls())
        if (sameText(await macOf(URL_FIELDS_FORM, key, url, signed.text), found.value)) same = true
      return same ? ACCEPTED : 'SIGNATURE_INVALID'
    }
  }
}

/** Returns the signed part of the body. A body without a signature is refused. */
async function signedBody(
  request: WebhookRequest,
  bodyHash: string | undefined
): Promise<{ readonly text: string } | Failure> {
  const { body, target } = request
  const mark = target.indexOf('?')
  const hashes = bodyHash === undefined || mark === -1 ? undefined : fieldsOfQuery(target.slice(mark + 1)).get(bodyHash)
  if (hashes !== undefined) {
    const [hash] = hashes
    const hasher = createHash('sha256')
    await hashed(hasher, [body])
    const expected = hasher.digest('hex')
    return hashes.length === 1 && sameText(expected, hash as string) ? { text: '' } : 'SIGNATURE_INVALID'
  }
  if (isForm(request)) {
    const fields = await fieldsOfForm(body)
    return fields === undefined ? 'BODY_INVALID' : { text: concatenated(fields) }
  }
  return body.length === 0 ? { text: '' } : 'BODY_INVALID'
}

/** Concatenates the fields; a repeated value of a name counts once, as in the senders' libraries. */
function concatenated(fields: Fields): string {
  let text = ''
  for (const name of sortedNames(fields)) {
    for (const value of [...new Set(fields.get(name))].sort()) text += name + value
  }
  return text
}
