import { CodedError, defineErrors } from '../../lib/errors.js'
import type { Outbound } from '../../lib/http-client/outbound.js'

/** Codes of the option login.providers. */
export const loginStartErrors = defineErrors({
  LOGIN_PROVIDERS_INVALID: {
    text: 'The file of login.providers has a wrong form.',
    help: 'Correct the place that the message names.'
  }
})

/** The error of a provider, for the log. */
export const providerErrors = defineErrors({
  LOGIN_PROVIDER: { text: 'A provider gave no identity.', help: 'Look at the message of the log.' }
})

/**
 * Why a provider gave no identity. `unavailable`: no answer, or one of its own trouble. `garbage`: an answer that cannot be
 * used. `refused`: it does not know the grant or the user any more. `denied`: the user or the provider said no.
 * `keys-changed`: it has signed with a key that was not known; the next attempt asks for its keys anew. `unstored`: the store that keeps
 * sessions is out of reach. `too-large`: cookies do not hold the session, and the store may not or has no room.
 */
export type ProviderTrouble =
  | 'unavailable'
  | 'garbage'
  | 'refused'
  | 'denied'
  | 'keys-changed'
  | 'unstored'
  | 'too-large'

/** The message names what happened and holds nothing that the provider or the client sent. */
export class ProviderFailure extends CodedError {
  readonly trouble: ProviderTrouble

  constructor(trouble: ProviderTrouble, message: string, options?: ErrorOptions) {
    super(providerErrors.LOGIN_PROVIDER, message, options)
    this.trouble = trouble
  }
}

const MAX_ANSWER = 512 * 1024
/** Milliseconds for one answer of a provider. */
const DEADLINE = 5_000
const BODILESS = new Set([101, 204, 205, 304])

/** What a client of the fetch kind hands over. */
interface FetchOptions {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

/**
 * A fetch that goes through the guarded client: no redirect is followed, private addresses only where the operator
 * allows them. `budget`: milliseconds that are left for all requests together. Rejects with a ProviderFailure `unavailable` when there is no answer, or one with a status of 500 or more.
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
