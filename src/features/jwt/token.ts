import { refuse, type Verdict } from '../../flow/verdict.js'
import { defineErrors, messageOf } from '../../lib/errors.js'
import { parseExactJson } from '../../lib/exact-json.js'
import { isObject } from '../../lib/json.js'
import { kidText } from './jwks.js'
import { FIRST_LOAD_FLOOR } from './jwks-cache.js'

/** Maximum nesting; claims need little. */
export const MAX_DEPTH = 64

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const OPENING = [0x5b, 0x7b]
const CLOSING = [0x5d, 0x7d]
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

type JsonObject = Readonly<Record<string, unknown>>

/**
 * Parses bytes strictly as one JSON object: valid UTF-8, no repeated member in any object, bounded depth. Undefined if invalid: two readers
 * might use different ones of repeated members (RFC 7519 4).
 */
export function readJsonObject(
  bytes: Uint8Array,
  parse: (text: string) => unknown = JSON.parse
): JsonObject | undefined {
  let colons: number | undefined
  let value: unknown
  try {
    const text = UTF8.decode(bytes)
    colons = scan(text)
    value = colons === undefined ? undefined : parse(text)
  } catch {
    // Decoder and parser throw only for invalid input, and their messages may quote data that must not be logged.
    return undefined
  }
  if (!isObject(value)) return undefined
  // One colon outside of strings is one member; an excess means that a repeated member was overwritten.
  return colons === countMembers(value) ? value : undefined
}

/** Counts the colons outside of strings; undefined if the nesting is too deep. */
function scan(text: string): number | undefined {
  let colons = 0
  let depth = 0
  let quoted = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (quoted) {
      if (code === BACKSLASH) at++
      else if (code === QUOTE) quoted = false
    } else if (code === QUOTE) quoted = true
    else if (code === COLON) colons++
    else if (CLOSING.includes(code)) depth--
    else if (OPENING.includes(code) && ++depth > MAX_DEPTH) return undefined
  }
  return colons
}

function countMembers(root: object): number {
  let count = 0
  const waiting: object[] = [root]
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    const inner: readonly unknown[] = Object.values(value)
    if (!Array.isArray(value)) count += inner.length
    for (const item of inner) if (typeof item === 'object' && item !== null) waiting.push(item)
  }
  return count
}

/** Signed token in compact form (RFC 7515 3.1), parsed but not verified. */
export interface Token {
  readonly text: string
  readonly header: JsonObject
  readonly payload: JsonObject
  /** Base64url as received. */
  readonly signature: string
  readonly algorithm: string
  readonly kid: string | undefined
}

/** Default maximum length of a token (characters). */
export const USUAL_LENGTH = 16_384
/** Base64url segment. */
const SEGMENT = /^[A-Za-z0-9_-]+$/

/**
 * Parses a token, or returns the problem.
 *
 * Base64url must be canonical and JSON unambiguous, so that one token has one spelling and one meaning. Keys and key locations in its
 * header (`jwk`, `jku`, `x5c`, `x5u`) are ignored. Critical header parameters are refused, because no extension is supported (RFC 7515
 * 4.1.11).
 */
export function readToken(text: string): Token | JwtProblem {
  const segments = text.split('.', 6)
  // RFC 7516 3.1: five parts are an encrypted token.
  if (segments.length === 5) return 'JWT_ENCRYPTED'
  const [protectedHeader, claims, signature] = segments
  if (segments.length !== 3 || protectedHeader === undefined || claims === undefined || signature === undefined) {
    return 'JWT_MALFORMED'
  }
  // A key name may be a number with more digits than JavaScript supports.
  const header = readSegment(protectedHeader, parseExactJson)
  const payload = readSegment(claims)
  if (header === undefined || payload === undefined || decode(signature) === undefined) return 'JWT_MALFORMED'
  const { alg, typ } = header
  const kid = kidText(header.kid)
  const isKidRead = kid !== undefined || header.kid === undefined
  if (typeof alg !== 'string' || !isKidRead || !isTextOrAbsent(typ)) return 'JWT_MALFORMED'
  if (header.crit !== undefined || header.b64 !== undefined || header.zip !== undefined) return 'JWT_CRITICAL'
  return { text, header, payload, signature, algorithm: alg, kid }
}

/** Returns the payload of a parsed token with all digits of its integers. */
export function exactPayload({ text }: Token): unknown {
  return parseExactJson(Buffer.from(text.split('.')[1] as string, 'base64url').toString('utf8'))
}

function readSegment(segment: string, parse?: (text: string) => unknown): JsonObject | undefined {
  const bytes = decode(segment)
  return bytes === undefined ? undefined : readJsonObject(bytes, parse)
}

function decode(segment: string): Uint8Array | undefined {
  if (!SEGMENT.test(segment)) return undefined
  const bytes = Buffer.from(segment, 'base64url')
  return bytes.toString('base64url') === segment ? bytes : undefined
}

function isTextOrAbsent(value: unknown): value is string | undefined {
  return value === undefined || typeof value === 'string'
}

