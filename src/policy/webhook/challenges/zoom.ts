import { answer, type Challenge } from '../challenge.js'
import { objectMember, readObject, textMember } from '../json.js'
import { macKey, macOf } from '../mac.js'

const EVENT = 'endpoint.url_validation'
const ZOOM_FORM = { algorithm: 'sha256', encoding: 'hex' } as const

/** Zoom's validation of an endpoint: a signed event with a `plainToken`, whose code comes back beside it. */
export const zoomChallenge: Challenge = ({ body }, secret) => {
  // Other events are not parsed.
  if (!Buffer.from(body.buffer, body.byteOffset, body.byteLength).includes(EVENT)) return undefined
  const event = readObject(body)
  if (event === undefined || event.event !== EVENT) return undefined
  const payload = objectMember(event, 'payload')
  const plainToken = payload === undefined ? undefined : textMember(payload, 'plainToken')
  if (plainToken === undefined) return undefined
  const encryptedToken = macOf(ZOOM_FORM, macKey(secret), plainToken)
  return answer('application/json', JSON.stringify({ plainToken, encryptedToken }))
}
