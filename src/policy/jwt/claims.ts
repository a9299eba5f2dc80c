import type { JwtProblem } from './problems.js'
import type { Token } from './token.js'

export const TOKEN_TYPES = ['id_token', 'access_token', 'at+jwt', 'it+jwt', 'plain', 'jwt'] as const
export type TokenType = (typeof TOKEN_TYPES)[number]

/** What the claims of a verified token must say. */
export interface ClaimRules {
  readonly issuers: ReadonlySet<string>
  /** Undefined: any, and none. */
  readonly audiences: ReadonlySet<string> | undefined
  /** Seconds that our clock and the issuer's may be apart. */
  readonly leeway: number
}

/** What a `typ` may say besides nothing and `JWT`; a type that is not here takes every one (RFC 8725 3.11). */
const DECLARED: Partial<Record<TokenType, string>> = {
  id_token: 'it+jwt',
  'it+jwt': 'it+jwt',
  access_token: 'at+jwt',
  'at+jwt': 'at+jwt'
}

/**
 * Checks type, issuer, audience and times of a token whose signature is right. `now`: seconds since the epoch.
 *
 * A token that declares another type is refused; many issuers declare none. `exp` is demanded of identity and access
 * tokens (OpenID Connect Core 2, RFC 9068 2.2) and heeded wherever it stands. `iat` must not lie in the future.
 */
export function claimsProblem(token: Token, type: TokenType, rules: ClaimRules, now: number): JwtProblem | undefined {
  const { iss, aud, exp, nbf, iat } = token.payload
  const { leeway, audiences } = rules
  if (!typeFits(token.header.typ, type)) return 'JWT_TYPE'
  if (typeof iss !== 'string') return 'JWT_CLAIMS'
  if (!rules.issuers.has(iss)) return 'JWT_ISSUER'
  if (!isTimeOrAbsent(exp) || !isTimeOrAbsent(nbf) || !isTimeOrAbsent(iat)) return 'JWT_CLAIMS'
  if (exp === undefined && DECLARED[type] !== undefined) return 'JWT_CLAIMS'
  if (exp !== undefined && now >= exp + leeway) return 'JWT_EXPIRED'
  if ((nbf !== undefined && now < nbf - leeway) || (iat !== undefined && now < iat - leeway)) return 'JWT_NOT_YET_VALID'
  return audiences === undefined ? undefined : audienceProblem(aud, audiences)
}

function audienceProblem(aud: unknown, accepted: ReadonlySet<string>): JwtProblem | undefined {
  if (typeof aud === 'string') return accepted.has(aud) ? undefined : 'JWT_AUDIENCE'
  if (!Array.isArray(aud)) return 'JWT_CLAIMS'
  return aud.some((one: unknown) => typeof one === 'string' && accepted.has(one)) ? undefined : 'JWT_AUDIENCE'
}

/** RFC 7519 2: a NumericDate is any JSON number. */
function isTimeOrAbsent(value: unknown): value is number | undefined {
  return value === undefined || (typeof value === 'number' && Number.isFinite(value))
}

function typeFits(typ: unknown, type: TokenType): boolean {
  const declared = DECLARED[type]
  if (declared === undefined || typeof typ !== 'string') return true
  const name = typ.toLowerCase().replace(/^application\//, '')
  return name === 'jwt' || name === declared
}
