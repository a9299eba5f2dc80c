import { refuse, type Verdict } from '../../flow/verdict.js'
import { FIRST_LOAD_FLOOR } from '../../lib/jwks-cache.js'

/** Why a token is not accepted: the code that the client gets, and what is said of it. Nothing here holds any of the token. */
const PROBLEMS = {
  JWT_MISSING: { error: undefined, message: 'the request has no token where one is expected' },
  JWT_REPEATED: { error: 'invalid_request', message: 'the place of the token occurs more than once' },
  JWT_PREFIX: { error: 'invalid_request', message: 'the text before the token is not the expected one' },
  JWT_BODY_METHOD: { error: 'invalid_request', message: 'a token in a body needs the method POST, PUT or PATCH' },
  JWT_BODY_TYPE: {
    error: 'invalid_request',
    message: 'a token in a body needs the type application/json or application/x-www-form-urlencoded, not compressed'
  },
  JWT_BODY_JSON: { error: 'invalid_request', message: 'the body is no JSON object with distinct members' },
  JWT_BODY_FORM: { error: 'invalid_request', message: 'the body is no form' },
  JWT_MALFORMED: { error: 'invalid_token', message: 'the token is no signed token in compact form' },
  JWT_ENCRYPTED: { error: 'invalid_token', message: 'encrypted tokens are not supported' },
  JWT_CRITICAL: { error: 'invalid_token', message: 'the token demands an extension that is not supported' },
  JWT_ALGORITHM: { error: 'invalid_token', message: 'the algorithm of the token is not allowed' },
  JWT_KEY_UNKNOWN: { error: 'invalid_token', message: 'no key of the accepted ones fits the token' },
  JWT_SIGNATURE: { error: 'invalid_token', message: 'the signature of the token is wrong' },
  JWT_TYPE: { error: 'invalid_token', message: 'the token is of another type' },
  JWT_CLAIMS: { error: 'invalid_token', message: 'a claim of the token is missing or has no valid value' },
  JWT_ISSUER: { error: 'invalid_token', message: 'the issuer of the token is not accepted' },
  JWT_AUDIENCE: { error: 'invalid_token', message: 'the token is meant for another audience' },
  JWT_EXPIRED: { error: 'invalid_token', message: 'the token has expired' },
  JWT_NOT_YET_VALID: { error: 'invalid_token', message: 'the token is not valid yet' },
  JWT_KEYS_UNAVAILABLE: { error: undefined, message: 'the keys that check the token cannot be had' }
} as const

export type JwtProblem = keyof typeof PROBLEMS

export function messageOf(problem: JwtProblem): string {
  return PROBLEMS[problem].message
}

/**
 * The answer: 401 with a challenge (RFC 6750 3: without an error when there was no token at all), or 503 when it is not
 * the client's fault.
 */
export function verdictOf(problem: JwtProblem): Verdict {
  return VERDICTS[problem]
}

/** Seconds after which keys that could not be had are asked for again. */
const RETRY = ['retry-after', String(FIRST_LOAD_FLOOR / 1_000)]
const VERDICTS = Object.fromEntries(
  Object.entries(PROBLEMS).map(([code, { error, message }]) => [
    code,
    code === 'JWT_KEYS_UNAVAILABLE'
      ? refuse(503, code, RETRY)
      : refuse(401, code, ['www-authenticate', challenge(error, message)])
  ])
) as Record<JwtProblem, Verdict>

function challenge(error: string | undefined, message: string): string {
  return error === undefined
    ? 'Bearer realm="sluice"'
    : `Bearer realm="sluice", error="${error}", error_description="${message}"`
}
