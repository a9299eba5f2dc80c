import { JOSEError } from 'jose/errors'
import { compactVerify } from 'jose/jws/compact/verify'
import type { VerificationKey } from './jwks.js'
import type { Token } from './token.js'

/** Verifies the signature of a token in the thread pool. The key must support the token's algorithm. */
export async function signatureIsRight(token: Token, { key }: VerificationKey): Promise<boolean> {
  try {
    await compactVerify(token.text, key, { algorithms: [token.algorithm] })
    return true
  } catch (error) {
    if (error instanceof JOSEError) return false
    throw error
  }
}
