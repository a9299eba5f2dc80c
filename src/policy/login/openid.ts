import * as client from 'openid-client'
import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/outbound/outbound.js'
import { Discoveries } from './discoveries.js'
import { ProviderFailure } from './failure.js'
import { failureOf, isRefusal } from './openid-failure.js'
import type { Application } from './operator-providers.js'
import { outboundFetch } from './outbound-fetch.js'
import type { Json } from './profile.js'
import type { Provider } from './providers.js'
import { normalTokenAnswer } from './token-answer.js'

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
      config[client.customFetch] = this.#fetch as client.CustomFetch
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
    return {
      accessToken: access_token,
      refreshToken: refresh_token,
      expiresAt: expires_in === undefined ? 0 : Math.trunc(this.#clock.wall() + expires_in * 1_000),
      identityToken: id_token,
      claims: answer.claims() as Json | undefined
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

function isPlain(url: string): boolean {
  return url.startsWith('http:')
}

/** Providers with an API of their own take the secret in the body; the others say how, or Basic is meant. */
function authentication(provider: Provider, server: client.ServerMetadata, secret: string): client.ClientAuth {
  if (provider.kind === 'api') return client.ClientSecretPost(secret)
  const usual = provider.secretIn === 'body' ? 'client_secret_post' : 'client_secret_basic'
  const known = server.token_endpoint_auth_methods_supported ?? [usual]
  return known.includes('client_secret_basic') ? client.ClientSecretBasic(secret) : client.ClientSecretPost(secret)
}
