import { createHash } from 'node:crypto'
import { JOSEError, JWKSNoMatchingKey, JWSSignatureVerificationFailed, JWTClaimValidationFailed } from 'jose/errors'
import { createLocalJWKSet } from 'jose/jwks/local'
import { type JWTVerifyGetKey, jwtVerify } from 'jose/jwt/verify'
import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import { Discoveries } from './discoveries.js'
import { isPlain, type OpenidProtocol } from './openid.js'
import { outboundFetch, ProviderFailure } from './provider-fetch.js'

/** Bytes of the longest form with a logout token. */
export const LONGEST_LOGOUT = 16_384
/** Seconds that clocks may differ, and that a token may be old. */
const TOLERANCE = 60
const OLDEST = 3_600
/** Milliseconds by which the clock of a provider may be behind ours: a session begun just before its logout ends too. */
const BEHIND = 10_000
type Claims = Awaited<ReturnType<typeof jwtVerify>>['payload']
const EVENT = 'http://schemas.openid.net/event/backchannel-logout'
/** Providers of before 2022 say JWT, or nothing. */
const TYPES = new Set([undefined, 'logout+jwt', 'application/logout+jwt', 'jwt'])

/** Whom a session is of at its provider; '' for what the provider does not say. */
interface ProviderSession {
  readonly issuer: string
  readonly client: string
  readonly sub: string
  readonly sid: string
}

/**
 * Names by which a provider ends a session: hashes, so that the store holds no user. A logout of one session at the provider (`sid`) ends
 * those sessions of its user too that have no `sid`.
 */
export function endNames({ sid, ...session }: ProviderSession): readonly [string, string] {
  return [nameOf('sub', session), sid === '' ? nameOf('no sid', session) : nameOf('sid', { ...session, sub: sid })]
}

function nameOf(kind: 'sub' | 'sid' | 'no sid', { issuer, client, sub }: Omit<ProviderSession, 'sid'>): string {
  return createHash('sha256')
    .update(JSON.stringify([kind, issuer, client, sub]))
    .digest('base64url')
}

/** Whose sessions are over: names of `endNames`, and the moment before which they were begun (wall clock, milliseconds). */
interface ProviderLogout {
  readonly names: readonly string[]
  readonly begun: number
}

/** The logout tokens of providers (OpenID Connect Back-Channel Logout 1.0). All callers together cause one fetch of keys in five seconds at most. */
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
   * What a logout token says, checked by 2.6 of the specification; a text: why it is refused, without anything of the token. A token that comes again
   * ends nothing more, so `jti` is not remembered. Rejects with a ProviderFailure when the keys cannot be had.
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
        // The secret of an application, which others may know, would be the key of an HMAC.
        algorithms: algorithms.filter((name) => name !== 'none' && !name.startsWith('HS')),
        requiredClaims: ['exp', 'iat'],
        maxTokenAge: OLDEST,
        clockTolerance: TOLERANCE,
        currentDate: new Date(this.#clock.wall())
      })
    try {
      const { payload, protectedHeader } = await check(await this.#keys.get(url)).catch(async (error: unknown) => {
        // The key may be a new one, also under the name of an old one.
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