/** Reasons for refusing a token, with the `error` of the challenge (RFC 6750 3.1). No text contains any part of the token. */
export const jwtErrors = defineErrors({
  JWT_MISSING: {
    status: 401,
    error: undefined,
    text: 'The request has no token where one is expected.',
    help: 'Send the token where the policy looks for it.'
  },
  JWT_REPEATED: {
    status: 401,
    error: 'invalid_request',
    text: 'The place of the token occurs more than once.',
    help: 'Send one token.'
  },
  JWT_PREFIX: {
    status: 401,
    error: 'invalid_request',
    text: 'The text before the token is not the expected one.',
    help: 'Send the prefix of the policy, such as Bearer and a space.'
  },
  JWT_BODY_METHOD: {
    status: 401,
    error: 'invalid_request',
    text: 'A token in a body needs the method POST, PUT or PATCH.',
    help: 'Use such a method, or send the token in a header field.'
  },
  JWT_BODY_TYPE: {
    status: 401,
    error: 'invalid_request',
    text: 'A token in a body needs the type application/json or application/x-www-form-urlencoded, not compressed.',
    help: 'Send the body in such a form.'
  },
  JWT_BODY_JSON: {
    status: 401,
    error: 'invalid_request',
    text: 'The body is no JSON object with distinct members.',
    help: 'Correct the body.'
  },
  JWT_BODY_FORM: { status: 401, error: 'invalid_request', text: 'The body is no form.', help: 'Correct the body.' },
  JWT_MALFORMED: {
    status: 401,
    error: 'invalid_token',
    text: 'The token is no signed token in compact form.',
    help: 'Send the token as the issuer gave it.'
  },
  JWT_ENCRYPTED: {
    status: 401,
    error: 'invalid_token',
    text: 'Encrypted tokens are not supported.',
    help: 'Let the issuer give signed tokens that are not encrypted.'
  },
  JWT_CRITICAL: {
    status: 401,
    error: 'invalid_token',
    text: 'The token demands an extension that is not supported.',
    help: 'Let the issuer give tokens without crit, b64 and zip.'
  },
  JWT_ALGORITHM: {
    status: 401,
    error: 'invalid_token',
    text: 'The algorithm of the token is not allowed.',
    help: 'Add it to allowed_algorithms if it should be.'
  },
  JWT_KEY_UNKNOWN: {
    status: 401,
    error: 'invalid_token',
    text: 'No key of the accepted ones fits the token.',
    help: 'Look at the keys of the policy and at the kid of the token.'
  },
  JWT_SIGNATURE: {
    status: 401,
    error: 'invalid_token',
    text: 'The signature of the token is wrong.',
    help: 'Get a new token; look whether the keys are those of the issuer.'
  },
  JWT_TYPE: {
    status: 401,
    error: 'invalid_token',
    text: 'The token is of another type.',
    help: 'Send the kind of token that the policy names.'
  },
  JWT_CLAIMS: {
    status: 401,
    error: 'invalid_token',
    text: 'A claim of the token is missing or has no valid value.',
    help: 'Let the issuer set iss, aud and exp as the policy demands.'
  },
  JWT_ISSUER: {
    status: 401,
    error: 'invalid_token',
    text: 'The issuer of the token is not accepted.',
    help: 'Add the issuer to the policy if it should be.'
  },
  JWT_AUDIENCE: {
    status: 401,
    error: 'invalid_token',
    text: 'The token is meant for another audience.',
    help: 'Ask the issuer for a token for this audience.'
  },
  JWT_EXPIRED: { status: 401, error: 'invalid_token', text: 'The token has expired.', help: 'Get a new token.' },
  JWT_NOT_YET_VALID: {
    status: 401,
    error: 'invalid_token',
    text: 'The token is not valid yet.',
    help: 'Set the clocks of the issuer and of Sluice.'
  },
  JWT_KEYS_UNAVAILABLE: {
    status: 503,
    error: undefined,
    text: 'The keys that check the token cannot be had.',
    help: 'Look whether Sluice reaches the source of the keys; clients may repeat the request.'
  }
})

export type JwtProblem = keyof typeof jwtErrors

/** Returns the verdict: 401 with a challenge (RFC 6750 3: no error if there was no token), or 503 if it is not the client's fault. */
export function verdictOf(problem: JwtProblem): Verdict {
  return VERDICTS[problem]
}

/** Retry-After field for unavailable keys. */
const RETRY = ['retry-after', String(FIRST_LOAD_FLOOR / 1_000)]
const VERDICTS = Object.fromEntries(
  Object.values(jwtErrors).map((row) => [
    row.code,
    row.code === 'JWT_KEYS_UNAVAILABLE'
      ? refuse(row, RETRY)
      : refuse(row, ['www-authenticate', challenge(row.error, messageOf(row))])
  ])
) as Record<JwtProblem, Verdict>

function challenge(error: string | undefined, message: string): string {
  return error === undefined
    ? 'Bearer realm="sluice"'
    : `Bearer realm="sluice", error="${error}", error_description="${message}"`
}
