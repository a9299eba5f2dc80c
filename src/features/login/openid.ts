import * as client from 'openid-client'
import type { Clock } from '../../lib/clock.js'
import { codeOf } from '../../lib/errors.js'
import { parseExactJson } from '../../lib/exact-json.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import { Discoveries } from './discoveries.js'
import { outboundFetch, ProviderFailure, type ProviderTrouble } from './provider-fetch.js'
import { type Application, type Json, type Provider, textOf } from './providers.js'

/** Some providers refuse a token without the field that RFC 6750 3 asks for. */
function isRefusal(error: unknown): boolean {
  const answer = error instanceof Error ? error.cause : undefined
  return answer instanceof Response && (answer.status === 401 || answer.status === 403)
}

/** A wrong signature: some providers give a new key the name of the old one. */
function isForged(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause.message === 'JWT signature verification failed') return true
  return false
}

/** Errors that mean that the grant or the token is worth nothing (RFC 6749 5.2, RFC 6750 3.1). */
const WORTHLESS = new Set(['invalid_grant', 'invalid_token', 'bad_refresh_token'])
/** RFC 6749 4.1.2.1. */
const BUSY = new Set(['server_error', 'temporarily_unavailable'])

/** What an error of the protocol means. Of its causes only codes go on: their texts may hold what was sent. */
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
 * An answer of a token endpoint in the form of RFC 6749 5.1 and 5.2: some providers give scopes as a list, leave the type of
 * the token out, or report errors with status 200.
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

/**
 * An answer of a userinfo endpoint (OpenID Connect Core 5.3.2) whose whole numbers beyond 2^53 are texts of their digits: the library
 * that reads it would round them.
 */
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
    // What is no JSON is refused where the answer is read.
  }
  return new Response(exact, { status, headers: { 'content-type': 'application/json' } })
}

/** The claims of a signed token (RFC 7519 3) that has been verified, with the digits of their numbers. */
export function claimsIn(token: string): Json | undefined {
  const [, payload = ''] = token.split('.')
  return parseExactJson(Buffer.from(payload, 'base64url').toString('utf8')) as Json
}

/** Facebook reports errors as objects. */
function errorOf(error: unknown): string {
  if (typeof error === 'string') return error
  return 'invalid_request'
}

function jsonObject(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined
  } catch {
    // What is no JSON is refused where the answer is read.
    return undefined
  }
}

/** Seconds; the guarded client has a deadline of its own below it. */
const TIMEOUT = 10
/** Applications of one provider that are kept ready. */
const MOST_APPLICATIONS = 64
/** Milliseconds between two questions for the keys of one issuer that signatures cause. */
const KEYS_REST = 5_000

/** What a provider has given for a code or a refresh token. */
export interface Tokens {
  readonly accessToken: string
  /** '' when there is none. */
  readonly refreshToken: string
  /** Wall clock in milliseconds; 0: not said. */
  readonly expiresAt: number
  /** '' when there is none. */
  readonly identityToken: string
  /** Of the session at the provider, as the identity token names it; '' when it does not. */
  readonly sid: string
  /** Of the identity token, which has been verified. */
  readonly claims: Json | undefined
}

/** One login, from the redirect to the provider until its answer. */
export interface AuthorizationRequest {
  readonly redirectUri: string
  readonly state: string
  readonly nonce: string
  /** Of the proof key (RFC 7636). */
  readonly verifier: string
}

/**
 * The protocol with providers: authorization code with proof key, state and nonce (RFC 6749, RFC 7636, OpenID Connect Core
 * 3.1), refresh, userinfo. Methods reject with a ProviderFailure.
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

  /** Where the browser goes to log in. */
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
      // Its document names no endpoint, or one without TLS.
      throw failureOf(error)
    }
  }

  /** Trades the code of a callback for tokens. `callback`: the redirect URI with the query that came. */
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

  /** Rejects with `refused` when the refresh token is worth nothing any more. */
  async refresh(provider: Provider, application: Application, refreshToken: string): Promise<Tokens> {
    const config = await this.#configuration(provider, application)
    try {
      return this.#tokens(await client.refreshTokenGrant(config, refreshToken))
    } catch (error) {
      throw this.#failure(error, provider)
    }
  }

  /** Claims about the user `subject`; undefined when the provider has no such endpoint. */
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

  /** Where a browser ends the session at the provider and comes back from (RP-Initiated Logout 1.0); undefined: the provider has no such place. */
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

  /** The discovery document of an issuer. */
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

  /** Keys belong to a configuration: a new one asks for them again. */
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

/** Is it without TLS? */
export function isPlain(url: string): boolean {
  return url.startsWith('http:')
}

/** Providers with an API of their own take the secret in the body; the others say how, or Basic is meant. */
function authentication(provider: Provider, server: client.ServerMetadata, secret: string): client.ClientAuth {
  if (provider.kind === 'api') return client.ClientSecretPost(secret)
  const usual = provider.secretIn === 'body' ? 'client_secret_post' : 'client_secret_basic'
  const known = server.token_endpoint_auth_methods_supported ?? [usual]
  return known.includes('client_secret_basic') ? client.ClientSecretBasic(secret) : client.ClientSecretPost(secret)
}
