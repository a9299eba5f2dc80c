import { answer, type Challenge, parameter } from '../challenge.js'
import { macKey, macOf } from '../mac.js'

const FORM = { algorithm: 'sha256', encoding: 'base64' } as const
/**
 * The answer is a code of the token under the key that deliveries are signed with. A token that could be a delivery is not
 * answered, or anybody could have one signed.
 */
const TOKEN = /^[A-Za-z0-9+/=_.-]{1,256}$/

/** Twitter's challenge-response check: `GET ?crc_token=…`. */
export const twitterChallenge: Challenge = (request, secret) => {
  if (request.method !== 'GET') return undefined
  // A plus sign that was sent as it is has become a blank.
  const token = parameter(request, 'crc_token')?.replaceAll(' ', '+')
  if (token === undefined || !TOKEN.test(token)) return undefined
  const code = macOf(FORM, macKey(secret), token)
  return answer('application/json', JSON.stringify({ response_token: `sha256=${code}` }))
}
