import { createHash } from 'node:crypto'
import type { Flow, FlowRequest } from '../../flow/flow.js'
import type { Jar, Preflight } from '../../flow/reserved-paths.js'
import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import { ERROR_RESULTS, type ResultFields } from '../../policy/action.js'
import { serviceKey } from '../../policy/services.js'
import type { AccessLists } from './access.js'
import { Vault } from './attempt-state.js'
import { BackChannel } from './back-channel.js'
import type { CookieStyle } from './cookies.js'
import { EndedSessions } from './ended-sessions.js'
import { OpenidProtocol } from './openid.js'
import type { OperatorProviders } from './operator-providers.js'
import type { Application, Provider, SamlProvider } from './providers.js'
import { groupsIn } from './saml/claims.js'
import { type SamlReader, ServiceProvider } from './saml/service-provider.js'
import { type Held, SessionCache } from './session.js'
import { SessionKeeper } from './session-keeper.js'
import { Visitors } from './visitors.js'

interface LoginParts {
  /** Keys of 32 bytes, derived from the process's sealing keys: the first one seals, all of them open. */
  readonly keys: readonly Uint8Array[]
  readonly providers: OperatorProviders
  readonly outbound: Outbound
  readonly clock: Clock
  /** Reads documents of SAML. @default in threads of its own */
  readonly readSaml?: SamlReader
}

/** Shared state of all gates of a process: keys, providers, sessions and issuers. */
export class Login {
  readonly providers: OperatorProviders
  readonly outbound: Outbound
  readonly clock: Clock
  readonly sessions = new SessionCache()
  readonly ended: EndedSessions
  readonly keeper: SessionKeeper
  readonly visitors: Visitors
  readonly protocol: OpenidProtocol
  readonly backChannel: BackChannel
  readonly saml: ServiceProvider
  /** Longest session duration of any gate so far (ms). */
  longest = USUAL_MAXIMUM
  readonly #keys: readonly Uint8Array[]

  constructor({ keys, providers, outbound, clock, readSaml }: LoginParts) {
    this.#keys = keys
    this.providers = providers
    this.outbound = outbound
    this.clock = clock
    this.ended = new EndedSessions(clock)
    this.keeper = new SessionKeeper(clock)
    this.visitors = new Visitors(clock, (news) => this.keeper.list(news))
    this.protocol = new OpenidProtocol(outbound, clock)
    this.backChannel = new BackChannel(this.protocol, outbound, clock)
    this.saml = new ServiceProvider(outbound, clock, readSaml)
  }

