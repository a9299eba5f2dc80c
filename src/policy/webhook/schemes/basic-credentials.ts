import { ACCEPTED } from '../finding.js'
import { sameSecret } from '../mac.js'
import { type Scheme, single } from '../scheme.js'

const BASIC = /^basic +([A-Za-z0-9+/]+={0,2})$/i
const SEPARATOR = '::'

/** User name and password (RFC 7617); the secret is `user::password`. Says who sends, and nothing about what. */
export const basicCredentials: Scheme = (secret) => {
  const split = secret.indexOf(SEPARATOR)
  if (split < 1) return 'must be a user name and a password, parted by "::"'
  const pair = `${secret.slice(0, split)}:${secret.slice(split + SEPARATOR.length)}`
  const expected = Buffer.from(pair, 'utf8').toString('base64')
  return ({ headers }) => {
    const found = single(headers, 'authorization')
    if (typeof found === 'string') return found
    const given = BASIC.exec(found.value)?.[1]
    return given !== undefined && sameSecret(expected, given) ? ACCEPTED : 'SIGNATURE_INVALID'
  }
}
