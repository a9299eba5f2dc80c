import {
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  type JsonWebKey,
  type KeyObject,
  randomBytes,
  sign
} from 'node:crypto'
import { promisify } from 'node:util'
import { codeOf } from '../lib/errors.js'

type SshKeyType = 'ed25519' | 'rsa' | 'ecdsa'
export type SshCurve = 'p256' | 'p384' | 'p521'

export type SshKeySpec =
  | { readonly type: 'ed25519' }
  | { readonly type: 'rsa'; readonly bits: 2048 | 4096 }
  | { readonly type: 'ecdsa'; readonly curve: SshCurve }

export interface SshKeyPair {
  /** One line of an authorized_keys file, without a comment. */
  readonly publicKey: string
  /** PKCS #8 in PEM. */
  readonly privateKey: string
}

/** Public key in the SSH wire format (RFC 4253 6.6, RFC 5656 3.1, RFC 8709 4). */
export interface SshPublicKey {
  /** `ssh-ed25519`, `ssh-rsa` or `ecdsa-sha2-nistp…`. */
  readonly algorithm: string
  readonly type: SshKeyType
  readonly blob: Uint8Array
  /** `<algorithm> <base64>`. */
  readonly text: string
}

export interface SshCertificateRequest {
  readonly kind: 'user' | 'host'
  readonly key: SshPublicKey
  /** PKCS #8 in PEM. */
  readonly authorityKey: string
  readonly serial: bigint
  readonly keyId: string
  readonly principals: readonly string[]
  /** Seconds since the Unix epoch; the end is exclusive. */
  readonly validAfter: number
  readonly validBefore: number
  readonly criticalOptions: Readonly<Record<string, string>>
  readonly extensions: Readonly<Record<string, string>>
  readonly nonce: Uint8Array
}

interface CurveNames {
  readonly jwk: string
  readonly ssh: string
  readonly hash: string
  /** Size of a coordinate in bytes. */
  readonly size: number
}

const CURVES: Readonly<Record<SshCurve, CurveNames>> = {
  p256: { jwk: 'P-256', ssh: 'nistp256', hash: 'sha256', size: 32 },
  p384: { jwk: 'P-384', ssh: 'nistp384', hash: 'sha384', size: 48 },
  p521: { jwk: 'P-521', ssh: 'nistp521', hash: 'sha512', size: 66 }
}
const CERTIFICATE_KINDS = { user: 1, host: 2 } as const
const LEAST_RSA_BITS = 2048
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/
const generate = promisify(generateKeyPair)

/** Generates a key pair in the thread pool: RSA of 4096 bits takes about half a second. */
export async function generateSshKey(spec: SshKeySpec): Promise<SshKeyPair> {
  const { publicKey, privateKey } = await generateFor(spec)
  return {
    publicKey: encodeKey(publicKey).text,
    privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  }
}

function generateFor(spec: SshKeySpec) {
  if (spec.type === 'ed25519') return generate('ed25519')
  if (spec.type === 'rsa') return generate('rsa', { modulusLength: spec.bits })
  return generate('ec', { namedCurve: CURVES[spec.curve].jwk })
}

/** Reads a line of an authorized_keys file: algorithm, base64, and a comment that is dropped. Undefined if invalid. */
export function readSshPublicKey(line: string): SshPublicKey | undefined {
  const text = line.trim()
  const [algorithm, base64] = /[\r\n]/.test(text) ? [] : text.split(/[ \t]+/, 2)
  if (algorithm === undefined || base64 === undefined || !BASE64.test(base64)) return undefined
  const blob = Buffer.from(base64, 'base64')
  const parts = readStrings(blob)
  const jwk = parts === undefined ? undefined : jwkOf(parts)
  if (jwk === undefined) return undefined
  let key: KeyObject
  try {
    key = createPublicKey({ key: jwk, format: 'jwk' })
  } catch (error) {
    // Errors of OpenSSL: a point not on its curve, an invalid modulus. Any other error is a bug.
    if (codeOf(error) === undefined) throw error
    return undefined
  }
  if ((key.asymmetricKeyDetails?.modulusLength ?? LEAST_RSA_BITS) < LEAST_RSA_BITS) return undefined
  const encoded = encodeKey(key)
  return encoded.algorithm === algorithm && blob.equals(encoded.blob) ? encoded : undefined
}

/** Signs an OpenSSH certificate (PROTOCOL.certkeys of OpenSSH). Returns one line: algorithm and base64. */
export function signSshCertificate(request: SshCertificateRequest): string {
  const authority = createPrivateKey(request.authorityKey)
  const { key } = request
  const algorithm = `${key.algorithm}-cert-v01@openssh.com`
  const [, ...keyParts] = readStrings(key.blob) as Buffer[]
  const body = Buffer.concat([
    text(algorithm),
    string(request.nonce),
    ...keyParts.map(string),
    uint64(request.serial),
    uint32(CERTIFICATE_KINDS[request.kind]),
    text(request.keyId),
    string(Buffer.concat(request.principals.map(text))),
    uint64(BigInt(request.validAfter)),
    uint64(BigInt(request.validBefore)),
    string(options(request.criticalOptions)),
    string(options(request.extensions)),
    string(Buffer.alloc(0)),
    string(encodeKey(createPublicKey(authority)).blob)
  ])
  const certificate = Buffer.concat([body, string(signature(authority, body))])
  return `${algorithm} ${certificate.toString('base64')}`
}

