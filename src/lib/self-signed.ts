import { makeServerCertificate } from './make-certificate.js'

/** A certificate that nobody else vouches for. PEM texts. */
export interface SelfSigned {
  readonly chain: string
  readonly privateKey: string
}

const YEAR = 365 * 86_400_000

/** Makes a server's certificate for `names` (host names, wildcards and addresses), valid for a year from `now` (Unix milliseconds). */
export async function selfSigned(subject: string, names: readonly string[], now: number): Promise<SelfSigned> {
  const { cert, key } = await makeServerCertificate(`CN=${subject}`, names, { now, life: YEAR })
  return { chain: cert, privateKey: key }
}
