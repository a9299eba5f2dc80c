import { createHash, createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import type { HeaderFields } from '../../flow/headers.js'
import { defineErrors } from '../../lib/errors.js'
import { formFields } from '../../lib/form-fields.js'
import { appendTo } from '../../lib/lists.js'
import { Slices, type Steps } from '../../lib/slices.js'

/** Request as seen by a scheme. */
export interface WebhookRequest {
  /** Unchanged. */
  readonly method: string
  /** Path and query as received, not normalized: senders sign what they send. */
  readonly target: string
  /** Returns the URLs under which the sender may know this endpoint; see `public-urls.ts`. Built at each call. */
  urls(): readonly string[]
  readonly headers: HeaderFields
  readonly body: Uint8Array
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number
}

/** Public keys of senders. */
export interface SenderKeys {
  /** Returns the public key of the certificate at `url`. Never rejects. */
  certificate(url: string, now: number): Promise<KeyObject | Failure>
}

/** Verifies one request. Neither throws nor rejects, whatever the request contains. */
export type Verify = (request: WebhookRequest, keys: SenderKeys) => Finding | Promise<Finding>

/** Signature scheme: compiles the shared secret to a verification, or returns a text why the secret is invalid, without any part of it. */
export type Scheme = (secret: string) => Verify | string

/** Returns the value of a field that must be unique; a failure if it is missing or repeated. */
export function single(
  headers: HeaderFields,
  name: string
): { readonly value: string } | 'SIGNATURE_MISSING' | 'SIGNATURE_REPEATED' {
  const values = headers.values(name)
  if (values.length === 0) return 'SIGNATURE_MISSING'
  return values.length === 1 ? { value: values[0] as string } : 'SIGNATURE_REPEATED'
}

/** Reasons for refusing a request: error.code of verify-webhook. No text contains request data. */
export const webhookFailures = defineErrors({
  SIGNATURE_MISSING: {
    text: 'The request carries no signature.',
    help: 'Look whether the sender signs, and whether the provider is the right one.'
  },
  SIGNATURE_REPEATED: {
    text: 'The request carries a field of its signature more than once.',
    help: 'Look at proxies before Sluice that add fields.'
  },
  SIGNATURE_INVALID: {
    text: 'The signature is not that of the sender over this request.',
    help: 'Compare the secret with that of the sender; a proxy must not change the body.'
  },
  TIMESTAMP_INVALID: {
    text: 'The request carries no timestamp that can be read.',
    help: 'Look whether the provider is the right one.'
  },
  TIMESTAMP_STALE: {
    text: 'The timestamp of the request is too far from now.',
    help: 'Set the clocks of both sides; old deliveries must be signed anew.'
  },
  REPLAYED: {
    text: 'The same delivery has come before.',
    help: 'Nothing, if the first one was taken; else let the sender deliver it anew.'
  },
  BODY_INVALID: {
    text: 'The body is not of the form that the sender signs.',
    help: 'Look whether the provider is the right one.'
  },
  CERTIFICATE_REFUSED: {
    text: 'The certificate that the request names is not one of the sender.',
    help: 'Nothing: the request is probably forged.'
  },
  CERTIFICATE_UNAVAILABLE: {
    text: 'The certificate of the sender could not be fetched.',
    help: 'Look whether Sluice reaches the sender; it tries again with the next delivery.'
  },
  SECRET_UNUSABLE: {
    text: 'The configured secret is none that this sender signs with.',
    help: 'Copy the secret from the sender again.'
  }
})

/** Reason for refusing a request. */
export type Failure = keyof typeof webhookFailures

/** Verified request. */
interface Accepted {
  readonly accepted: true
  /** Unique mark of the delivery attempt. @default the sender has none */
  readonly once?: string
}

/** Result of a verification. */
export type Finding = Failure | Accepted

/** Result for a verified request without a mark. */
export const ACCEPTED: Accepted = { accepted: true }

const SECOND = 1_000
/** Default tolerance between the sender's clock and ours, in either direction. */
export const TOLERANCE = 300 * SECOND

const DIGITS = /^\d{1,15}$/
/** Numbers from here are milliseconds: as seconds they would be in the year 5138. */
const MILLISECONDS = 1e11
/** ISO 8601 timestamp. */
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?$/

/**
 * Parses a timestamp to milliseconds since the epoch: Unix time in seconds or milliseconds, or ISO 8601, UTC by default. Undefined if
 * invalid.
 */
export function readTimestamp(text: string): number | undefined {
  if (DIGITS.test(text)) {
    const number = Number(text)
    return number < MILLISECONDS ? number * SECOND : number
  }
  const match = ISO.exec(text)
  if (match === null) return undefined
  const time = Date.parse(match[1] === undefined ? `${text}Z` : text)
  return Number.isNaN(time) ? undefined : time
}

/** Returns why a timestamp is not recent; undefined if it is. All times in milliseconds. */
export function staleness(text: string | undefined, now: number, tolerance: number): Failure | undefined {
  const time = text === undefined ? undefined : readTimestamp(text)
  if (time === undefined) return 'TIMESTAMP_INVALID'
  return Math.abs(now - time) > tolerance ? 'TIMESTAMP_STALE' : undefined
}

type MacAlgorithm = 'sha1' | 'sha256' | 'sha512'
/** Text form of a code. */
export type MacEncoding = 'hex' | 'base64'

/** Algorithm and text form of a message authentication code. */
export interface MacForm {
  readonly algorithm: MacAlgorithm
  readonly encoding: MacEncoding
}

/** Returns the secret as a key; a text is encoded as UTF-8. */
export function macKey(secret: string | Uint8Array): KeyObject {
  return typeof secret === 'string' ? createSecretKey(secret, 'utf8') : createSecretKey(secret)
}

/** Text (as UTF-8), bytes, or pieces of a generated text. */
type SignedPart = string | Uint8Array | Iterable<string>

/** Returns the HMAC (RFC 2104) of the concatenated parts as text; long ones are hashed in slices. */
export async function macOf(
  { algorithm, encoding }: MacForm,
  key: KeyObject,
  ...parts: readonly SignedPart[]
): Promise<string> {
  const mac = createHmac(algorithm, key)
  await hashed(mac, parts)
  return mac.digest(encoding)
}

/** Adds the parts to a hash, signature or verification, in slices if they are long. */
export async function hashed(
  hash: { update(piece: string | Uint8Array): unknown },
  parts: readonly SignedPart[]
): Promise<void> {
  await new Slices().run(fed(hash, parts))
}

/** Bytes or characters hashed in one step. */
const STRETCH = 65_536

function* fed(hash: { update(piece: string | Uint8Array): unknown }, parts: readonly SignedPart[]): Steps<undefined> {
  for (const part of parts) {
    for (const piece of typeof part === 'string' ? piecesOf(part) : part instanceof Uint8Array ? [part] : part) {
      if (piece.length <= STRETCH) hash.update(piece)
      else if (typeof piece === 'string') throw new Error('a piece of a text is short')
      else {
        for (let at = 0; at < piece.length; at += STRETCH) {
          hash.update(piece.subarray(at, at + STRETCH))
          yield
        }
      }
      yield
    }
  }
  return undefined
}

/** Splits a text without cutting surrogate pairs. */
export function* piecesOf(text: string, length = STRETCH): Iterable<string> {
  for (let at = 0; at < text.length; ) {
    const unit = text.charCodeAt(at + length - 1)
    const end = at + (unit >= 0xd800 && unit <= 0xdbff ? length - 1 : length)
    yield text.slice(at, end)
    at = end
  }
}

/**
 * Compares texts in constant time. The written forms are compared, not their bytes: no second spelling of a signature is valid. The length
 * is not secret.
 */
export function sameText(expected: string, given: string): boolean {
  const [a, b] = [Buffer.from(expected, 'utf8'), Buffer.from(given, 'utf8')]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** Returns true if `expected` is among those given. All are compared, so that the time does not reveal which. */
export function isAmong(expected: string, given: readonly string[]): boolean {
  let found = false
  for (const one of given) if (sameText(expected, one)) found = true
  return found
}

/** Compares with a secret without revealing its length. */
export function sameSecret(secret: string, given: string): boolean {
  return timingSafeEqual(digest(secret), digest(given))
}

function digest(text: string): Uint8Array {
  return createHash('sha256').update(text, 'utf8').digest()
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/

/** Decodes a base64 key, with or without padding; undefined if invalid or empty. */
export function keyFromBase64(text: string): Uint8Array | undefined {
  return text !== '' && BASE64.test(text) ? Buffer.from(text, 'base64') : undefined
}

/** Decodes a base64 signature; undefined unless it is canonical. */
export function signatureFromBase64(text: string): Uint8Array | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.length > 0 && bytes.toString('base64') === text ? bytes : undefined
}

/** Returns true for a form body (application/x-www-form-urlencoded). */
export function isForm({ headers }: WebhookRequest): boolean {
  const type = headers.get('content-type')
  return type !== undefined && /^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(type)
}

/** Field names with their values in order of arrival. */
export type Fields = ReadonlyMap<string, readonly string[]>

/** Returns the fields of a query. */
export function fieldsOfQuery(query: string): Fields {
  return byName(new URLSearchParams(query))
}

/** Maximum number of form fields; senders use some dozens. */
const MAX_FIELDS = 4_096

/** Returns the fields of a form, read in slices; undefined if there are too many. */
export async function fieldsOfForm(body: Uint8Array): Promise<Fields | undefined> {
  const fields = await new Slices().run(formFields(body, MAX_FIELDS))
  return fields === undefined ? undefined : byName(fields)
}

function byName(pairs: Iterable<readonly [string, string]>): Fields {
  const fields = new Map<string, string[]>()
  for (const [name, value] of pairs) appendTo(fields, name, value)
  return fields
}

/** Returns the names in order of UTF-16 code units, as the senders' libraries do. */
export function sortedNames(fields: Fields): readonly string[] {
  return [...fields.keys()].sort()
}
