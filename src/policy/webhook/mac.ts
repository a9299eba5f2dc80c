import { createHash, createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'

type MacAlgorithm = 'sha1' | 'sha256' | 'sha512'
export type MacEncoding = 'hex' | 'base64'

/** How a message authentication code is made and written. */
export interface MacForm {
  readonly algorithm: MacAlgorithm
  readonly encoding: MacEncoding
}

export function macKey(secret: string | Uint8Array): KeyObject {
  return typeof secret === 'string' ? createSecretKey(secret, 'utf8') : createSecretKey(secret)
}

/** The HMAC (RFC 2104) of the parts one after the other, as text. */
export function macOf({ algorithm, encoding }: MacForm, key: KeyObject, ...parts: readonly (string | Uint8Array)[]) {
  const mac = createHmac(algorithm, key)
  for (const part of parts) mac.update(part)
  return mac.digest(encoding)
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

/** Compares with a secret whose very length is not told. */
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