  vault(realm: string): Vault {
    return new Vault(this.#keys, realm)
  }
}

/** Login service. Undefined in a process without policies: every gate refuses. */
export const logins = serviceKey<Login | undefined>('logins', () => undefined)

/** One request at a gate. */
export interface Visit {
  readonly flow: Flow
  readonly request: FlowRequest
  readonly jar: Jar
  readonly style: CookieStyle
  readonly application: Application
}

/** Settings of a module or action. Durations in milliseconds; 0: no limit, unless stated otherwise. */
export interface GateSettings {
  /** Name of its results and label of its counters. */
  readonly result: LoginResult
  /** Route, edge or default endpoint. */
  readonly owner: string
  /** Distinguishes gates of one owner; '' if not needed. */
  readonly authId: string
  readonly provider: Provider | SamlProvider
  /** Id in the paths of its service provider of SAML. */
  readonly serviceProvider?: string
  /** Application id as configured; '': the operator's. */
  readonly client: string
  /** Returns the application; undefined for none. Throws `EvaluationError` if an expression has no value. */
  readonly application: (flow: Flow) => Application | undefined
  readonly scopes: readonly string[]
  /** Additional parameters of the authorization URL. */
  readonly parameters: Readonly<Record<string, string>>
  readonly cookiePrefix: string
  /** Cookie domain; host-only cookies if undefined. */
  readonly cookieDomain: string | undefined
  readonly inactivity: number
  /** Always set. */
  readonly maximum: number
  /** True for persistent cookies, if a maximum was configured. */
  readonly lasting: boolean
  readonly check: number
  /** A logout also ends the session at the provider (OpenID Connect RP-Initiated Logout 1.0). */
  readonly providerLogout: boolean
  readonly preflight: Preflight
  readonly access: AccessLists
}

/** Default maximum session duration (ms): two weeks. */
export const USUAL_MAXIMUM = 14 * 24 * 3_600_000

/**
 * Returns the realm, whose sessions a gate accepts: that of its owner, or with a cookie domain that of all gates with the domain. Provider,
 * application and id are part of it, so that different gates never share a cookie.
 */
export function realmOf({ result, owner, authId, provider, client, cookieDomain }: GateSettings): string {
  const place = cookieDomain === undefined ? owner : `.${cookieDomain}`
  // Sessions contain the addresses accepted when they were created.
  const vouching = provider.kind === 'openid' && provider.vouches ? ['vouches'] : []
  return JSON.stringify([result, place, authId, provider.issuer, client, ...vouching])
}

/** Returns a mark that distinguishes gates of one realm: 8 hexadecimal digits of all settings except secrets. */
export function markOf({ provider, ...settings }: GateSettings): string {
  const text = JSON.stringify([provider.issuer, settings])
  return createHash('sha256').update(text).digest('hex').slice(0, 8)
}

export type LoginResult = 'oauth' | 'oidc' | 'saml'

/** Returns the results of every login; `more`: additional ones of one action. */
export function userResults(more: ResultFields): ResultFields {
  return {
    'identity.id': ['string', 'Id of the user here: the same at each login with this provider.'],
    'identity.email': ['string', 'E-mail address of the user.'],
    'identity.email_verified': ['bool', 'Does the provider say that the address is the one of the user?'],
    'profile.emails': ['list<string>', 'All addresses that the provider knows.'],
    'identity.name': ['string', 'Name of the user.'],
    'identity.provider_user_id': ['string', 'Id that the provider gives to the user.'],
    session_timed_out: ['bool', 'Has the last session ended because it was not used?'],
    session_max_duration_reached: ['bool', 'Has the last session ended because it had lasted as long as it may?'],
    userinfo_refreshed: ['bool', 'Was the provider asked about the user for this request?'],
    user_info_refreshed: ['bool', 'As userinfo_refreshed.'],
    ...ERROR_RESULTS,
    ...more
  }
}

/** Returns the results of a login with tokens; `more`: additional ones of one action. */
export function loginResults(more: ResultFields): ResultFields {
  return userResults({
    access_token: ['string', 'The access token of the provider.'],
    refresh_token: ['string', 'The refresh token of the provider; empty when it gave none.'],
    expires_at: ['timestamp', 'When the access token ends.'],
    ...more
  })
}

/** Reason for the end of a session. */
export type SessionEnd = 'inactivity' | 'maximum' | 'revoked' | 'none'

/** Returns `actions.service.oauth.*` or `.oidc.*` of an allowed user. */
export function sessionResults(
  result: LoginResult,
  issuer: string,
  { session }: Held,
  refreshed: boolean
): Readonly<Record<string, unknown>> {
  const { id, profile, accessToken, refreshToken, expiresAt, identityToken, attributes } = session
  const user = {
    'identity.id': `${issuer}#${profile.id}`,
    'identity.email': profile.email,
    'identity.email_verified': profile.email !== '',
    'profile.emails': profile.emails,
    'identity.name': profile.name,
    'identity.provider_user_id': profile.id
  }
  const over = { ...flags('none', refreshed), 'error.code': '', 'error.message': '' }
  if (result === 'saml') {
    const groups = groupsIn(attributes)
    return { ...user, 'identity.groups': groups, 'identity.current_session_id': id, attributes, ...over }
  }
  return {
    ...user,
    access_token: accessToken,
    refresh_token: refreshToken,
    ...(expiresAt === 0 ? {} : { expires_at: new Date(expiresAt) }),
    ...(result === 'oauth'
      ? { 'identity.current_provider_session_id': id }
      : { 'identity.current_session_id': id, identity_token: identityToken }),
    ...over
  }
}

/** Returns the results of a refused user. */
export function refusedResults(end: SessionEnd, code: string, message: string): Readonly<Record<string, unknown>> {
  return { ...flags(end, false), 'error.code': code, 'error.message': message }
}

function flags(end: SessionEnd, refreshed: boolean) {
  return {
    session_timed_out: end === 'inactivity',
    session_max_duration_reached: end === 'maximum',
    userinfo_refreshed: refreshed,
    user_info_refreshed: refreshed
  }
}
