import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { argon2id, argon2Verify, bcrypt, bcryptVerify } from 'hash-wasm'
import { readPasswordHash } from './password-hash-format.js'

/** Maximum length of a password for bcrypt (bytes). */
const BCRYPT_BYTES = 72
/** Parameters of new hashes: the second recommended set of RFC 9106 with a third of its memory (KiB), some 50 ms. */
const ARGON2 = { parallelism: 1, iterations: 2, memorySize: 19_456, hashLength: 32 } as const
/** Cost of new bcrypt hashes. */
const BCRYPT_COST = 12

/**
 * Returns whether the hash belongs to the password (bytes in UTF-8). Takes tens to hundreds of milliseconds of the thread; false for a hash
 * that `readPasswordHash` rejects.
 */
export async function verifyPassword(password: Uint8Array, hash: string): Promise<boolean> {
  const read = readPasswordHash(hash)
  if (read.kind !== 'hash' || password.length === 0) return false
  switch (read.format) {
    case 'apr1':
      return isSame(apr1(password, hash.split('$')[2] as string), hash)
    case 'bcrypt':
      return await bcryptVerify({ password: password.subarray(0, BCRYPT_BYTES), hash })
    default:
      return await argon2Verify({ password, hash })
  }
}

/** Hashes a password for a policy. Rejects with a RangeError if the password is too long for bcrypt. */
export async function hashPassword(password: string, format: 'argon2id' | 'bcrypt'): Promise<string> {
  const salt = randomBytes(16)
  if (format === 'argon2id') return await argon2id({ ...ARGON2, password, salt, outputType: 'encoded' })
  if (Buffer.byteLength(password) > BCRYPT_BYTES) throw new RangeError('bcrypt takes passwords of at most 72 bytes')
  return await bcrypt({ password, salt, costFactor: BCRYPT_COST, outputType: 'encoded' })
}

function isSame(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b))
}

const ALPHABET = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** Digest bytes of each group of four characters. */
const GROUPS = [
  [0, 6, 12],
  [1, 7, 13],
  [2, 8, 14],
  [3, 9, 15],
  [4, 10, 5]
] as const

function md5(...parts: readonly Uint8Array[]): Buffer {
  const hash = createHash('md5')
  for (const part of parts) hash.update(part)
  return hash.digest()
}

/** Hash of Apache's htpasswd: a thousand rounds of MD5, derived from the crypt(3) of FreeBSD (apr_md5.c of the Apache Portable Runtime). */
function apr1(password: Uint8Array, saltText: string): string {
  const salt = Buffer.from(saltText)
  const inner = md5(password, salt, password)
  const parts: Uint8Array[] = [password, Buffer.from('$apr1$'), salt]
  for (let left = password.length; left > 0; left -= 16) parts.push(inner.subarray(0, Math.min(16, left)))
  for (let bits = password.length; bits > 0; bits >>= 1)
    parts.push((bits & 1) === 1 ? Buffer.alloc(1) : password.subarray(0, 1))
  let digest = md5(...parts)
  for (let round = 0; round < 1_000; round++) {
    digest = md5(
      round % 2 === 1 ? password : digest,
      round % 3 === 0 ? NOTHING : salt,
      round % 7 === 0 ? NOTHING : password,
      round % 2 === 1 ? digest : password
    )
  }
  let text = ''
  for (const [a, b, c] of GROUPS) {
    text += encoded(((digest[a] as number) << 16) | ((digest[b] as number) << 8) | (digest[c] as number), 4)
  }
  return `$apr1$${saltText}$${text}${encoded(digest[11] as number, 2)}`
}

const NOTHING = new Uint8Array()

/** Encodes the lowest six bits first. */
function encoded(value: number, length: number): string {
  let text = ''
  for (let i = 0; i < length; i++) text += ALPHABET[(value >> (6 * i)) & 0x3f]
  return text
}
