import type { Static, TSchema } from 'typebox'
import { config, enforce } from '../../policy/fields.js'
import { valueLike, WEB_URL } from '../../schema/editor.js'
import {
  any,
  choice,
  duration,
  either,
  integer,
  list,
  map,
  object,
  optional,
  template,
  text
} from '../../schema/values.js'
import { ENCODINGS } from './key-sources.js'
import { type JwtProblem, type Token, USUAL_LENGTH } from './token.js'

const TOKEN_TYPES = ['id_token', 'access_token', 'at+jwt', 'it+jwt', 'plain', 'jwt'] as const
type TokenType = (typeof TOKEN_TYPES)[number]

/** Expected claims of a verified token. */
export interface ClaimRules {
  readonly issuers: ReadonlySet<string>
  /** Accepted audiences; any or none if undefined. */
  readonly audiences: ReadonlySet<string> | undefined
  /** Tolerated clock difference to the issuer (s). */
  readonly leeway: number
}

/** Value of `typ` that a token type accepts besides none and `JWT`; other types accept any (RFC 8725 3.11). */
const DECLARED: Partial<Record<TokenType, string>> = {
  id_token: 'it+jwt',
  'it+jwt': 'it+jwt',
  access_token: 'at+jwt',
  'at+jwt': 'at+jwt'
}

/**
 * Checks type, issuer, audience and times of a token with a valid signature. `now`: seconds since the epoch.
 *
 * A token that declares another type is refused; many issuers declare none or `JWT`, which `at+jwt` does not accept. `exp` is required in
 * identity and access tokens (OpenID Connect Core 2, RFC 9068 2.2) and checked whenever present. `iat` must not be in the future.
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

/** Returns true for a missing value or a NumericDate, which is any JSON number (RFC 7519 2). */
function isTimeOrAbsent(value: unknown): value is number | undefined {
  return value === undefined || (typeof value === 'number' && Number.isFinite(value))
}

function typeFits(typ: unknown, type: TokenType): boolean {
  const declared = DECLARED[type]
  if (declared === undefined) return true
  // RFC 9068 4 requires the type for such a token. No standard does for identity tokens.
  const isStrict = type === 'at+jwt'
  if (typeof typ !== 'string') return !isStrict
  const name = typ.toLowerCase().replace(/^application\//, '')
  return name === declared || (name === 'jwt' && !isStrict)
}

const HMAC = ['HS256', 'HS384', 'HS512'] as const
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
  ...HMAC
] as const

const token = object(
  {
    type: choice(TOKEN_TYPES, {
      description:
        'What the token is. Identity and access tokens must expire, and none may declare to be another; at+jwt must say so in its header typ.'
    }),
    method: choice(['header', 'body'], {
      description: 'Where it stands. A body needs POST, PUT or PATCH and JSON or a form. Never in the URL.'
    }),
    name: template({ description: 'Name of the header or of the field of the body, in any case.', min: 1 }),
    prefix: optional(template({ description: 'Text before the token, in any case.' }))
  },
  { description: 'A token of the request.' }
)

const sharedSecret = object(
  {
    value: template({ description: "The secret; better ${secrets.get('vault', 'name')} than its text.", min: 1 }),
    encoding: optional(choice(ENCODINGS, { description: 'How its bytes are written.', default: 'utf8' })),
    kid: optional(text({ description: 'Name that tokens give it.', min: 1 })),
    algorithm: optional(choice(HMAC, { description: 'The only algorithm that it is for.' }))
  },
  { description: 'A secret that tokens are signed with.' }
)

const sources = object(
  {
    additional_jkus: optional(
      list(template({ description: 'URL of a key set.', min: 1, editor: valueLike(WEB_URL) }), {
        description: 'Key sets that are fetched, and again when they are no longer fresh or lack a key.',
        min: 1,
        max: 16
      })
    ),
    inline: optional(
      list(
        either(
          [
            template({
              description: 'A JSON Web Key, a set of them, a public key or a certificate in PEM.',
              min: 1
            }),
            map(any({ description: 'A member of it.' }), { description: 'A JSON Web Key, or a set of them.' })
          ],
          { description: 'A key or a set of keys.' }
        ),
        { description: 'Keys that stand in the document.', min: 1, max: 16 }
      )
    ),
    files: optional(
      list(text({ description: 'Absolute path of a file with keys as in inline.', min: 1 }), {
        description:
          'Keys of the machine that Sluice runs on, from the folders that the operator allows (jwt.key_folders); a change of the file counts after about ten seconds.',
        min: 1,
        max: 16
      })
    ),
    shared_secrets: optional(list(sharedSecret, { description: 'Secrets of HS256, HS384 and HS512.', min: 1, max: 16 }))
  },
  { description: 'Where keys come from; at least one of its members.', editor: { minProperties: 1 } }
)

const identification = object(
  {
    token_claims: list(choice(['kid'], { description: 'Header parameter that names the key.' }), {
      description: 'kid: a token that does not name its key is refused.',
      min: 1
    })
  },
  { description: 'How a token names its key.' }
)

const keys = object(
  {
    sources: either([sources, list(sources, { description: 'Several sources.', min: 1 })], {
      description: 'Where the keys come from.'
    }),
    identification: optional(
      either([identification, list(identification, { description: 'Several ways.', min: 1 })], {
        description: 'How a token names its key.'
      })
    )
  },
  { description: 'Where keys come from, and how a token names its own.' }
)

const allowed = <V extends TSchema>(value: V, description: string) =>
  list(object({ value }, { description: 'One that is accepted.' }), { description, min: 1, max: 100 })

/** Configuration of `jwt-validation`. */
export const jwtConfig = config({
  issuer: object(
    {
      allow_list: allowed(
        template({ description: 'The issuer, character for character.', min: 1 }),
        'Accepted issuers; the claim iss is one of them.'
      )
    },
    { description: 'Who may have issued a token.' }
  ),
  audience: optional(
    object(
      {
        allow_list: optional(
          allowed(
            text({ description: 'The audience, character for character.', min: 1 }),
            'Accepted audiences; the claim aud names at least one.'
          )
        )
      },
      { description: 'Whom a token must be for; not checked when left out.' }
    )
  ),
  http: object(
    {
      tokens: list(token, {
        description: 'Where tokens stand; every one must be there and valid.',
        min: 1,
        max: 8
      })
    },
    { description: 'Where tokens stand in the request.' }
  ),
  jws: object(
    {
      allowed_algorithms: list(choice(ALGORITHMS, { description: 'A signature algorithm; never none.' }), {
        description: 'Accepted algorithms. A key is only used for algorithms of its own kind.',
        min: 1
      }),
      keys: either([keys, list(keys, { description: 'Several maps.', min: 1 })], {
        description: 'Where keys come from; a map, or a list of such maps.'
      })
    },
    { description: 'How signatures are checked.' }
  ),
  max_token_length: optional(
    integer({
      description: 'Characters of the longest token; one in a header needs limits.header_bytes too.',
      min: 1024,
      max: 65_536,
      default: USUAL_LENGTH
    })
  ),
  leeway: optional(
    duration({ description: 'How far our clock and the issuer’s may be apart', min: 0, max: 300_000, default: '30s' })
  ),
  enforce: enforce()
})

export type JwtConfig = Static<typeof jwtConfig>
export type KeysConfig = Static<typeof keys>
export type SourcesConfig = Static<typeof sources>
