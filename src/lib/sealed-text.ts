import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

/*
 * Text that browsers keep for this process: nonce (12 bytes), ciphertext, tag (16), in base64url; AES-256-GCM (NIST SP 800-38D) with random
 * nonces, so that one key may seal 2^32 texts.
 */
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Encrypts a text with a 32-byte key. It can be decrypted for the same `purpose` only. */
export function sealText(key: Uint8Array, plain: string, purpose: string): string {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(Buffer.from(purpose))
  return Buffer.concat([nonce, cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64url')
}

/** Returns undefined if the text was changed, truncated, sealed for another purpose or with an unknown key. */
export function openText(keys: readonly Uint8Array[], sealed: string, purpose: string): string | undefined {
  const bytes = Buffer.from(sealed, 'base64url')
  // Buffer ignores invalid base64url; each value must have only one spelling.
  if (bytes.length < NONCE_BYTES + TAG_BYTES || bytes.toString('base64url') !== sealed) return undefined
  for (const key of keys) {
    const plain = openWith(key, bytes, purpose)
    if (plain !== undefined) return plain
  }
  return undefined
}

function openWith(key: Uint8Array, bytes: Buffer, purpose: string): string | undefined {
  const end = bytes.length - TAG_BYTES
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
  decipher.setAAD(Buffer.from(purpose))
  decipher.setAuthTag(bytes.subarray(end))
  try {
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, end)), decipher.final()]).toString('utf8')
  } catch {
    // The only remaining failure: the tag does not match.
    return undefined
  }
}
