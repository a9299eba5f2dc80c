import type { OutboundError, OutboundResponse } from '../../lib/http-client/answer.js'
import type { SendFailure } from './sender.js'

/** A receiver that asks for more is asked again after this, in milliseconds. */
const LONGEST_WAIT = 3_600_000

/** Credentials that it does not accept, and a receiver that has no time: every event meets them. */
const OF_THE_RECEIVER: ReadonlySet<number> = new Set([401, 407, 408, 425, 429, 502, 503, 504, 507])
/** What a wrong address gets for every event, and a filter before the receiver gives for one. */
const UNCLEAR: ReadonlySet<number> = new Set([402, 403, 404, 405, 410, 421, 423, 426, 451])
/** Failures by which a receiver may fall over one event. */
const UNCLEAR_FAILURES: ReadonlySet<string> = new Set(['BROKEN', 'RESPONSE_MALFORMED', 'RESPONSE_TOO_LARGE'])

/** What the answer of a receiver means: any status of 2xx has taken it, everything else has not. */
export function failureOf(answer: OutboundResponse | OutboundError): SendFailure | undefined {
  if (!answer.ok) {
    const message = `${answer.code}: ${answer.message}`
    return UNCLEAR_FAILURES.has(answer.code) ? { message, fault: 'unclear' } : { message }
  }
  const { status } = answer
  if (status >= 200 && status < 300) return undefined
  const redirect = status >= 300 && status < 400 ? '; redirects are not followed' : ''
  const fault = faultOf(status)
  return {
    message: `the receiver answered ${status}${redirect}`,
    retryAfter: retryAfterOf(answer),
    ...(fault === undefined ? {} : { fault })
  }
}

function faultOf(status: number): SendFailure['fault'] {
  if (status < 400 || OF_THE_RECEIVER.has(status)) return undefined
  return status >= 500 || UNCLEAR.has(status) ? 'unclear' : 'event'
}

/** RFC 9110 10.2.3, seconds only: a date would need the receiver's clock to be right. */
function retryAfterOf({ headers }: OutboundResponse): number | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() !== 'retry-after') continue
    const seconds = headers[i + 1] ?? ''
    return /^\d{1,6}$/.test(seconds) ? Math.min(Number(seconds) * 1000, LONGEST_WAIT) : undefined
  }
  return undefined
}
