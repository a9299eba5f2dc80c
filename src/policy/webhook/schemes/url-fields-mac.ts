import { createHash } from 'node:crypto'
import { ACCEPTED, type Failure } from '../finding.js'
import { fieldsOf, isForm, sortedNames, textOf } from '../form.js'
import { macKey, macOf, sameText } from '../mac.js'
import { type Scheme, single, type WebhookRequest } from '../scheme.js'

interface UrlFieldsMacOptions {
  readonly header: string
  /** Parameter of the query with the hex SHA-256 of the body: the body is signed through it, and forms are not read. */
  readonly bodyHash?: string
}

const URL_FIELDS_FORM = { algorithm: 'sha1', encoding: 'base64' } as const

/** Base64 HMAC-SHA1 of the URL and, of a form, every field's name and value in the order of the names. */
export function urlFieldsMac({ header, bodyHash }: UrlFieldsMacOptions): Scheme {
  return (secret) => {
    const key = macKey(secret)
    return (request) => {
      const found = single(request.headers, header)
      if (typeof found === 'string') return found
      const signed = signedBody(request, bodyHash)
      if (typeof signed === 'string') return signed
      let same = false
      for (const url of request.urls())
        if (sameText(macOf(URL_FIELDS_FORM, key, url + signed.text), found.value)) same = true
      return same ? ACCEPTED : 'SIGNATURE_INVALID'
    }
  }
}

/** What of the body is signed behind the URL. A body that nothing of the signature covers is refused. */
function signedBody(request: WebhookRequest, bodyHash: string | undefined): { readonly text: string } | Failure {
  const { body, target } = request
  const mark = target.indexOf('?')
  const hashes = bodyHash === undefined || mark === -1 ? undefined : fieldsOf(target.slice(mark + 1)).get(bodyHash)
  if (hashes !== undefined) {
    const [hash] = hashes
    const expected = createHash('sha256').update(body).digest('hex')
    return hashes.length === 1 && sameText(expected, hash as string) ? { text: '' } : 'SIGNATURE_INVALID'
  }
  if (isForm(request)) return { text: concatenated(textOf(body)) }
  return body.length === 0 ? { text: '' } : 'BODY_INVALID'
}

/** A value that stands twice under one name counts once, as the senders' libraries have it. */
function concatenated(form: string): string {
  const fields = fieldsOf(form)
  let text = ''
  for (const name of sortedNames(fields)) {
    for (const value of [...new Set(fields.get(name))].sort()) text += name + value
  }
  return text
}
