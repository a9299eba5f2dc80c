import type { Clock } from '../../lib/clock.js'
import { parseExactJson } from '../../lib/exact-json.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import type { Access } from './access.js'
import type { Attempt } from './attempt-state.js'
import type { OpenidProtocol, Tokens } from './openid.js'
import { outboundFetch, ProviderFailure } from './provider-fetch.js'
import {
  type ApiProvider,
  type Application,
  type Json,
  type Memberships,
  type Profile,
  type Provider,
  type ProviderApi,
  profileOfClaims,
  scopesOf
} from './providers.js'
import type { Session } from './session.js'

const PAGE = 100
/** Timeout of all requests together (ms). */
const LONGEST = 10_000
/** Maximum number of pages of teams; more are implausible. */
const MOST_PAGES = 20
/** Statuses of an invalid token; Facebook uses 400. */
const REFUSED = new Set([400, 401])

/** Returns the provider's API with one user's access token, for one login or check. */
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
      return parseExactJson(await answer.text())
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
  // GitHub and others respond with 403 to too many requests.
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

/** Current identity of a user at the provider. */
export interface Identity extends Memberships {
  readonly profile: Profile
  readonly tokens: Omit<Tokens, 'claims'>
  /** Lists for which memberships were looked up; see `MembershipLists`. */
  readonly listed: string
  /** False: only the tokens are new, because the provider did not respond. */
  readonly current: boolean
  /** Attributes of a SAML assertion. @default none */
  readonly attributes?: Session['attributes']
  /** Latest end of the session by the provider (ms). @default not limited */
  readonly ends?: number
}

/** Additional settings of a request for a login. */
interface Asked {
  readonly scopes: readonly string[]
  readonly parameters: Readonly<Record<string, string>>
}

/** Users of one provider. Methods reject with a ProviderFailure. */
export interface IdentitySource {
  /** Returns the provider's URL for a login. */
  begin(application: Application, attempt: Attempt, asked: Asked): Promise<string>
  /** Returns the user of a provider's response; `attempt`: undefined for a login that the provider began. */
  login(application: Application, attempt: Attempt | undefined, answer: string): Promise<Identity>
  /**
   * Returns the current user of a session; undefined: the access token is invalid and must be refreshed. `refused`: the provider does not
   * know the user.
   */
  recheck(application: Application, session: Session): Promise<Identity | undefined>
  /** Refreshes the tokens of a session, whose refresh token may be used up afterwards. */
  refresh(application: Application, session: Session): Promise<Tokens>
  /** Returns the current user with new tokens. */
  renewed(application: Application, session: Session, kept: Tokens): Promise<Identity>
}

interface IdentityParts {
  readonly protocol: OpenidProtocol
  readonly outbound: Outbound
  readonly clock: Clock
}

const NO_MEMBERSHIPS = { teams: [], organizations: [], listed: '' } as const

/** Queries one provider of OAuth or OpenID Connect about users. */
export class Identities implements IdentitySource {
  readonly #parts: IdentityParts
  readonly #provider: Provider
  readonly #access: Access

  constructor(parts: IdentityParts, provider: Provider, access: Access) {
    this.#parts = parts
    this.#provider = provider
    this.#access = access
  }

  begin(application: Application, attempt: Attempt, { scopes, parameters }: Asked): Promise<string> {
    const provider = this.#provider
    return this.#parts.protocol.authorizationUrl(provider, application, attempt, scopesOf(provider, scopes), parameters)
  }

  /** Returns the user of a callback; `answer` is its query. */
  async login(application: Application, attempt: Attempt | undefined, answer: string): Promise<Identity> {
    if (attempt === undefined) throw new ProviderFailure('garbage', 'the login was not begun here')
    const callback = new URL(`${attempt.redirectUri}?${answer}`)
    const tokens = await this.#parts.protocol.redeem(this.#provider, application, attempt, callback)
    return this.#identity(application, tokens, subjectOf(tokens.claims))
  }

  async recheck(application: Application, session: Session): Promise<Identity | undefined> {
    const { refreshToken, expiresAt, accessToken, identityToken, sid } = session
    if (refreshToken !== '' && expiresAt !== 0 && this.#parts.clock.wall() >= expiresAt) return undefined
    try {
      const tokens = { accessToken, refreshToken, expiresAt, identityToken, sid, claims: undefined }
      return await this.#identity(application, tokens, session.profile.id)
    } catch (error) {
      if (error instanceof ProviderFailure && error.trouble === 'refused' && refreshToken !== '') return undefined
      throw error
    }
  }

  async refresh(application: Application, { refreshToken, identityToken, sid }: Session): Promise<Tokens> {
    const fresh = await this.#parts.protocol.refresh(this.#provider, application, refreshToken)
    return {
      ...fresh,
      // RFC 6749 6: without a new one, the refresh token stays valid.
      refreshToken: fresh.refreshToken === '' ? refreshToken : fresh.refreshToken,
      identityToken: fresh.identityToken === '' ? identityToken : fresh.identityToken,
      sid: fresh.sid === '' ? sid : fresh.sid
    }
  }

  async renewed(application: Application, session: Session, kept: Tokens): Promise<Identity> {
    const { profile } = session
    try {
      return await this.#identity(application, kept, profile.id, profile)
    } catch (error) {
      if (!(error instanceof ProviderFailure) || error.trouble === 'refused') throw error
      // The old refresh token may be used up, so the new one must not be lost.
      const { teams, organizations, listed } = session
      const { claims: _, ...tokens } = kept
      return { profile, teams, organizations, listed, tokens, current: false }
    }
  }

  /** `known`: profile to use if the provider only confirms the tokens. */
  async #identity(application: Application, tokens: Tokens, subject: string, known?: Profile): Promise<Identity> {
    const provider = this.#provider
    const { claims, ...kept } = tokens
    const { accessToken } = kept
    if (provider.kind === 'openid') {
      const more = await this.#parts.protocol.userinfo(provider, application, accessToken, subject)
      if (more === undefined && claims === undefined) {
        if (known === undefined) throw new ProviderFailure('refused', 'the provider can be asked by a new login only')
        return { ...NO_MEMBERSHIPS, profile: known, tokens: kept, current: true }
      }
      return {
        ...NO_MEMBERSHIPS,
        profile: identified(profileOfClaims(claims ?? {}, more ?? {}, provider.vouches)),
        tokens: kept,
        current: true
      }
    }
    const api = providerApi(this.#parts, provider, application.id, accessToken)
    const wanted = this.#access.memberships
    const [profile, memberships] = await Promise.all([
      provider.profile(api, provider.vouches),
      wanted === undefined ? undefined : provider.memberships?.(api)
    ])
    if (subject !== '' && profile.id !== subject) throw new ProviderFailure('refused', 'the token is of another user')
    return {
      profile: identified(profile),
      tokens: kept,
      current: true,
      listed: provider.memberships === undefined ? '' : (wanted?.mark ?? ''),
      teams: memberships?.teams.filter((team) => wanted?.teams.has(team)) ?? [],
      organizations: memberships?.organizations.filter((name) => wanted?.organizations.has(name)) ?? []
    }
  }
}

function identified(profile: Profile): Profile {
  if (profile.id === '') throw new ProviderFailure('garbage', 'the provider does not say who the user is')
  return profile
}

function subjectOf(claims: Json | undefined): string {
  return typeof claims?.sub === 'string' ? claims.sub : ''
}
