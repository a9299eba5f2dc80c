import { ACCEPTED } from '../finding.js'
import { sameSecret } from '../mac.js'
import { type Scheme, single } from '../scheme.js'

/** The secret itself in a field. Says who sends, and nothing about what. */
export function sharedToken(header: string): Scheme {
  return (secret) =>
    ({ headers }) => {
      const found = single(headers, header)
      if (typeof found === 'string') return found
      return sameSecret(secret, found.value) ? ACCEPTED : 'SIGNATURE_INVALID'
    }
}
