import { CodedError, defineErrors } from '../../lib/errors.js'
import type { Outbound } from '../../lib/http-client/outbound.js'

/** Error codes of the option login.providers. */
export const loginStartErrors = defineErrors({
  LOGIN_PROVIDERS_INVALID: {
    text: 'The file of login.providers has a wrong form.',
    help: 'Correct the place that the message names.'
  }
})

/** Error of a provider, for the log. */
export const providerErrors = defineErrors({
  LOGIN_PROVIDER: { text: 'A provider gave no identity.', help: 'Look at the message of the log.' }
})

/**
 * Reasons for a failed login. `unavailable`: no response or a server error. `garbage`: an unusable response. `refused`: unknown grant or
 * user. `denied`: user or provider declined. `keys-changed`: signed with an unknown key; the next attempt fetches the keys. `unstored`: the
 * session store is unreachable. `too-large`: the session does not fit into cookies, and the store is not allowed or full.
 */
export type ProviderTrouble =
  | 'unavailable'
  | 'garbage'
  | 'refused'
  | 'denied'
  | 'keys-changed'
  | 'unstored'
  | 'too-large'

/** Failure of a provider. The message contains nothing from the provider or client. */
export class ProviderFailure extends CodedError {
  readonly trouble: ProviderTrouble

  constructor(trouble: ProviderTrouble, message: string, options?: ErrorOptions) {
    super(providerErrors.LOGIN_PROVIDER, message, options)
    this.trouble = trouble
  }
}

const MAX_ANSWER = 512 * 1024
/** Timeout of one response (ms). */
const DEADLINE = 5_000
/** Statuses without a body. */
const BODILESS = new Set([101, 204, 205, 304])

/** Options of a fetch call. */
interface FetchOptions {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

/**
 * Returns a fetch that uses the outbound client: no redirects, private addresses only if the operator allows them. `budget`: remaining
 * milliseconds of all requests together. Rejects with a ProviderFailure `unavailable` without a response, or for a status from 500.
 */
export function outboundFetch(
  outbound: Outbound,
  budget: () => number = () => DEADLINE
): (url: string, options: FetchOptions) => Promise<Response> {
  return async (url, { method = 'GET', headers = {}, body }) => {
    const answer = await outbound.request({
      method,
      url,
      headers: Object.entries({ 'user-agent': 'sluice', ...headers }).flat(),
      body: body === undefined || body === null ? undefined : Buffer.from(String(body)),
      deadline: Math.max(1, Math.min(DEADLINE, budget())),
      maxResponseBytes: MAX_ANSWER
    })
    if (!answer.ok) throw new ProviderFailure('unavailable', `the provider gave no answer: ${answer.message}`)
    const { status } = answer
    if (status >= 500 || status === 429) {
      throw new ProviderFailure('unavailable', `the provider answered with status ${status}`)
    }
    const fields = new Headers()
    for (let i = 0; i < answer.headers.length; i += 2) {
      fields.append(answer.headers[i] as string, answer.headers[i + 1] as string)
    }
    const bodiless = BODILESS.has(status) || status < 200
    return new Response(bodiless ? null : Buffer.from(answer.body), {
      status: status < 200 ? 502 : status,
      headers: fields
    })
  }
}
