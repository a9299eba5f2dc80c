import { createPublicKey, type KeyObject } from 'node:crypto'
// The library below fails without it.
import 'reflect-metadata'
import * as library from '@peculiar/x509'
import { defineErrors } from './errors.js'
import { readSigningKey, SIGNING_ALGORITHM, type Validity } from './self-signed.js'
import { readBlocks, type X509Refusal } from './x509.js'

/** Reasons to reject a certificate signing request; `reason` in the API's details. */
export const requestErrors = defineErrors({
  REQUEST_MISSING: {
    text: 'The text holds no certificate signing request.',
    help: 'Give the text of the file, from -----BEGIN CERTIFICATE REQUEST----- to its end.'
  },
  REQUEST_BROKEN: {
    text: 'A certificate signing request cannot be read.',
    help: 'Copy the file again; openssl req -in FILE -text must be able to read it.'
  },
  REQUEST_KEY: {
    text: 'The key of a certificate signing request is too weak or of a kind that is not accepted.',
    help: 'Use an RSA key of at least 2048 bits, an ECDSA key on P-256, P-384 or P-521, or an Ed25519 key.'
  },
  REQUEST_SIGNATURE: {
    text: 'A certificate signing request is not signed by the key that it holds.',
    help: 'Make a new request with the private key.'
  }
})

interface RequestRefusal {
  readonly ok: false
  readonly code: keyof typeof requestErrors | X509Refusal['code']
  /** Contains nothing of the text. */
  readonly message: string
}

/** Public key of a request whose signature is its own. */
export interface CertificateRequest {
  readonly ok: true
  readonly publicKey: library.PublicKey
}

/** Maximum length of a request in bytes: one with an RSA key of 16384 bits and many names. */
export const MAX_REQUEST = 16 * 1024

/** PEM labels of requests (RFC 7468 7). */
const LABELS: readonly string[] = ['CERTIFICATE REQUEST', 'NEW CERTIFICATE REQUEST']
/** Minimum size of an RSA key. */
const FEWEST_RSA_BITS = 2048
/** Accepted curves of ECDSA keys, as OpenSSL names them. */
const CURVES: readonly string[] = ['prime256v1', 'secp384r1', 'secp521r1']

const refuse = (code: keyof typeof requestErrors, message: string): RequestRefusal => ({ ok: false, code, message })

/**
 * Reads one certificate signing request in PEM (PKCS #10, RFC 2986; label by RFC 7468 7) and verifies that the key that it
 * holds has signed it. Returns the reason for a refusal.
 */
export async function readCertificateRequest(pem: string): Promise<CertificateRequest | RequestRefusal> {
  const blocks = readBlocks(pem, 'CERTIFICATE_MISSING', MAX_REQUEST)
  if (!Array.isArray(blocks)) {
    if (blocks.code !== 'CERTIFICATE_MISSING') return blocks
    return refuse('REQUEST_MISSING', 'must be a certificate signing request in PEM format')
  }
  const [block, ...more] = blocks
  if (block === undefined || more.length > 0 || !LABELS.includes(block.label))
    return refuse('REQUEST_MISSING', 'must hold one CERTIFICATE REQUEST block and no other')
  const request = parse(Buffer.from(block.content, 'base64'))
  const key = request && importKey(request)
  if (request === undefined || key === undefined) return refuse('REQUEST_BROKEN', 'the request cannot be read')
  if (!isStrong(key)) {
    return refuse(
      'REQUEST_KEY',
      'the key must be RSA of at least 2048 bits, ECDSA on a NIST curve from P-256 on, or Ed25519'
    )
  }
  if (!(await isOwn(request))) {
    return refuse('REQUEST_SIGNATURE', 'the request is not signed by the key that it holds')
  }
  return { ok: true, publicKey: request.publicKey }
}

function parse(der: Buffer): library.Pkcs10CertificateRequest | undefined {
  try {
    return new library.Pkcs10CertificateRequest(new Uint8Array(der))
  } catch {
    // The parser marks malformed bytes by its message only.
    return undefined
  }
}

function importKey({ publicKey }: library.Pkcs10CertificateRequest): KeyObject | undefined {
  try {
    return createPublicKey({ key: Buffer.from(publicKey.rawData), format: 'der', type: 'spki' })
  } catch {
    // Every way in which OpenSSL refuses the bytes means the same here.
    return undefined
  }
}

function isStrong({ asymmetricKeyType: type, asymmetricKeyDetails: details }: KeyObject): boolean {
  if (type === 'rsa') return (details?.modulusLength ?? 0) >= FEWEST_RSA_BITS
  return type === 'ed25519' || (type === 'ec' && CURVES.includes(details?.namedCurve ?? ''))
}

async function isOwn(request: library.Pkcs10CertificateRequest): Promise<boolean> {
  try {
    return await request.verify()
  } catch {
    // An algorithm that does not fit the key.
    return false
  }
}

/** Authority that signs: its subject, and its ECDSA key in PEM. */
interface Signer {
  readonly subject: string
  readonly key: string
}

/**
 * Creates a certificate in PEM for TLS clients (RFC 5280), signed by `authority`. `subject`: a distinguished name. Only the
 * key comes from the request: names in it are claims. Rejects if the authority's key is invalid.
 */
export async function signClientCertificate(
  { publicKey }: CertificateRequest,
  subject: string,
  { now, life }: Validity,
  authority: Signer
): Promise<string> {
  const certificate = await library.X509CertificateGenerator.create({
    subject,
    issuer: authority.subject,
    publicKey,
    signingKey: await readSigningKey(authority.key),
    signingAlgorithm: SIGNING_ALGORITHM,
    notBefore: new Date(now),
    notAfter: new Date(now + life),
    extensions: [
      new library.BasicConstraintsExtension(false, undefined, true),
      new library.KeyUsagesExtension(library.KeyUsageFlags.digitalSignature, true),
      new library.ExtendedKeyUsageExtension([library.ExtendedKeyUsage.clientAuth])
    ]
  })
  return `${certificate.toString('pem')}\n`
}
