import * as client from 'openid-client'
import type { Clock } from '../../lib/clock.js'
import { codeOf } from '../../lib/errors.js'
import { parseExactJson } from '../../lib/exact-json.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import { Discoveries } from './discoveries.js'
import { outboundFetch, ProviderFailure, type ProviderTrouble } from './provider-fetch.js'
import { type Application, type Json, type Provider, textOf } from './providers.js'

/** Returns true if the provider refused the token. Some omit the field that RFC 6750 3 requires. */
function isRefusal(error: unknown): boolean {
  const answer = error instanceof Error ? error.cause : undefined
  return answer instanceof Response && (answer.status === 401 || answer.status === 403)
}

/** Returns true for an invalid signature: some providers reuse the name of an old key for a new one. */
function isForged(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause.message === 'JWT signature verification failed') return true
  return false
}

/** Errors for an invalid grant or token (RFC 6749 5.2, RFC 6750 3.1). */
const WORTHLESS = new Set(['invalid_grant', 'invalid_token', 'bad_refresh_token'])
/** Temporary errors (RFC 6749 4.1.2.1). */
const BUSY = new Set(['server_error', 'temporarily_unavailable'])

/** Converts a protocol error. Only codes of its causes are kept: their texts may contain what was sent. */
function failureOf(error: unknown): ProviderFailure {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause instanceof ProviderFailure) return cause
  const [trouble, message] = described(error)
  return new ProviderFailure(trouble, message, { cause: codeOf(error) })
}

function described(error: unknown): readonly [ProviderTrouble, string] {
  if (error instanceof client.AuthorizationResponseError) {
    return BUSY.has(error.error) ? ['unavailable', 'the provider is busy'] : ['denied', 'the provider denied the login']
  }
  if (error instanceof client.ResponseBodyError) {
    return WORTHLESS.has(error.error)
      ? ['refused', 'the provider does not accept the grant']
      : ['garbage', 'the provider refused the application or its request']
  }
  if (error instanceof client.WWWAuthenticateChallengeError) {
    return error.status === 401 || error.status === 403
      ? ['refused', 'the provider does not accept the access token']
      : ['garbage', `the provider answered with status ${error.status}`]
  }
  const code = codeOf(error)
  if (code === 'OAUTH_KEY_SELECTION_FAILED' || isForged(error))
    return ['keys-changed', 'the provider signs with a key that it did not publish']
  if (code === 'OAUTH_TIMEOUT' || code === 'OAUTH_ABORT') return ['unavailable', 'the provider gave no answer in time']
  return ['garbage', 'the answer of the provider cannot be used']
}

/**
 * Normalizes a token response to RFC 6749 5.1 and 5.2: some providers return scopes as a list, omit the token type, or report errors with
 * status 200.
 */
export async function normalTokenAnswer(answer: Response): Promise<Response> {
  const text = await answer.text()
  const body = jsonObject(text)
  if (body === undefined) return new Response(text, { status: answer.status, headers: answer.headers })
  const { scope, token_type, error, ...rest } = body
  const failed = error !== undefined && body.access_token === undefined
  const normal = {
    ...rest,
    ...(error === undefined ? { token_type: token_type ?? 'bearer' } : { error: errorOf(error) }),
    ...(scope === undefined ? {} : { scope: Array.isArray(scope) ? scope.join(' ') : textOf(scope) })
  }
  return new Response(JSON.stringify(normal), {
    status: failed && answer.status === 200 ? 400 : answer.status,
    headers: { 'content-type': 'application/json' }
  })
}

/** Converts integers beyond 2^53 in a userinfo response (OpenID Connect Core 5.3.2) to texts, because the library would round them. */
async function exactUserinfo(answer: Response): Promise<Response> {
  const { status, headers } = answer
  if (status !== 200 || !/^application\/json\b/i.test(headers.get('content-type') ?? '')) return answer
  const text = await answer.text()
  let exact = text
  try {
    exact = JSON.stringify(parseExactJson(text), (_key, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value
    )
  } catch {
    // Invalid JSON is rejected when the response is read.
  }
  return new Response(exact, { status, headers: { 'content-type': 'application/json' } })
}

/** Returns the claims of a verified token (RFC 7519 3) with all digits of their numbers. */
export function claimsIn(token: string): Json | undefined {
  const [, payload = ''] = token.split('.')
  return parseExactJson(Buffer.from(payload, 'base64url').toString('utf8')) as Json
}

/** Returns the error code; Facebook reports errors as objects. */
function errorOf(error: unknown): string {
  if (typeof error === 'string') return error
  return 'invalid_request'
}

function jsonObject(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined
  } catch {
    // Invalid JSON is rejected when the response is read.
    return undefined
  }
}

