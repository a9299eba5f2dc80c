import { ACCEPTED } from '../finding.js'
import { isAmong, macKey, macOf } from '../mac.js'
import { type Scheme, single } from '../scheme.js'
import { staleness, TOLERANCE } from '../timestamp.js'
import { partsOf } from './body-mac.js'

interface PairedMacOptions {
  readonly header: string
  /** Name of the pair with the timestamp. */
  readonly timestamp?: string
  /** Name of the pairs with signatures. */
  readonly signature?: string
}

const FORM = { algorithm: 'sha256', encoding: 'hex' } as const

/** `t=<timestamp>,v1=<signature>` in one field: hex HMAC-SHA256 of `<timestamp>.<body>`. Other pairs do not count. */
export function pairedMac({ header, timestamp = 't', signature = 'v1' }: PairedMacOptions): Scheme {
  return (secret) => {
    const key = macKey(secret)
    return ({ headers, body, now }) => {
      const found = single(headers, header)
      if (typeof found === 'string') return found
      const times = pairs(found.value, timestamp)
      const given = pairs(found.value, signature)
      if (given.length === 0) return 'SIGNATURE_MISSING'
      const [time] = times
      if (time === undefined || times.length > 1) return 'TIMESTAMP_INVALID'
      const stale = staleness(time, now, TOLERANCE)
      if (stale !== undefined) return stale
      return isAmong(macOf(FORM, key, `${time}.`, body), given) ? ACCEPTED : 'SIGNATURE_INVALID'
    }
  }
}

/** The values of all pairs of this name in `name=value,name=value`. */
export function pairs(list: string, name: string): readonly string[] {
  const start = `${name}=`
  return partsOf(list, ',').flatMap((pair) => (pair.startsWith(start) ? [pair.slice(start.length)] : []))
}
