import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/outbound/outbound.js'
import { ProviderFailure } from './failure.js'
import { outboundFetch } from './outbound-fetch.js'
import type { Json, ProviderApi } from './profile.js'
import type { ApiProvider } from './providers.js'

const PAGE = 100
/** Milliseconds for all questions together. */
const LONGEST = 10_000
/** Nobody is in more teams than that; a server that says otherwise is not believed. */
const MOST_PAGES = 20
/** Facebook answers 400 to a token that is worth nothing. */
const REFUSED = new Set([400, 401])

/** The API of a provider with one user's access token, for the questions of one login or check. */
export function providerApi(
  { outbound, clock }: { readonly outbound: Outbound; readonly clock: Clock },
  { api, clientField }: ApiProvider,
  clientId: string,
  accessToken: string
): ProviderApi {
  const begun = clock.monotonic()
  const fetch = outboundFetch(outbound, () => LONGEST - (clock.monotonic() - begun))
  const headers = {
    accept: 'application/json',
    authorization: `Bearer ${accessToken}`,
    ...(clientField === undefined ? {} : { [clientField]: clientId })
  }
  const get = async (path: string): Promise<unknown> => {
    const answer = await fetch(`${api}${path}`, { headers })
    if (answer.status !== 200) throw refusal(answer)
    try {
      return await answer.json()
    } catch {
      throw new ProviderFailure('garbage', 'the API of the provider answers no JSON')
    }
  }
  return {
    async object(path) {
      return objectOf(await get(path))
    },
    async list(path) {
      const all: Json[] = []
      for (let page = 1; page <= MOST_PAGES; page++) {
        const entries = listOf(await get(`${path}?per_page=${PAGE}&page=${page}`))
        all.push(...entries)
        if (entries.length < PAGE) break
      }
      return all
    }
  }
}

function refusal({ status, headers }: Response): ProviderFailure {
  // GitHub and others say 403 to whoever asks too often.
  const busy = headers.get('x-ratelimit-remaining') === '0' || headers.has('retry-after')
  if (status === 403 && busy) return new ProviderFailure('unavailable', 'the provider limits our requests')
  if (status === 403 || REFUSED.has(status)) {
    return new ProviderFailure('refused', 'the provider does not accept the access token')
  }
  return new ProviderFailure('garbage', `the API of the provider answered with status ${status}`)
}

function listOf(value: unknown): Json[] {
  if (!Array.isArray(value)) throw new ProviderFailure('garbage', 'the API of the provider answers no list')
  return value.map(objectOf)
}

function objectOf(value: unknown): Json {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Json
  throw new ProviderFailure('garbage', 'the API of the provider answers something else than asked')
}
