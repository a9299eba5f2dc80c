import { ACCEPTED } from '../finding.js'
import { macKey, macOf, sameText } from '../mac.js'
import { type Scheme, single } from '../scheme.js'

const URL_BODY_FORM = { algorithm: 'sha256', encoding: 'base64' } as const

/** Base64 HMAC-SHA256 of the URL followed by the body. */
export function urlBodyMac(header: string): Scheme {
  return (secret) => {
    const key = macKey(secret)
    return (request) => {
      const found = single(request.headers, header)
      if (typeof found === 'string') return found
      let same = false
      for (const url of request.urls())
        if (sameText(macOf(URL_BODY_FORM, key, url, request.body), found.value)) same = true
      return same ? ACCEPTED : 'SIGNATURE_INVALID'
    }
  }
}
