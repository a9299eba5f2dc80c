import { isUtf8 } from 'node:buffer'
import { ACCEPTED } from '../finding.js'
import { textOf } from '../form.js'
import { macKey, macOf, sameText } from '../mac.js'
import { type Scheme, single } from '../scheme.js'
import { staleness, TOLERANCE } from '../timestamp.js'
import { pairs } from './paired-mac.js'

const HYGRAPH_FORM = { algorithm: 'sha256', encoding: 'base64' } as const
const DIGITS = /^\d{1,15}$/

/**
 * Hygraph, formerly GraphCMS: `sign=<signature>, env=<environment>, t=<timestamp>`; base64 HMAC-SHA256 of a JSON text that
 * holds the body as a string beside the environment and the timestamp.
 */
export const hygraph: Scheme = (secret) => {
  const key = macKey(secret)
  return ({ headers, body, now }) => {
    const found = single(headers, 'gcms-signature')
    if (typeof found === 'string') return found
    const [signs, environments, times] = ['sign', 'env', 't'].map((name) => pairs(found.value, name))
    const [sign, environment, time] = [signs?.[0], environments?.[0], times?.[0]]
    if (sign === undefined || environment === undefined || time === undefined) return 'SIGNATURE_MISSING'
    if (signs?.length !== 1 || environments?.length !== 1 || times?.length !== 1) return 'SIGNATURE_REPEATED'
    if (!DIGITS.test(time) || String(Number(time)) !== time) return 'TIMESTAMP_INVALID'
    const stale = staleness(time, now, TOLERANCE)
    if (stale !== undefined) return stale
    // Bytes that are no UTF-8 would all be signed as the same replacement.
    if (!isUtf8(body)) return 'BODY_INVALID'
    const text = JSON.stringify({ Body: textOf(body), EnvironmentName: environment, TimeStamp: Number(time) })
    return sameText(macOf(HYGRAPH_FORM, key, text), sign) ? ACCEPTED : 'SIGNATURE_INVALID'
  }
}
