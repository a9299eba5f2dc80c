import { ACCEPTED } from '../finding.js'
import { isAmong, keyFromBase64, type MacForm, macKey, macOf, sameText } from '../mac.js'
import { type Scheme, single, type WebhookRequest } from '../scheme.js'

interface BodyMacOptions extends Partial<MacForm> {
  /** The field with the signature. */
  readonly header: string
  /** Stands before the signature: `sha256=`. */
  readonly prefix?: string
  /** Stands between signatures where there may be several, each with its prefix. */
  readonly separator?: string
  /** How the secret is written; as it is when left out. */
  readonly key?: 'base64'
  /** Only JSON objects are signed: the sender's challenge makes codes of other texts with the same key. */
  readonly objects?: boolean
}

/** HMAC of the body, in one field. SHA-256 in hexadecimal digits unless the options say otherwise. */
export function bodyMac(options: BodyMacOptions): Scheme {
  const { header, prefix = '', separator, key: written, objects = false } = options
  const form: MacForm = { algorithm: options.algorithm ?? 'sha256', encoding: options.encoding ?? 'hex' }
  return (secret) => {
    const bytes = written === 'base64' ? keyFromBase64(secret) : secret
    if (bytes === undefined) return 'must be base64'
    const key = macKey(bytes)
    return ({ headers, body }) => {
      const found = single(headers, header)
      if (typeof found === 'string') return found
      if (objects && body[0] !== OPENING_BRACE) return 'BODY_INVALID'
      const expected = prefix + macOf(form, key, body)
      const same =
        separator === undefined ? sameText(expected, found.value) : isAmong(expected, partsOf(found.value, separator))
      return same ? ACCEPTED : 'SIGNATURE_INVALID'
    }
  }
}

const OPENING_BRACE = 0x7b

/** Base64 HMAC-SHA256 of the body in several fields `<name>-1`, `<name>-2` and so on, one for each active key. */
export function numberedBodyMac(name: string): Scheme {
  const form: MacForm = { algorithm: 'sha256', encoding: 'base64' }
  return (secret) => {
    const key = macKey(secret)
    return ({ headers, body }) => {
      const given = numbered(headers, `${name}-`)
      if (given.length === 0) return 'SIGNATURE_MISSING'
      return isAmong(macOf(form, key, body), given) ? ACCEPTED : 'SIGNATURE_INVALID'
    }
  }
}

function numbered(headers: WebhookRequest['headers'], start: string): readonly string[] {
  const values: string[] = []
  for (const [name, of] of headers.byName) if (name.startsWith(start)) values.push(...of)
  return values
}

/** The parts of a list, blanks around them left aside. */
export function partsOf(list: string, separator: string): readonly string[] {
  return list.split(separator).map((part) => part.trim())
}
