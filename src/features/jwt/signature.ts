import { JOSEError } from 'jose/errors'
import { compactVerify } from 'jose/jws/compact/verify'
import type { VerificationKey } from './jwks.js'
import type { Token } from './token.js'

/** Is the signature of the token right? The key must be one for the token's algorithm. Runs beside the event loop. */
export async function signatureIsRight(token: Token, { key }: VerificationKey): Promise<boolean> {
  try {
    await compactVerify(token.text, key, { algorithms: [token.algorithm] })
    return true
  } catch (error) {
    if (error instanceof JOSEError) return false
    throw error
  }
}
