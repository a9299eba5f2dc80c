import { fieldsOf, isForm, textOf } from '../form.js'
import { objectMember, readObject, textMember } from '../json.js'
import { macKey, macOf, sameText } from '../mac.js'
import type { Scheme, WebhookRequest } from '../scheme.js'
import { staleness, TOLERANCE } from '../timestamp.js'

const MAILGUN_FORM = { algorithm: 'sha256', encoding: 'hex' } as const

interface Signature {
  readonly timestamp: string
  readonly token: string
  readonly signature: string
}

/**
 * Mailgun signs a timestamp and a random token, and nothing else of the body, that carries all three: in its member
 * `signature` when it is JSON, in fields when it is a form. So a token counts once.
 */
export const mailgun: Scheme = (secret) => {
  const key = macKey(secret)
  return (request) => {
    const found = isForm(request) ? fromForm(request) : fromJson(request)
    if (found === undefined) return 'SIGNATURE_MISSING'
    const { timestamp, token, signature } = found
    const stale = staleness(timestamp, request.now, TOLERANCE)
    if (stale !== undefined) return stale
    if (!sameText(macOf(MAILGUN_FORM, key, timestamp + token), signature)) return 'SIGNATURE_INVALID'
    return { accepted: true, once: token }
  }
}

function fromJson({ body }: WebhookRequest): Signature | undefined {
  const object = readObject(body)
  const member = object === undefined ? undefined : objectMember(object, 'signature')
  return member === undefined ? undefined : signatureOf((name) => textMember(member, name))
}

function fromForm({ body }: WebhookRequest): Signature | undefined {
  const fields = fieldsOf(textOf(body))
  return signatureOf((name) => {
    const values = fields.get(name)
    return values?.length === 1 ? values[0] : undefined
  })
}

function signatureOf(member: (name: string) => string | undefined): Signature | undefined {
  const [timestamp, token, signature] = [member('timestamp'), member('token'), member('signature')]
  if (timestamp === undefined || token === undefined || signature === undefined) return undefined
  return { timestamp, token, signature }
}