/** Returns a random serial number; revocation needs distinct ones for each authority. */
export function newSshSerial(random: (bytes: number) => Uint8Array = randomBytes): bigint {
  return Buffer.from(random(8)).readBigUInt64BE() >> 1n
}

function encodeKey(key: KeyObject): SshPublicKey {
  const jwk = key.export({ format: 'jwk' })
  const decode = (value: string | undefined) => Buffer.from(value ?? '', 'base64url')
  const made = (type: SshKeyType, algorithm: string, ...parts: Buffer[]): SshPublicKey => {
    const blob = Buffer.concat([text(algorithm), ...parts.map(string)])
    return { algorithm, type, blob, text: `${algorithm} ${blob.toString('base64')}` }
  }
  if (jwk.kty === 'OKP') return made('ed25519', 'ssh-ed25519', decode(jwk.x))
  if (jwk.kty === 'RSA') return made('rsa', 'ssh-rsa', integer(decode(jwk.e)), integer(decode(jwk.n)))
  const { ssh } = curveOf(jwk)
  const point = Buffer.concat([Buffer.of(4), decode(jwk.x), decode(jwk.y)])
  return made('ecdsa', `ecdsa-sha2-${ssh}`, Buffer.from(ssh), point)
}

function curveOf({ crv }: JsonWebKey): CurveNames {
  const found = Object.values(CURVES).find(({ jwk }) => jwk === crv)
  if (found === undefined) throw new RangeError('SSH knows the curves P-256, P-384 and P-521 only')
  return found
}

/** Converts the parts of a key; undefined if they are invalid. */
function jwkOf([algorithm, ...parts]: readonly Buffer[]): JsonWebKey | undefined {
  const name = algorithm?.toString('latin1')
  const [first, second] = parts
  const url = (part: Buffer) => part.toString('base64url')
  if (name === 'ssh-ed25519' && first?.length === 32 && parts.length === 1) {
    return { kty: 'OKP', crv: 'Ed25519', x: url(first) }
  }
  if (first === undefined || second === undefined || parts.length !== 2) return undefined
  if (name === 'ssh-rsa') return { kty: 'RSA', e: url(unsigned(first)), n: url(unsigned(second)) }
  const curve = Object.values(CURVES).find(({ ssh }) => name === `ecdsa-sha2-${ssh}`)
  if (curve === undefined || second[0] !== 4 || second.length !== 1 + 2 * curve.size) return undefined
  return {
    kty: 'EC',
    crv: curve.jwk,
    x: url(second.subarray(1, 1 + curve.size)),
    y: url(second.subarray(1 + curve.size))
  }
}

/** Returns the signature blob (RFC 4253 6.6): RSA with SHA-512 (RFC 8332), ECDSA as two integers (RFC 5656 3.1.2). */
function signature(key: KeyObject, body: Buffer): Buffer {
  if (key.asymmetricKeyType === 'ed25519') return Buffer.concat([text('ssh-ed25519'), string(sign(null, body, key))])
  if (key.asymmetricKeyType === 'rsa') return Buffer.concat([text('rsa-sha2-512'), string(sign('sha512', body, key))])
  const { ssh, hash, size } = curveOf(createPublicKey(key).export({ format: 'jwk' }))
  const pair = sign(hash, body, { key, dsaEncoding: 'ieee-p1363' })
  const integers = [pair.subarray(0, size), pair.subarray(size)].map((part) => string(integer(unsigned(part))))
  return Buffer.concat([text(`ecdsa-sha2-${ssh}`), string(Buffer.concat(integers))])
}

/** Encodes options sorted by name; a value is a nested string, an empty one a flag. */
function options(named: Readonly<Record<string, string>>): Buffer {
  const entries = Object.entries(named).sort(([a], [b]) => (a < b ? -1 : 1))
  return Buffer.concat(
    entries.flatMap(([name, value]) => [text(name), string(value === '' ? Buffer.alloc(0) : text(value))])
  )
}

/** Splits `bytes` into length-prefixed strings; undefined if the lengths do not match. */
function readStrings(bytes: Uint8Array): Buffer[] | undefined {
  const buffer = Buffer.from(bytes)
  const strings: Buffer[] = []
  let at = 0
  while (at < buffer.length) {
    if (at + 4 > buffer.length) return undefined
    const end = at + 4 + buffer.readUInt32BE(at)
    if (end > buffer.length) return undefined
    strings.push(buffer.subarray(at + 4, end))
    at = end
  }
  return strings
}

/** Encodes a number of 32 bits (RFC 4251 5). */
export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function uint64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(value)
  return bytes
}

function string(bytes: Uint8Array): Buffer {
  return Buffer.concat([uint32(bytes.length), bytes])
}

/** Encodes a text as a string with its length (RFC 4251 5). */
export function text(value: string): Buffer {
  return string(Buffer.from(value))
}

/** Encodes an mpint (RFC 4251 5): a zero byte before a leading one bit prevents a negative sign. */
function integer(bytes: Buffer): Buffer {
  return ((bytes[0] ?? 0) & 0x80) === 0 ? bytes : Buffer.concat([Buffer.of(0), bytes])
}

function unsigned(bytes: Buffer): Buffer {
  let start = 0
  while (start < bytes.length - 1 && bytes[start] === 0) start++
  return bytes.subarray(start)
}
