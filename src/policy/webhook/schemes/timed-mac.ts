import { codingsOf, decoded } from '../../content-coding.js'
import { ACCEPTED, type Finding } from '../finding.js'
import { isAmong, type MacEncoding, macKey, macOf } from '../mac.js'
import { type Scheme, single, type WebhookRequest } from '../scheme.js'
import { staleness, TOLERANCE } from '../timestamp.js'
import { partsOf } from './body-mac.js'

/** Bytes of content that a few bytes of its coding may stand for. */
const MOST_CONTENT = 4 * 1024 * 1024

interface TimedMacOptions {
  /** The field with the signature; where there are several, one for each active key, any of them counts. */
  readonly headers: readonly [string, ...string[]]
  readonly timestamp: string
  readonly encoding?: MacEncoding
  /** Stands before the signature: `v0=`. */
  readonly prefix?: string
  /** Stands between signatures where there may be several. */
  readonly separator?: string
  /** What is signed before the body. */
  readonly before?: (timestamp: string) => string
  /** What is signed behind the body. */
  readonly after?: (timestamp: string) => string
  /** Milliseconds. */
  readonly tolerance?: number
  /** true: the signature is over the content, whatever content coding it travels in. */
  readonly content?: boolean
}

/** HMAC-SHA256 of the body and of a timestamp that has a field of its own. */
export function timedMac(options: TimedMacOptions): Scheme {
  const { headers: names, timestamp, encoding = 'hex', prefix = '', separator, tolerance = TOLERANCE } = options
  const { before = () => '', after = () => '', content = false } = options
  const form = { algorithm: 'sha256', encoding } as const
  return (secret) => {
    const key = macKey(secret)
    return ({ headers, body, now }) => {
      const given = signatures(headers, names)
      if (typeof given === 'string') return given
      const time = single(headers, timestamp)
      if (typeof time === 'string') return time === 'SIGNATURE_MISSING' ? 'TIMESTAMP_INVALID' : time
      const stale = staleness(time.value, now, tolerance)
      if (stale !== undefined) return stale
      const candidates = separator === undefined ? given : given.flatMap((list) => partsOf(list, separator))
      const look = (bytes: Uint8Array): Finding => {
        const expected = prefix + macOf(form, key, before(time.value), bytes, after(time.value))
        return isAmong(expected, candidates) ? ACCEPTED : 'SIGNATURE_INVALID'
      }
      const codings = content ? codingsOf(headers) : []
      if (codings.length === 0) return look(body)
      return decoded(body, codings, MOST_CONTENT).then((bytes) =>
        typeof bytes === 'string' ? 'BODY_INVALID' : look(bytes)
      )
    }
  }
}

function signatures(
  headers: WebhookRequest['headers'],
  names: readonly string[]
): readonly string[] | 'SIGNATURE_MISSING' | 'SIGNATURE_REPEATED' {
  const given: string[] = []
  for (const name of names) {
    const found = single(headers, name)
    if (found === 'SIGNATURE_REPEATED') return found
    if (found !== 'SIGNATURE_MISSING') given.push(found.value)
  }
  return given.length === 0 ? 'SIGNATURE_MISSING' : given
}
