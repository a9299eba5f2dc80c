import type { Clock } from '../clock.js'
import { defineErrors } from '../errors.js'
import type { OutboundError, OutboundRequest, OutboundResponse } from './answer.js'

/** Error of a rejected redirect. */
export const redirectErrors = defineErrors({
  REDIRECT_REFUSED: {
    text: 'A redirect is not followed: too many of them, no usable place, or from https to http.',
    help: 'Name the final URL, or raise max_redirects of the action.'
  }
})

/** A rejected redirect: too many, no usable location, or from https to http. */
interface RedirectRefused {
  readonly ok: false
  readonly code: keyof typeof redirectErrors
  readonly message: string
  readonly timeMs: number
}

/** The result, with its request. */
export interface Followed<E> {
  readonly outcome: OutboundResponse | E | RedirectRefused
  readonly method: string
  readonly url: string
}

const REDIRECTS = new Set([301, 302, 303, 307, 308])
/** Headers for the original origin only. */
const OF_ORIGIN = new Set(['authorization', 'cookie', 'host', 'proxy-authorization'])
/** Headers that describe a request's body. */
const OF_CONTENT = new Set(['content-type', 'content-encoding', 'content-language', 'content-location'])

/**
 * Sends a request and follows up to `most` redirects within its deadline, each with the same guard. With 0, returns the redirect. As in
 * browsers, 303 (and 301 and 302 after POST) become GET without a body; credentials are not sent to another origin.
 */
export async function follow<E extends { readonly ok: false } = OutboundError>(
  client: { request(request: OutboundRequest): Promise<OutboundResponse | E> },
  first: OutboundRequest,
  most: number,
  clock: Clock
): Promise<Followed<E>> {
  const begun = clock.monotonic()
  let request = first
  for (let followed = 0; ; followed++) {
    const outcome = await client.request(request)
    const { method, url } = request
    const place = outcome.ok && REDIRECTS.has(outcome.status) ? locationOf(outcome) : undefined
    if (!outcome.ok || place === undefined || most === 0) return { outcome, method, url }
    const timeMs = clock.monotonic() - begun
    const refused = (message: string): Followed<E> => {
      return { outcome: { ok: false, code: redirectErrors.REDIRECT_REFUSED.code, message, timeMs }, method, url }
    }
    if (followed === most) return refused('there are more redirects than allowed')
    if (!URL.canParse(place, url)) return refused('a redirect leads to no URL')
    const next = new URL(place, url)
    const before = new URL(url)
    if (before.protocol === 'https:' && next.protocol !== 'https:')
      return refused('a redirect leads from https to http')
    request = redirected(request, before, next, outcome.status, first.deadline - timeMs)
  }
}

function redirected(
  request: OutboundRequest,
  before: URL,
  next: URL,
  status: number,
  deadline: number
): OutboundRequest {
  const { method, body, headers = [] } = request
  const asGet = status === 303 ? method !== 'HEAD' : (status === 301 || status === 302) && method === 'POST'
  const kept: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase()
    if (OF_ORIGIN.has(name) && next.origin !== before.origin) continue
    if (asGet && OF_CONTENT.has(name)) continue
    kept.push(headers[i] as string, headers[i + 1] as string)
  }
  next.hash = ''
  return {
    ...request,
    method: asGet ? 'GET' : method,
    body: asGet ? undefined : body,
    url: next.href,
    headers: kept,
    deadline
  }
}

function locationOf({ headers }: OutboundResponse): string | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() === 'location') return headers[i + 1]
  }
  return undefined
}
