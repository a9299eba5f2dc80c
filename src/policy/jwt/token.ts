import type { JwtProblem } from './problems.js'
import { type JsonObject, readJsonObject } from './strict-json.js'

/** A signed token in compact form (RFC 7515 3.1), read but not verified. */
export interface Token {
  readonly text: string
  readonly header: JsonObject
  readonly payload: JsonObject
  /** Base64url, as it stands. */
  readonly signature: string
  readonly algorithm: string
  readonly kid: string | undefined
}

/** Characters of the longest token that is looked at. */
export const MAX_TOKEN = 16_384
const SEGMENT = /^[A-Za-z0-9_-]+$/

/**
 * Reads a token, or says why it is none.
 *
 * Base64url must be canonical and JSON unambiguous, so that one token has one spelling and one meaning. Keys and
 * places of keys in its header (`jwk`, `jku`, `x5c`, `x5u`) are never looked at. What its header declares critical is
 * refused, because no extension is supported (RFC 7515 4.1.11).
 */
export function readToken(text: string): Token | JwtProblem {
  const segments = text.split('.', 6)
  // RFC 7516 3.1: five parts are an encrypted token.
  if (segments.length === 5) return 'JWT_ENCRYPTED'
  const [protectedHeader, claims, signature] = segments
  if (segments.length !== 3 || protectedHeader === undefined || claims === undefined || signature === undefined) {
    return 'JWT_MALFORMED'
  }
  const header = readSegment(protectedHeader)
  const payload = readSegment(claims)
  if (header === undefined || payload === undefined || decode(signature) === undefined) return 'JWT_MALFORMED'
  const { alg, kid, typ } = header
  if (typeof alg !== 'string' || !isTextOrAbsent(kid) || !isTextOrAbsent(typ)) return 'JWT_MALFORMED'
  if (header.crit !== undefined || header.b64 !== undefined || header.zip !== undefined) return 'JWT_CRITICAL'
  return { text, header, payload, signature, algorithm: alg, kid }
}

function readSegment(segment: string): JsonObject | undefined {
  const bytes = decode(segment)
  return bytes === undefined ? undefined : readJsonObject(bytes)
}

function decode(segment: string): Uint8Array | undefined {
  if (!SEGMENT.test(segment)) return undefined
  const bytes = Buffer.from(segment, 'base64url')
  return bytes.toString('base64url') === segment ? bytes : undefined
}

function isTextOrAbsent(value: unknown): value is string | undefined {
  return value === undefined || typeof value === 'string'
}