/** Seconds; the outbound client has a shorter timeout. */
const TIMEOUT = 10
/** Maximum number of cached applications of one provider. */
const MOST_APPLICATIONS = 64
/** Minimum interval between key requests caused by signatures, per issuer (ms). */
const KEYS_REST = 5_000

/** Result of a code or refresh token. */
export interface Tokens {
  readonly accessToken: string
  /** '' if missing. */
  readonly refreshToken: string
  /** Wall clock in milliseconds; 0: unknown. */
  readonly expiresAt: number
  /** '' if missing. */
  readonly identityToken: string
  /** Session id at the provider from the identity token; '' if missing. */
  readonly sid: string
  /** Claims of the verified identity token. */
  readonly claims: Json | undefined
}

/** One login, from the redirect to the provider's response. */
export interface AuthorizationRequest {
  readonly redirectUri: string
  readonly state: string
  readonly nonce: string
  /** Verifier of the proof key (RFC 7636). */
  readonly verifier: string
}

/**
 * Protocol with providers: authorization code with proof key, state and nonce (RFC 6749, RFC 7636, OpenID Connect Core 3.1), refresh,
 * userinfo. Methods reject with a ProviderFailure.
 */
export class OpenidProtocol {
  readonly #clock: Clock
  readonly #fetch: ReturnType<typeof outboundFetch>
  readonly #discoveries: Discoveries<client.ServerMetadata>
  readonly #ready = new Map<string, { readonly server: client.ServerMetadata; readonly config: client.Configuration }>()
  readonly #keysAskedAt = new Map<string, number>()

  constructor(outbound: Outbound, clock: Clock) {
    this.#clock = clock
    this.#fetch = outboundFetch(outbound)
    this.#discoveries = new Discoveries(clock, (issuer) => this.#discover(issuer))
  }

  /** Returns the URL of the login at the provider. */
  async authorizationUrl(
    provider: Provider,
    application: Application,
    { redirectUri, state, nonce, verifier }: AuthorizationRequest,
    scope: string,
    more: Readonly<Record<string, string>>
  ): Promise<string> {
    const config = await this.#configuration(provider, application)
    const parameters = {
      ...more,
      response_type: 'code',
      redirect_uri: redirectUri,
      scope,
      state,
      ...(provider.kind === 'openid' && provider.nonce ? { nonce } : {}),
      ...(provider.proofKey
        ? { code_challenge: await client.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256' }
        : {})
    }
    try {
      return client.buildAuthorizationUrl(config, parameters).href
    } catch (error) {
      // The discovery document has no endpoint, or one without TLS.
      throw failureOf(error)
    }
  }

  /** Exchanges the code of a callback for tokens. `callback`: the redirect URI with the received query. */
  async redeem(
    provider: Provider,
    application: Application,
    request: AuthorizationRequest,
    callback: URL
  ): Promise<Tokens> {
    const config = await this.#configuration(provider, application)
    const checks = {
      expectedState: request.state,
      ...(provider.proofKey ? { pkceCodeVerifier: request.verifier } : {}),
      ...(provider.kind === 'openid' ? { idTokenExpected: true } : {}),
      ...(provider.kind === 'openid' && provider.nonce ? { expectedNonce: request.nonce } : {})
    }
    try {
      return this.#tokens(await client.authorizationCodeGrant(config, callback, checks))
    } catch (error) {
      throw this.#failure(error, provider)
    }
  }

  /** Refreshes the tokens. Rejects with `refused` if the refresh token is invalid. */
  async refresh(provider: Provider, application: Application, refreshToken: string): Promise<Tokens> {
    const config = await this.#configuration(provider, application)
    try {
      return this.#tokens(await client.refreshTokenGrant(config, refreshToken))
    } catch (error) {
      throw this.#failure(error, provider)
    }
  }

  /** Returns claims about the user `subject`; undefined if the provider has no userinfo endpoint. */
  async userinfo(
    provider: Provider,
    application: Application,
    accessToken: string,
    subject: string
  ): Promise<Json | undefined> {
    const config = await this.#configuration(provider, application)
    if (config.serverMetadata().userinfo_endpoint === undefined) return undefined
    try {
      return await client.fetchUserInfo(config, accessToken, subject)
    } catch (error) {
      if (isRefusal(error)) throw new ProviderFailure('refused', 'the provider does not accept the access token')
      throw this.#failure(error, provider)
    }
  }

  /** Returns the provider's logout URL with a return URL (RP-Initiated Logout 1.0); undefined if there is none. */
  async endSessionUrl(
    provider: Provider,
    application: Application,
    parameters: Readonly<Record<string, string>>
  ): Promise<string | undefined> {
    const config = await this.#configuration(provider, application)
    if (config.serverMetadata().end_session_endpoint === undefined) return undefined
    try {
      return client.buildEndSessionUrl(config, parameters).href
    } catch (error) {
      throw failureOf(error)
    }
  }

  /** Returns the discovery document of an issuer. */
  metadata(issuer: string): Promise<client.ServerMetadata> {
    return this.#discoveries.get(issuer)
  }

  async #discover(issuer: string): Promise<client.ServerMetadata> {
    try {
      const found = await client.discovery(new URL(issuer), 'discovery', undefined, undefined, {
        [client.customFetch]: this.#fetch as client.CustomFetch,
        timeout: TIMEOUT,
        ...(isPlain(issuer) ? { execute: [client.allowInsecureRequests] } : {})
      })
      const { supportsPKCE: _, ...metadata } = found.serverMetadata()
      return metadata
    } catch (error) {
      throw failureOf(error)
    }
  }

