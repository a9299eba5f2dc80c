import { createPublicKey, createVerify, type KeyObject } from 'node:crypto'
import { ACCEPTED } from '../finding.js'
import { keyFromBase64, signatureFromBase64 } from '../mac.js'
import { type Scheme, single } from '../scheme.js'
import { staleness, TOLERANCE } from '../timestamp.js'

interface EcdsaOptions {
  readonly header: string
  readonly timestamp: string
}

/** ECDSA with SHA-256 over the timestamp and the body; the secret is the sender's public key, base64 of its DER form. */
export function ecdsa({ header, timestamp }: EcdsaOptions): Scheme {
  return (secret) => {
    const key = publicKey(secret)
    if (key === undefined) return 'must be the base64 form of an ECDSA public key'
    return ({ headers, body, now }) => {
      const found = single(headers, header)
      if (typeof found === 'string') return found
      const time = single(headers, timestamp)
      if (typeof time === 'string') return time === 'SIGNATURE_MISSING' ? 'TIMESTAMP_INVALID' : time
      const stale = staleness(time.value, now, TOLERANCE)
      if (stale !== undefined) return stale
      const signature = signatureFromBase64(found.value)
      if (signature === undefined) return 'SIGNATURE_INVALID'
      const verifier = createVerify('sha256').update(time.value).update(body)
      return verifier.verify(key, signature) ? ACCEPTED : 'SIGNATURE_INVALID'
    }
  }
}

function publicKey(base64: string): KeyObject | undefined {
  const bytes = keyFromBase64(base64)
  if (bytes === undefined) return undefined
  try {
    const key = createPublicKey({ key: Buffer.from(bytes), format: 'der', type: 'spki' })
    return key.asymmetricKeyType === 'ec' ? key : undefined
  } catch {
    // OpenSSL has many ways to say that this is no key.
    return undefined
  }
}
