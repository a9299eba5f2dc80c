import { ACCEPTED } from '../finding.js'
import { readObject, textMember } from '../json.js'
import { macKey, macOf, sameText } from '../mac.js'
import { type Scheme, single } from '../scheme.js'
import { staleness } from '../timestamp.js'

interface DatedBodyMacOptions {
  readonly header: string
  /** Member of the JSON body that holds the time of sending. */
  readonly member: string
  /** Milliseconds. */
  readonly tolerance: number
}

const FORM = { algorithm: 'sha256', encoding: 'hex' } as const

/** Hex HMAC-SHA256 of a JSON body that says itself when it was sent. */
export function datedBodyMac({ header, member, tolerance }: DatedBodyMacOptions): Scheme {
  return (secret) => {
    const key = macKey(secret)
    return ({ headers, body, now }) => {
      const found = single(headers, header)
      if (typeof found === 'string') return found
      // Nobody but the sender has the body parsed.
      if (!sameText(macOf(FORM, key, body), found.value)) return 'SIGNATURE_INVALID'
      const object = readObject(body)
      if (object === undefined) return 'BODY_INVALID'
      return staleness(textMember(object, member), now, tolerance) ?? ACCEPTED
    }
  }
}
