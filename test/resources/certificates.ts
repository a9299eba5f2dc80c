import 'reflect-metadata'
import { webcrypto } from 'node:crypto'
import * as x509 from '@peculiar/x509'

x509.cryptoProvider.set(webcrypto as never)

type Algorithm = 'ec' | 'rsa' | 'ed25519'

export interface Identity {
  readonly certificate: x509.X509Certificate
  readonly keys: webcrypto.CryptoKeyPair
  readonly pem: string
  /** PKCS #8. */
  readonly key: string
}

const ALGORITHMS = {
  ec: { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' },
  rsa: {
    name: 'RSASSA-PKCS1-v1_5',
    modulusLength: 2048,
    publicExponent: new Uint8Array([1, 0, 1]),
    hash: 'SHA-256'
  },
  ed25519: { name: 'Ed25519' }
}

interface Wanted {
  readonly subject: string
  readonly issuer?: Identity
  readonly algorithm?: Algorithm
  readonly serialNumber?: string
  readonly extensions?: x509.Extension[]
  readonly notBefore?: Date
  readonly notAfter?: Date
}

/** A certificate signing request with its key (PKCS #10). */
export async function requestCertificate(
  algorithm: Algorithm,
  modulusLength = 2048
): Promise<{ readonly pem: string; readonly keys: webcrypto.CryptoKeyPair }> {
  const asked = algorithm === 'rsa' ? { ...ALGORITHMS.rsa, modulusLength } : ALGORITHMS[algorithm]
  const keys = (await webcrypto.subtle.generateKey(asked, true, ['sign', 'verify'])) as webcrypto.CryptoKeyPair
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: 'CN=someone else',
    keys,
    signingAlgorithm: ALGORITHMS[algorithm]
  })
  return { pem: `${request.toString('pem')}\n`, keys }
}

/** A certificate with its key: signed by `issuer`, or by itself. */
export async function issue({ subject, issuer, algorithm = 'ec', ...rest }: Wanted): Promise<Identity> {
  const keys = (await webcrypto.subtle.generateKey(ALGORITHMS[algorithm], true, [
    'sign',
    'verify'
  ])) as webcrypto.CryptoKeyPair
  const certificate = await x509.X509CertificateGenerator.create({
    subject,
    issuer: issuer?.certificate.subject ?? subject,
    publicKey: keys.publicKey,
    signingKey: (issuer?.keys ?? keys).privateKey,
    ...((issuer?.keys ?? keys).privateKey.algorithm.name === 'ECDSA' ? { signingAlgorithm: ALGORITHMS.ec } : {}),
    serialNumber: rest.serialNumber ?? '01',
    notBefore: rest.notBefore ?? new Date('2026-01-01T00:00:00Z'),
    notAfter: rest.notAfter ?? new Date('2027-01-01T00:00:00Z'),
    extensions: rest.extensions ?? []
  })
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey))
  const body = der.toString('base64').replace(/.{64}(?=.)/g, '$&\n')
  const key = `-----BEGIN PRIVATE KEY-----\n${body}\n-----END PRIVATE KEY-----\n`
  return { certificate, keys, pem: `${certificate.toString('pem')}\n`, key }
}

/** A self-signed authority. */
export function authority(subject: string): Promise<Identity> {
  return issue({ subject, extensions: [new x509.BasicConstraintsExtension(true, undefined, true)] })
}

export { x509 }

interface ListWanted {
  readonly nextUpdate?: Date
  readonly extensions?: x509.Extension[]
}

/** PEM of a certificate revocation list that `issuer` has signed. */
export async function revocationList(
  issuer: Identity,
  serials: readonly string[],
  { nextUpdate, extensions }: ListWanted = {}
): Promise<string> {
  const list = await x509.X509CrlGenerator.create({
    issuer: issuer.certificate.subject,
    thisUpdate: new Date('2026-01-02T00:00:00Z'),
    ...(nextUpdate === undefined ? {} : { nextUpdate }),
    entries: serials.map((serialNumber) => ({ serialNumber, revocationDate: new Date('2026-01-01T00:00:00Z') })),
    ...(extensions === undefined ? {} : { extensions }),
    signingKey: issuer.keys.privateKey,
    ...(issuer.keys.privateKey.algorithm.name === 'ECDSA' ? { signingAlgorithm: ALGORITHMS.ec } : {})
  } as x509.X509CrlCreateParams)
  // The library has another label than RFC 7468 7.
  return `${list.toString('pem').replaceAll(' CRL-', ' X509 CRL-')}\n`
}
