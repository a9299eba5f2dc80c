import 'reflect-metadata'
import { webcrypto } from 'node:crypto'
import { isIP } from 'node:net'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator
} from '@peculiar/x509'

/** A certificate that nobody else vouches for. PEM texts. */
export interface SelfSigned {
  readonly chain: string
  readonly privateKey: string
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const DAY = 86_400_000
const LIFE = 365 * DAY
/** Clocks of clients may be late. */
const BACKDATED = DAY

/** Makes a server's certificate for `names` (host names, wildcards and addresses), valid for a year from `now` (Unix milliseconds). */
export async function selfSigned(subject: string, names: readonly string[], now: number): Promise<SelfSigned> {
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: `CN=${subject}`,
    notBefore: new Date(now - BACKDATED),
    notAfter: new Date(now + LIFE),
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new SubjectAlternativeNameExtension(names.map((value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value })))
    ]
  })
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64')
  const lines = der.match(/.{1,64}/g) ?? []
  return {
    chain: `${certificate.toString('pem')}\n`,
    privateKey: `-----BEGIN PRIVATE KEY-----\n${lines.join('\n')}\n-----END PRIVATE KEY-----\n`
  }
}
