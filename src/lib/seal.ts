import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'
import { CodedError, defineErrors } from './errors.js'

/*
 * A sealed value: version (1 byte), id of the key (8), nonce (12), ciphertext, tag (16). AES-256-GCM (NIST SP 800-38D)
 * with random nonces: one key may seal 2^32 values before a collision of nonces becomes likelier than 2^-32.
 */
const VERSION = 1
const ID_BYTES = 8
const NONCE_BYTES = 12
const TAG_BYTES = 16
const KEY_BYTES = 32
const HEAD_BYTES = 1 + ID_BYTES + NONCE_BYTES

/** Error codes of sealing keys and sealed values. */
export const sealErrors = defineErrors({
  SEAL_KEY_INVALID: {
    text: 'A sealing key is not 32 bytes, written as 64 hexadecimal digits or as base64.',
    help: 'Give a whole key; a new one comes from openssl rand -hex 32.'
  },
  SEAL_KEY_UNKNOWN: {
    text: 'The value is sealed by a key that the process does not have.',
    help: 'Give the key that sealed it, by SLUICE_SEAL_KEY or as the key file of the data folder.'
  },
  SEAL_BROKEN: {
    text: 'A sealed value has been changed, belongs to another record or is none.',
    help: 'Restore it from a backup, or write the secret anew.'
  }
})

/** A 32-byte key with its id, which identifies the key of a value and reveals nothing about it. */
export interface SealKey {
  readonly id: string
  readonly bytes: Uint8Array
}

/** Throws a CodedError `SEAL_KEY_INVALID` if the key does not have 32 bytes. */
export function sealKey(bytes: Uint8Array): SealKey {
  if (bytes.length !== KEY_BYTES) throw new CodedError(sealErrors.SEAL_KEY_INVALID, 'a sealing key has 32 bytes')
  const id = createHash('sha256')
    .update('sluice sealing key')
    .update(bytes)
    .digest('hex')
    .slice(0, ID_BYTES * 2)
  return { id, bytes }
}

/** Parses a key: 64 hexadecimal digits or base64 of 32 bytes. Throws a CodedError `SEAL_KEY_INVALID`. */
export function parseSealKey(text: string): SealKey {
  const trimmed = text.trim()
  if (/^[0-9a-fA-F]{64}$/.test(trimmed)) return sealKey(Buffer.from(trimmed, 'hex'))
  if (/^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed)) return sealKey(Buffer.from(trimmed, 'base64'))
  throw new CodedError(
    sealErrors.SEAL_KEY_INVALID,
    'a sealing key is written as 64 hexadecimal digits or base64 of 32 bytes'
  )
}

/** Returns a new random key as text for `parseSealKey`. */
export function newSealKey(): string {
  return randomBytes(KEY_BYTES).toString('base64')
}

/** Encrypts with one key and decrypts values of this key and older ones. */
export class Sealer {
  readonly #current: SealKey
  readonly #keys: ReadonlyMap<string, SealKey>

  constructor(current: SealKey, older: readonly SealKey[] = []) {
    this.#current = current
    this.#keys = new Map([...older, current].map((key) => [key.id, key]))
  }

  /** Id of the current key. */
  get keyId(): string {
    return this.#current.id
  }

  /** Returns whether the key with this id is available. */
  knows(keyId: string): boolean {
    return this.#keys.has(keyId)
  }

  /** Derives 32-byte keys for another purpose (HKDF, RFC 5869), that of the current key first. They reveal nothing about the original keys. */
  derive(purpose: string): readonly Uint8Array[] {
    const keys = [this.#current, ...[...this.#keys.values()].filter((key) => key.id !== this.#current.id)]
    return keys.map(({ bytes }) => new Uint8Array(hkdfSync('sha256', bytes, '', `sluice ${purpose}`, KEY_BYTES)))
  }

  /** `owner` identifies the value's owner; the value opens under the same name only, so that it cannot be moved. */
  seal(plain: Uint8Array, owner: string): Uint8Array {
    const nonce = randomBytes(NONCE_BYTES)
    const head = Buffer.concat([Buffer.of(VERSION), Buffer.from(this.#current.id, 'hex'), nonce])
    const cipher = createCipheriv('aes-256-gcm', this.#current.bytes, nonce, { authTagLength: TAG_BYTES })
    cipher.setAAD(bound(head, owner))
    return Buffer.concat([head, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
  }

  /** Throws a CodedError: `SEAL_KEY_UNKNOWN` (another key is needed) or `SEAL_BROKEN` (changed, truncated, or of another owner). */
  open(sealed: Uint8Array, owner: string): Uint8Array {
    const key = this.#keys.get(sealedBy(sealed))
    if (key === undefined) {
      throw new CodedError(
        sealErrors.SEAL_KEY_UNKNOWN,
        `the value is sealed by the key ${sealedBy(sealed)}, which is not here`
      )
    }
    const head = Buffer.from(sealed.subarray(0, HEAD_BYTES))
    const end = sealed.length - TAG_BYTES
    const nonce = head.subarray(1 + ID_BYTES)
    const decipher = createDecipheriv('aes-256-gcm', key.bytes, nonce, { authTagLength: TAG_BYTES })
    decipher.setAAD(bound(head, owner))
    decipher.setAuthTag(sealed.subarray(end))
    try {
      return Buffer.concat([decipher.update(sealed.subarray(HEAD_BYTES, end)), decipher.final()])
    } catch (error) {
      throw new CodedError(sealErrors.SEAL_BROKEN, 'the sealed value has been changed or belongs elsewhere', {
        cause: error
      })
    }
  }
}

/** Returns the id of the value's key. Throws a CodedError `SEAL_BROKEN` for an invalid value. */
export function sealedBy(sealed: Uint8Array): string {
  if (sealed[0] !== VERSION || sealed.length < HEAD_BYTES + TAG_BYTES) {
    throw new CodedError(sealErrors.SEAL_BROKEN, 'this is no sealed value')
  }
  return Buffer.from(sealed.subarray(1, 1 + ID_BYTES)).toString('hex')
}

/** Returns the id of the value's key; undefined for an invalid value. */
export function keyIdOf(sealed: Uint8Array): string | undefined {
  return sealed[0] === VERSION && sealed.length >= HEAD_BYTES + TAG_BYTES ? sealedBy(sealed) : undefined
}

function bound(head: Uint8Array, owner: string): Uint8Array {
  return Buffer.concat([head, Buffer.from(owner)])
}

/** Returns the SHA-256 hash in hex, for comparing texts, and for storing and finding tokens, whose randomness makes a plain hash sufficient. */
export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
