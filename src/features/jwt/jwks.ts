import { createHash, createPublicKey, createSecretKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import { parseExactJson } from '../../lib/exact-json.js'
import { isObject } from '../../lib/json.js'
import { atOnce, type Steps } from '../../lib/slices.js'

/** Key that verifies signatures. */
export interface VerificationKey {
  /** Digest of the key with its `kid` and algorithms; equal for equal keys, independent of the load. */
  readonly id: string
  readonly kid: string | undefined
  /** Allowed algorithms: names of RFC 7518 3.1, RFC 8037 3.1 and RFC 9864 2.2, only those of this kind of key. */
  readonly algorithms: ReadonlySet<string>
  readonly key: KeyObject
}

export interface KeySet {
  readonly keys: readonly VerificationKey[]
  readonly byId: ReadonlyMap<string, VerificationKey>
}

export interface ReadKeysOptions {
  /** Allows secret keys (`oct`), which must not come from a public server. */
  readonly secrets: boolean
}

/** Maximum number of keys in a set. */
const MAX_KEYS = 1000
/** Minimum size of an RSA key (bits). */
const MIN_RSA_BITS = 2048
/** Maximum size of an RSA key (bits). */
const MAX_RSA_BITS = 16_384
/** Algorithms of RSA keys. */
const RSA = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512']
/** Algorithms of Ed25519 keys. */
const EDWARDS = ['EdDSA', 'Ed25519']
const CURVES: ReadonlyMap<string | undefined, readonly string[]> = new Map([
  ['prime256v1', ['ES256']],
  ['secp384r1', ['ES384']],
  ['secp521r1', ['ES512']]
])
/** Minimum key lengths in bytes (RFC 7518 3.2): at least that of the digest. */
const HMAC_BYTES = { HS256: 32, HS384: 48, HS512: 64 } as const
/** PEM block. */
const PEM_BLOCK = /-----BEGIN ([A-Z0-9 ]+)-----[\sA-Za-z0-9+/=]+?-----END \1-----/g
/** PEM labels of public keys. */
const PUBLIC_BLOCKS = new Set(['PUBLIC KEY', 'RSA PUBLIC KEY', 'CERTIFICATE'])

/**
 * Reads a JSON Web Key Set, a plain list of keys, one JSON Web Key (RFC 7517), or public keys and certificates in PEM. Undefined if
 * invalid.
 *
 * Members that cannot verify signatures are ignored (RFC 7517 5): unknown kinds, other uses, private keys, RSA below 2048 bits. Only the
 * key of a certificate is used, not its dates and issuer.
 */
export function readKeySet(text: string, options: ReadKeysOptions): KeySet | undefined {
  return atOnce(keySetIn(text, options))
}

/** Does the work of `readKeySet` in steps of one key: OpenSSL takes a millisecond and more for some. */
export function* keySetIn(text: string, options: ReadKeysOptions): Steps<KeySet | undefined> {
  const keys = yield* text.trimStart().startsWith('-----BEGIN') ? fromPem(text) : fromJson(text, options)
  return keys === undefined ? undefined : keySetOf(keys)
}

/** Returns the key of an HMAC secret; undefined if it is too short for every allowed algorithm. */
export function secretKey(
  secret: Uint8Array,
  { kid, algorithm }: { readonly kid?: string | undefined; readonly algorithm?: string | undefined }
): VerificationKey | undefined {
  return secret.length === 0 ? undefined : verificationKey(createSecretKey(secret), kid, algorithm)
}

export function keySetOf(keys: readonly VerificationKey[]): KeySet {
  return { keys, byId: new Map(keys.map((key) => [key.id, key])) }
}

function* fromPem(text: string): Steps<VerificationKey[] | undefined> {
  const keys: VerificationKey[] = []
  for (const [block, label] of text.matchAll(PEM_BLOCK)) {
    // The public half could be derived, but publishing a private key is a mistake.
    if (!PUBLIC_BLOCKS.has(label as string)) return undefined
    const key = publicKey(block)
    if (key === undefined) return undefined
    const usable = verificationKey(key, undefined, undefined)
    if (usable !== undefined) keys.push(usable)
    if (keys.length > MAX_KEYS) return undefined
    yield
  }
  return keys.length === 0 ? undefined : keys
}

function* fromJson(text: string, options: ReadKeysOptions): Steps<VerificationKey[] | undefined> {
  let data: unknown
  try {
    data = parseExactJson(text.replace(/^\uFEFF/, ''))
  } catch {
    // The parser's message quotes the text, which may contain a secret.
    return undefined
  }
  const members = membersOf(data)
  if (members === undefined || members.length > MAX_KEYS) return undefined
  const keys: VerificationKey[] = []
  for (const member of members as readonly unknown[]) {
    const key = isObject(member) ? fromJwk(member, options) : undefined
    if (key !== undefined) keys.push(key)
    yield
  }
  return keys
}

function membersOf(data: unknown): readonly unknown[] | undefined {
  if (Array.isArray(data)) return data.length === 0 ? undefined : data
  if (!isObject(data)) return undefined
  return Array.isArray(data.keys) ? data.keys : typeof data.kty === 'string' ? [data] : undefined
}

/** Returns a key's name as text; RFC 7517 4.5 requires text, but some issuers write a number. Undefined otherwise. */
export function kidText(kid: unknown): string | undefined {
  if (typeof kid === 'string') return kid
  return typeof kid === 'bigint' || Number.isSafeInteger(kid) ? String(kid) : undefined
}

function fromJwk(jwk: Readonly<Record<string, unknown>>, { secrets }: ReadKeysOptions): VerificationKey | undefined {
  const { kty, use, key_ops: operations, alg, k } = jwk
  const kid = kidText(jwk.kid)
  if (jwk.kid !== undefined && kid === undefined) return undefined
  if (alg !== undefined && typeof alg !== 'string') return undefined
  if (use !== undefined && use !== 'sig') return undefined
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return undefined
  if (kty === 'oct') {
    return secrets && typeof k === 'string'
      ? secretKey(Buffer.from(k, 'base64url'), { kid, algorithm: alg })
      : undefined
  }
  if (jwk.d !== undefined) return undefined
  const key = publicKey({ key: jwk as JsonWebKey, format: 'jwk' })
  return key === undefined ? undefined : verificationKey(key, kid, alg)
}

function publicKey(source: Parameters<typeof createPublicKey>[0]): KeyObject | undefined {
  try {
    return createPublicKey(source)
  } catch {
    // OpenSSL reports invalid keys in many ways.
    return undefined
  }
}

function verificationKey(
  key: KeyObject,
  kid: string | undefined,
  algorithm: string | undefined
): VerificationKey | undefined {
  const fitting = algorithmsOf(key)
  const algorithms = algorithm === undefined ? fitting : fitting.filter((name) => name === algorithm)
  if (algorithms.length === 0) return undefined
  const bytes = key.type === 'secret' ? key.export() : key.export({ type: 'spki', format: 'der' })
  const id = createHash('sha256')
    .update(JSON.stringify([key.type, kid ?? null, algorithms]))
    .update(bytes)
    .digest('base64')
  return { id, kid, algorithms: new Set(algorithms), key }
}

/** Returns the algorithms of a key's kind, never of the token: a public key must not serve as an HMAC secret. */
function algorithmsOf(key: KeyObject): readonly string[] {
  if (key.type === 'secret') {
    const { symmetricKeySize: size = 0 } = key
    return Object.entries(HMAC_BYTES).flatMap(([name, least]) => (size >= least ? [name] : []))
  }
  switch (key.asymmetricKeyType) {
    case 'rsa': {
      const bits = key.asymmetricKeyDetails?.modulusLength ?? 0
      return bits >= MIN_RSA_BITS && bits <= MAX_RSA_BITS ? RSA : []
    }
    case 'ec':
      return CURVES.get(key.asymmetricKeyDetails?.namedCurve) ?? []
    case 'ed25519':
      return EDWARDS
    default:
      return []
  }
}
