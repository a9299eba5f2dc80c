import { webcrypto } from 'node:crypto'
import { isIP } from 'node:net'
// The library below fails without it.
import 'reflect-metadata'
import * as library from '@peculiar/x509'

/** A self-signed certificate in PEM. */
export interface SelfSigned {
  readonly chain: string
  readonly privateKey: string
}

const YEAR = 365 * 86_400_000

/** Creates a server certificate for `names` (host names, wildcards and addresses), valid for a year from `now` (Unix milliseconds). */
export async function selfSigned(subject: string, names: readonly string[], now: number): Promise<SelfSigned> {
  const { cert, key } = await makeServerCertificate(`CN=${subject}`, names, { now, life: YEAR })
  return { chain: cert, privateKey: key }
}

/** A certificate with its key, ECDSA on P-256, in PEM. */
export interface KeyedCertificate {
  readonly cert: string
  /** PKCS #8. */
  readonly key: string
}

/** Start and lifetime of a certificate (ms); `now` since the Unix epoch. */
export interface Validity {
  readonly now: number
  readonly life: number
}

/** Algorithm of the keys that are made here. */
export const SIGNING_ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
/** Milliseconds of a day. */
const DAY = 86_400_000
/** Tolerance for slow clocks of other machines (ms). */
const BACKDATED = DAY

/** Creates an authority that signs server certificates and no further authorities. `subject`: a distinguished name. */
export async function makeAuthority(subject: string, validity: Validity): Promise<KeyedCertificate> {
  const keys = await webcrypto.subtle.generateKey(SIGNING_ALGORITHM, true, ['sign', 'verify'])
  const extensions = [
    new library.BasicConstraintsExtension(true, 0, true),
    new library.KeyUsagesExtension(library.KeyUsageFlags.keyCertSign | library.KeyUsageFlags.cRLSign, true),
    await library.SubjectKeyIdentifierExtension.create(keys.publicKey)
  ]
  return await made({ subject, issuer: subject, signingKey: keys.privateKey, extensions }, keys, validity)
}

/**
 * Creates a server certificate for `names` (host names, wildcards and addresses), signed by the authority, or self-signed. Rejects if the
 * authority's key is invalid.
 */
export async function makeServerCertificate(
  subject: string,
  names: readonly string[],
  validity: Validity,
  authority?: { readonly subject: string; readonly key: string }
): Promise<KeyedCertificate> {
  const keys = await webcrypto.subtle.generateKey(SIGNING_ALGORITHM, true, ['sign', 'verify'])
  const signingKey = authority === undefined ? keys.privateKey : await readSigningKey(authority.key)
  const named: library.JsonGeneralName[] = names.map((value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value }))
  const extensions = [
    new library.BasicConstraintsExtension(false, undefined, true),
    new library.KeyUsagesExtension(library.KeyUsageFlags.digitalSignature, true),
    new library.ExtendedKeyUsageExtension([library.ExtendedKeyUsage.serverAuth]),
    new library.SubjectAlternativeNameExtension(named)
  ]
  return await made({ subject, issuer: authority?.subject ?? subject, signingKey, extensions }, keys, validity)
}

/** Returns the key of a `KeyedCertificate`. Rejects for invalid text. */
export function readSigningKey(pem: string): Promise<webcrypto.CryptoKey> {
  const der = Buffer.from(pem.replace(/-----[^-]+-----|\s/g, ''), 'base64')
  return webcrypto.subtle.importKey('pkcs8', der, SIGNING_ALGORITHM, false, ['sign'])
}

async function made(
  wanted: Pick<library.X509CertificateCreateWithKeyParams, 'subject' | 'issuer' | 'signingKey' | 'extensions'>,
  keys: webcrypto.CryptoKeyPair,
  { now, life }: Validity
): Promise<KeyedCertificate> {
  const certificate = await library.X509CertificateGenerator.create({
    ...wanted,
    notBefore: new Date(now - BACKDATED),
    notAfter: new Date(now + life),
    publicKey: keys.publicKey,
    signingAlgorithm: SIGNING_ALGORITHM
  })
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64')
  const key = `-----BEGIN PRIVATE KEY-----\n${der.replace(/.{64}/g, '$&\n').trimEnd()}\n-----END PRIVATE KEY-----\n`
  return { cert: `${certificate.toString('pem')}\n`, key }
}