  async #configuration(provider: Provider, { id, secret }: Application): Promise<client.Configuration> {
    const server = provider.kind === 'openid' ? await this.#discoveries.get(provider.issuer) : serverOf(provider)
    const key = JSON.stringify([provider.kind, server.issuer, server.token_endpoint, id, secret])
    const ready = this.#ready.get(key)
    if (ready !== undefined && (provider.kind === 'api' || ready.server === server)) return ready.config
    const config = new client.Configuration(server, id, undefined, authentication(provider, server, secret))
    config.timeout = TIMEOUT
    if (provider.kind === 'openid') {
      config[client.customFetch] = async (url, options) => {
        const answer = await this.#fetch(url, options)
        return url === server.userinfo_endpoint ? exactUserinfo(answer) : answer
      }
      client.enableNonRepudiationChecks(config)
    } else {
      const { token } = provider
      config[client.customFetch] = async (url, options) => {
        const answer = await this.#fetch(url, options)
        return url === token ? normalTokenAnswer(answer) : answer
      }
    }
    if (isPlain(server.token_endpoint ?? '') || isPlain(server.issuer)) client.allowInsecureRequests(config)
    if (this.#ready.size >= MOST_APPLICATIONS) this.#ready.clear()
    this.#ready.set(key, { server, config })
    return config
  }

  #tokens(answer: client.TokenEndpointResponse & client.TokenEndpointResponseHelpers): Tokens {
    const { access_token, refresh_token = '', expires_in, id_token = '' } = answer
    const claims = answer.claims() === undefined ? undefined : claimsIn(id_token)
    return {
      accessToken: access_token,
      refreshToken: refresh_token,
      expiresAt: expires_in === undefined ? 0 : Math.trunc(this.#clock.wall() + expires_in * 1_000),
      identityToken: id_token,
      sid: textOf(claims?.sid),
      claims
    }
  }

  #failure(error: unknown, provider: Provider): ProviderFailure {
    const failure = failureOf(error)
    if (failure.trouble === 'keys-changed') this.#forgetKeys(provider.issuer)
    return failure
  }

  /** Keys are cached in a configuration: a new one fetches them again. */
  #forgetKeys(issuer: string): void {
    const now = this.#clock.monotonic()
    if (now < (this.#keysAskedAt.get(issuer) ?? 0) + KEYS_REST) return
    this.#keysAskedAt.set(issuer, now)
    for (const [key, { server }] of this.#ready) if (server.issuer === issuer) this.#ready.delete(key)
  }
}

function serverOf({ issuer, authorization, token }: Extract<Provider, { kind: 'api' }>): client.ServerMetadata {
  return { issuer, authorization_endpoint: authorization, token_endpoint: token }
}

/** Returns true for a URL without TLS. */
export function isPlain(url: string): boolean {
  return url.startsWith('http:')
}

/**
 * Returns the client authentication: providers with an API of their own expect the secret in the body; others declare it, with Basic as the
 * default.
 */
function authentication(provider: Provider, server: client.ServerMetadata, secret: string): client.ClientAuth {
  if (provider.kind === 'api') return client.ClientSecretPost(secret)
  const usual = provider.secretIn === 'body' ? 'client_secret_post' : 'client_secret_basic'
  const known = server.token_endpoint_auth_methods_supported ?? [usual]
  return known.includes('client_secret_basic') ? client.ClientSecretBasic(secret) : client.ClientSecretPost(secret)
}
