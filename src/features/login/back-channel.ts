import { createHash } from 'node:crypto'
import { JOSEError, JWKSNoMatchingKey, JWSSignatureVerificationFailed, JWTClaimValidationFailed } from 'jose/errors'
import { createLocalJWKSet } from 'jose/jwks/local'
import { type JWTVerifyGetKey, jwtVerify } from 'jose/jwt/verify'
import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import { Discoveries } from './discoveries.js'
import { isPlain, type OpenidProtocol } from './openid.js'
import { outboundFetch, ProviderFailure } from './provider-fetch.js'

/** Maximum size of a form with a logout token (bytes). */
export const LONGEST_LOGOUT = 16_384
/** Tolerated clock difference (s). */
const TOLERANCE = 60
/** Maximum age of a token (s). */
const OLDEST = 3_600
/** Tolerated delay of the provider's clock (ms): a session that began just before its logout ends too. */
const BEHIND = 10_000
type Claims = Awaited<ReturnType<typeof jwtVerify>>['payload']
const EVENT = 'http://schemas.openid.net/event/backchannel-logout'
/** Accepted token types; providers from before 2022 use JWT or none. */
const TYPES = new Set([undefined, 'logout+jwt', 'application/logout+jwt', 'jwt'])

/** User and session at the provider; '' for missing values. */
interface ProviderSession {
  readonly issuer: string
  readonly client: string
  readonly sub: string
  readonly sid: string
}

/**
 * Returns the names by which a provider ends a session: hashes, so that the store contains no user. A logout of one session at the provider
 * (`sid`) also ends the user's sessions without a `sid`.
 */
export function endNames({ sid, ...session }: ProviderSession): readonly [string, string] {
  return [nameOf('sub', session), sid === '' ? nameOf('no sid', session) : nameOf('sid', { ...session, sub: sid })]
}

function nameOf(kind: 'sub' | 'sid' | 'no sid', { issuer, client, sub }: Omit<ProviderSession, 'sid'>): string {
  return createHash('sha256')
    .update(JSON.stringify([kind, issuer, client, sub]))
    .digest('base64url')
}

/** Sessions to end: names of `endNames`, and the time before which they began (wall clock, milliseconds). */
interface ProviderLogout {
  readonly names: readonly string[]
  readonly begun: number
}

/** Verifies logout tokens (OpenID Connect Back-Channel Logout 1.0). All callers together cause at most one key fetch in five seconds. */
export class BackChannel {
  readonly #clock: Clock
  readonly #protocol: OpenidProtocol
  readonly #keys: Discoveries<JWTVerifyGetKey>

  constructor(protocol: OpenidProtocol, outbound: Outbound, clock: Clock) {
    this.#clock = clock
    this.#protocol = protocol
    const fetch = outboundFetch(outbound)
    this.#keys = new Discoveries(clock, async (url) => {
      const answer = await fetch(url, { headers: { accept: 'application/json' } })
      try {
        return createLocalJWKSet((await answer.json()) as Parameters<typeof createLocalJWKSet>[0])
      } catch {
        throw new ProviderFailure('garbage', 'the keys of the provider cannot be read')
      }
    })
  }

  /**
   * Reads a logout token by 2.6 of the specification; returns a text, without any part of the token, if it is refused. A repeated token has
   * no further effect, so `jti` is not stored. Rejects with a ProviderFailure if the keys are unavailable.
   */
  async read(token: string, issuer: string, client: string): Promise<ProviderLogout | string> {
    const server = await this.#protocol.metadata(issuer)
    const { jwks_uri: url = '', id_token_signing_alg_values_supported: algorithms = ['RS256'] } = server
    if (url === '' || (isPlain(url) && !isPlain(issuer)))
      throw new ProviderFailure('garbage', 'the provider names no place of its keys')
    const check = async (keys: JWTVerifyGetKey) =>
      await jwtVerify(token, keys, {
        issuer: server.issuer,
        audience: client,
        // For HMAC the key would be the secret of an application, which others may know.
        algorithms: algorithms.filter((name) => name !== 'none' && !name.startsWith('HS')),
        requiredClaims: ['exp', 'iat'],
        maxTokenAge: OLDEST,
        clockTolerance: TOLERANCE,
        currentDate: new Date(this.#clock.wall())
      })
    try {
      const { payload, protectedHeader } = await check(await this.#keys.get(url)).catch(async (error: unknown) => {
        // The key may be new, also under an old name.
        if (!(error instanceof JWKSNoMatchingKey || error instanceof JWSSignatureVerificationFailed)) throw error
        return await check(await this.#keys.renewed(url))
      })
      if (!TYPES.has(protectedHeader.typ?.toLowerCase())) return 'the type of the token is not logout+jwt'
      return this.#logoutOf(payload, issuer, client)
    } catch (error) {
      if (error instanceof JWTClaimValidationFailed) return `the token has a missing or wrong ${error.claim}`
      if (error instanceof JOSEError) return `the token is not accepted (${error.code})`
      throw error
    }
  }

  #logoutOf({ events, nonce, sub = '', sid = '', iat = 0 }: Claims, issuer: string, client: string) {
    const event = typeof events === 'object' ? (events as Readonly<Record<string, unknown>> | null)?.[EVENT] : undefined
    if (typeof event !== 'object' || event === null) return 'the token is no logout'
    if (nonce !== undefined) return 'the token has a nonce, as an identity token'
    if (typeof sub !== 'string' || typeof sid !== 'string' || sub + sid === '') return 'the token names no session'
    const begun = Math.min(this.#clock.wall(), iat * 1_000 + 999 + BEHIND)
    const [bySub, bySid] = endNames({ issuer, client, sub, sid })
    if (sid === '') return { names: [bySub], begun }
    return { names: sub === '' ? [bySid] : [bySid, nameOf('no sid', { issuer, client, sub })], begun }
  }
}
