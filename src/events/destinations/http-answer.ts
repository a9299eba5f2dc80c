import type { OutboundError, OutboundResponse } from '../../lib/outbound/answer.js'
import type { SendFailure } from './sender.js'

/** A receiver that asks for more is asked again after this, in milliseconds. */
const LONGEST_WAIT = 3_600_000

/** What the answer of a receiver means: any status of 2xx has taken it, everything else has not. */
export function failureOf(answer: OutboundResponse | OutboundError): SendFailure | undefined {
  if (!answer.ok) return { message: `${answer.code}: ${answer.message}` }
  const { status } = answer
  if (status >= 200 && status < 300) return undefined
  const redirect = status >= 300 && status < 400 ? '; redirects are not followed' : ''
  return { message: `the receiver answered ${status}${redirect}`, retryAfter: retryAfterOf(answer) }
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
