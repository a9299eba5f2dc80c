import { ACCEPTED } from '../finding.js'
import { fieldsOf, isForm, sortedNames, textOf } from '../form.js'
import { isAmong, macKey, macOf } from '../mac.js'
import { type Scheme, single } from '../scheme.js'
import { partsOf } from './body-mac.js'

const FORM = { algorithm: 'sha256', encoding: 'base64' } as const
const SIGNATURE = 'x-plivo-signature-v3'
const NONCE = 'x-plivo-signature-v3-nonce'

/**
 * Plivo's signature, version 3: base64 HMAC-SHA256 of the URL with its query decoded and sorted, of the fields of a form,
 * and of a nonce, joined by dots. The field may list several signatures, parted by commas.
 */
export const plivo: Scheme = (secret) => {
  const key = macKey(secret)
  return (request) => {
    const found = single(request.headers, SIGNATURE)
    if (typeof found === 'string') return found
    const nonce = single(request.headers, NONCE)
    if (typeof nonce === 'string') return nonce
    const form = isForm(request)
    if (!form && request.body.length > 0) return 'BODY_INVALID'
    const fields = form ? textOf(request.body) : ''
    const given = partsOf(found.value, ',')
    let same = false
    for (const url of request.urls()) {
      for (const text of signedTexts(url, request.method, fields)) {
        if (isAmong(macOf(FORM, key, `${text}.${nonce.value}`), given)) same = true
      }
    }
    return same ? ACCEPTED : 'SIGNATURE_INVALID'
  }
}

/** Behind a URL without a query Plivo's own libraries put a question mark or a dot before the fields: either counts. */
function signedTexts(url: string, method: string, form: string): readonly string[] {
  const mark = url.indexOf('?')
  const base = mark === -1 ? url : url.slice(0, mark)
  const query = joined(mark === -1 ? '' : url.slice(mark + 1), '=', '&')
  const whole = query === '' ? base : `${base}?${query}`
  // Of a GET there are no fields but those of the query.
  if (form === '' || method === 'GET') return [whole]
  const fields = joined(form, '', '')
  return query === '' ? [`${base}?${fields}`, `${base}.${fields}`] : [`${whole}.${fields}`]
}

/** Fields in the order of their names, and of their values under one name. */
function joined(encoded: string, between: string, behind: string): string {
  const fields = fieldsOf(encoded)
  return sortedNames(fields)
    .flatMap((name) => [...(fields.get(name) ?? [])].sort().map((value) => name + between + value))
    .join(behind)
}
