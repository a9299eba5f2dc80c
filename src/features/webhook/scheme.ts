import { createHash, createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import type { HeaderFields } from '../../flow/headers.js'
import { defineErrors } from '../../lib/errors.js'
import { formFields } from '../../lib/form-fields.js'
import { appendTo } from '../../lib/lists.js'
import { Slices, type Steps } from '../../lib/slices.js'

/** What a scheme sees of a request. */
export interface WebhookRequest {
  /** As it came. */
  readonly method: string
  /** Path and query as they came, before any normal form: senders sign what they wrote. */
  readonly target: string
  /** The URLs under which the sender may have known this place; see `public-urls.ts`. Built at each call. */
  urls(): readonly string[]
  readonly headers: HeaderFields
  readonly body: Uint8Array
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number
}

/** Keys that senders publish. */
export interface SenderKeys {
  /** The public key of the certificate at `url`. Never rejects. */
  certificate(url: string, now: number): Promise<KeyObject | Failure>
}

/** Looks at one request. Neither throws nor rejects for anything that stands in a request. */
export type Verify = (request: WebhookRequest, keys: SenderKeys) => Finding | Promise<Finding>

/**
 * How a sender signs: turns the secret that is shared with it into what requests are looked at with. A text instead says
 * why the secret cannot be one of this scheme; it repeats nothing of it.
 */
export type Scheme = (secret: string) => Verify | string

/** The one value of a field that must stand once; a failure when it is absent or repeated. */
export function single(
  headers: HeaderFields,
  name: string
): { readonly value: string } | 'SIGNATURE_MISSING' | 'SIGNATURE_REPEATED' {
  const values = headers.values(name)
  if (values.length === 0) return 'SIGNATURE_MISSING'
  return values.length === 1 ? { value: values[0] as string } : 'SIGNATURE_REPEATED'
}

/** Why a request is not taken for one of its sender: error.code of verify-webhook. No text holds data of the request. */
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

/** Why a request is not taken for the sender's. */
export type Failure = keyof typeof webhookFailures

/** The request is the sender's. */
interface Accepted {
  readonly accepted: true
  /** The sender gives it to one delivery attempt only; absent when it has no such thing. */
  readonly once?: string
}

/** The outcome of a check. */
export type Finding = Failure | Accepted

/** The finding that the request is the sender's. */
export const ACCEPTED: Accepted = { accepted: true }

const SECOND = 1_000
/** What is allowed between the sender's clock and ours, either way, where the sender says nothing else. */
export const TOLERANCE = 300 * SECOND

const DIGITS = /^\d{1,15}$/
/** From here on a number counts milliseconds: in seconds it would lie in the year 5138. */
const MILLISECONDS = 1e11
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?$/

/**
 * Milliseconds since the epoch of a timestamp as senders write it: Unix time in seconds or milliseconds, or ISO 8601, in UTC
 * where no zone is written. Undefined when it is neither.
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

/** Why a timestamp is not that of a fresh request; undefined when it is. All times in milliseconds. */
export function staleness(text: string | undefined, now: number, tolerance: number): Failure | undefined {
  const time = text === undefined ? undefined : readTimestamp(text)
  if (time === undefined) return 'TIMESTAMP_INVALID'
  return Math.abs(now - time) > tolerance ? 'TIMESTAMP_STALE' : undefined
}

type MacAlgorithm = 'sha1' | 'sha256' | 'sha512'
/** How a code is written as text. */
export type MacEncoding = 'hex' | 'base64'

/** How a message authentication code is made and written. */
export interface MacForm {
  readonly algorithm: MacAlgorithm
  readonly encoding: MacEncoding
}

/** The secret as a key; a text gives its bytes in UTF-8. */
export function macKey(secret: string | Uint8Array): KeyObject {
  return typeof secret === 'string' ? createSecretKey(secret, 'utf8') : createSecretKey(secret)
}

/** Texts, which count as UTF-8, bytes, and pieces of a text that are made one by one. */
type SignedPart = string | Uint8Array | Iterable<string>

/** The HMAC (RFC 2104) of the parts one after the other, as text; long ones are hashed in slices. */
export async function macOf(
  { algorithm, encoding }: MacForm,
  key: KeyObject,
  ...parts: readonly SignedPart[]
): Promise<string> {
  const mac = createHmac(algorithm, key)
  await hashed(mac, parts)
  return mac.digest(encoding)
}

/** Feeds the parts to a hash, or to what makes or checks a signature, in slices where they are long. */
export async function hashed(
  hash: { update(piece: string | Uint8Array): unknown },
  parts: readonly SignedPart[]
): Promise<void> {
  await new Slices().run(fed(hash, parts))
}

/** Bytes or characters that are hashed at a stretch. */
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

/** A text in pieces that cut no pair of surrogates. */
export function* piecesOf(text: string, length = STRETCH): Iterable<string> {
  for (let at = 0; at < text.length; ) {
    const unit = text.charCodeAt(at + length - 1)
    const end = at + (unit >= 0xd800 && unit <= 0xdbff ? length - 1 : length)
    yield text.slice(at, end)
    at = end
  }
}

/**
 * Compares texts in a time that says nothing about how much of them is equal. The written forms are compared, not the
 * bytes that they stand for: no second spelling of a signature passes. The length is no secret.
 */
export function sameText(expected: string, given: string): boolean {
  const [a, b] = [Buffer.from(expected, 'utf8'), Buffer.from(given, 'utf8')]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** Is `expected` one of those given? Every one is compared, so that the time does not tell which. */
export function isAmong(expected: string, given: readonly string[]): boolean {
  let found = false
  for (const one of given) if (sameText(expected, one)) found = true
  return found
}

/** Compares with a secret without showing even its length. */
export function sameSecret(secret: string, given: string): boolean {
  return timingSafeEqual(digest(secret), digest(given))
}

function digest(text: string): Uint8Array {
  return createHash('sha256').update(text, 'utf8').digest()
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/

/** The bytes of a key in base64, with or without padding; undefined when the text is none, or empty. */
export function keyFromBase64(text: string): Uint8Array | undefined {
  return text !== '' && BASE64.test(text) ? Buffer.from(text, 'base64') : undefined
}

/** The bytes of a signature in base64, or undefined when it is not written in the one canonical way. */
export function signatureFromBase64(text: string): Uint8Array | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.length > 0 && bytes.toString('base64') === text ? bytes : undefined
}

/** Is the body a form (application/x-www-form-urlencoded)? */
export function isForm({ headers }: WebhookRequest): boolean {
  const type = headers.get('content-type')
  return type !== undefined && /^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(type)
}

/** Names of fields with their values in order of arrival. */
export type Fields = ReadonlyMap<string, readonly string[]>

/** The fields of a query. */
export function fieldsOfQuery(query: string): Fields {
  return byName(new URLSearchParams(query))
}

/** Fields that a form may have; senders write some dozens. */
const MAX_FIELDS = 4_096

/** The fields of a form, read in slices; undefined when there are too many for one of a sender. */
export async function fieldsOfForm(body: Uint8Array): Promise<Fields | undefined> {
  const fields = await new Slices().run(formFields(body, MAX_FIELDS))
  return fields === undefined ? undefined : byName(fields)
}

function byName(pairs: Iterable<readonly [string, string]>): Fields {
  const fields = new Map<string, string[]>()
  for (const [name, value] of pairs) appendTo(fields, name, value)
  return fields
}

/** Names in the order of their UTF-16 code units, as the senders' libraries sort them. */
export function sortedNames(fields: Fields): readonly string[] {
  return [...fields.keys()].sort()
}
