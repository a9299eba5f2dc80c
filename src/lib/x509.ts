import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
// The library below fails without it.
import 'reflect-metadata'
import { createSecureContext } from 'node:tls'
import * as library from '@peculiar/x509'
import { CodedError, codeOf, defineErrors } from './errors.js'
import { readOptionFile } from './files.js'

type KeyType = 'rsa' | 'ecdsa' | 'ed25519'

/** Subject of a certificate. Missing texts are ''. */
interface CertificateSubject {
  readonly commonName: string
  readonly organization: string
  readonly organizationalUnit: string
  readonly locality: string
  readonly province: string
  readonly country: string
}

/** Data of a certificate. Missing texts are '' and missing lists are empty. */
interface CertificateFacts extends CertificateSubject {
  readonly issuerCommonName: string
  /** Lower-case hexadecimal digits, an even number. */
  readonly serialNumber: string
  /** Milliseconds since the Unix epoch. */
  readonly notBefore: number
  readonly notAfter: number
  /** Names of RFC 5280 4.2.1.3, in its order. */
  readonly keyUsages: readonly string[]
  /** Names of RFC 5280 4.2.1.12, otherwise a dotted OID. */
  readonly extendedKeyUsages: readonly string[]
  readonly dnsNames: readonly string[]
  readonly ips: readonly string[]
  readonly keyType: KeyType
  /** Basic Constraints allow it to sign certificates (RFC 5280 4.2.1.9). */
  readonly isAuthority: boolean
}

/** Reasons to reject a PEM text; `reason` in the API's details. */
export const x509Errors = defineErrors({
  CERTIFICATE_MISSING: {
    text: 'The text holds no PEM block.',
    help: 'Give the text of the certificate file, from -----BEGIN to -----END.'
  },
  CERTIFICATE_IS_KEY: {
    text: 'A private key stands where the certificate belongs.',
    help: 'Exchange the two texts.'
  },
  CERTIFICATE_BROKEN: {
    text: 'A certificate cannot be read.',
    help: 'Copy the file again; openssl x509 -in FILE -text must be able to read it.'
  },
  CERTIFICATE_UNUSABLE: {
    text: 'OpenSSL does not take the certificate and its key for TLS.',
    help: 'Make a new certificate with SHA-256 and an RSA key of at least 2048 bits or an ECDSA key.'
  },
  CERTIFICATE_KEY_TYPE: {
    text: 'The key of the certificate is neither RSA nor ECDSA nor Ed25519.',
    help: 'Use a certificate with such a key.'
  },
  PEM_INVALID: {
    text: 'A PEM block does not end as it begins, or holds characters that are not base64.',
    help: 'Copy the whole file again, with its line breaks.'
  },
  PEM_HEADERS: {
    text: 'A PEM block has headers.',
    help: 'Convert the file with openssl to a form without headers and without encryption.'
  },
  PEM_LABEL: {
    text: 'A PEM block of another kind than the expected one.',
    help: 'Leave only CERTIFICATE blocks in a chain, and one PRIVATE KEY block in a key.'
  },
  CHAIN_ORDER: {
    text: 'A certificate of the chain was not issued by the one after it.',
    help: 'Put the certificate of the server first, then each issuer.'
  },
  CRL_MISSING: {
    text: 'The text holds no revocation list.',
    help: 'Give the text of the file, from -----BEGIN X509 CRL----- to its end.'
  },
  CRL_BROKEN: {
    text: 'A revocation list cannot be read.',
    help: 'Copy the file again; openssl crl -in FILE -text must be able to read it.'
  },
  CRL_ISSUER: {
    text: 'A revocation list is not by an authority of this record, or its signature is wrong.',
    help: 'Give the list of the authority that stands in this record.'
  },
  CRL_PARTIAL: {
    text: 'A revocation list covers only a part of the certificates of its authority.',
    help: 'Give the complete list.'
  },
  TOO_LONG: { text: 'The text is too long.', help: 'Leave out what is not needed, such as root certificates.' },
  KEY_MISSING: {
    text: 'The text holds no PEM block where a private key belongs.',
    help: 'Give the text of the key file, from -----BEGIN to -----END.'
  },
  KEY_IS_CERTIFICATE: {
    text: 'A certificate stands where the private key belongs.',
    help: 'Exchange the two texts.'
  },
  KEY_ENCRYPTED: {
    text: 'The private key is encrypted.',
    help: 'Remove the passphrase, for example with openssl pkey; Sluice seals the key itself.'
  },
  KEY_BROKEN: {
    text: 'The private key cannot be read.',
    help: 'Copy the file again; openssl pkey -in FILE must be able to read it.'
  },
  KEY_TYPE: { text: 'The key is neither RSA nor ECDSA nor Ed25519.', help: 'Use such a key.' },
  KEY_MISMATCH: {
    text: 'The private key does not belong to the first certificate.',
    help: 'Give the key that the certificate was requested with.'
  }
})

type X509Problem = keyof typeof x509Errors

export interface X509Refusal {
  readonly ok: false
  readonly code: X509Problem
  /** Contains nothing of the text. */
  readonly message: string
}

export interface CertificateChain {
  readonly ok: true
  /** Leaf first. */
  readonly certificates: readonly X509Certificate[]
  readonly leaf: CertificateFacts
}

interface PemBlock {
  readonly label: string
  readonly text: string
  readonly content: string
}

/** Maximum length of a chain or key in UTF-16 units. */
export const MAX_PEM = 64 * 1024
/** Maximum length of trusted authorities in UTF-16 units: a system's bundle has 200 KiB. */
const MAX_BUNDLE = 1024 * 1024

const BEGIN = /^-----BEGIN ([A-Z0-9 ]{1,40})-----$/
const STRAY_BOUNDARY = 'a boundary must stand on a line of its own, from its first character'
/** Key usages by bit, RFC 5280 4.2.1.3. */
const USAGES = [
  'digitalSignature',
  'contentCommitment',
  'keyEncipherment',
  'dataEncipherment',
  'keyAgreement',
  'keyCertSign',
  'cRLSign',
  'encipherOnly',
  'decipherOnly'
] as const
const EXTENDED_USAGES: Readonly<Record<string, string>> = {
  '1.3.6.1.5.5.7.3.1': 'serverAuth',
  '1.3.6.1.5.5.7.3.2': 'clientAuth',
  '1.3.6.1.5.5.7.3.3': 'codeSigning',
  '1.3.6.1.5.5.7.3.4': 'emailProtection',
  '1.3.6.1.5.5.7.3.8': 'timeStamping',
  '1.3.6.1.5.5.7.3.9': 'OCSPSigning',
  '2.5.29.37.0': 'anyExtendedKeyUsage'
}

export const refuse = (code: X509Problem, message: string): X509Refusal => ({ ok: false, code, message })

/** Reads a PEM bundle (RFC 7468), leaf first, each certificate followed by its issuer. Does not check the validity period. */
export function readChain(pem: string): CertificateChain | X509Refusal {
  const certificates = readCertificates(pem, MAX_PEM)
  if (!Array.isArray(certificates)) return certificates
  const unordered = certificates.findIndex((one, index) => {
    const issuer = certificates[index + 1]
    return issuer !== undefined && !(one.checkIssued(issuer) && one.verify(issuer.publicKey))
  })
  if (unordered !== -1) {
    return refuse(
      'CHAIN_ORDER',
      `certificate ${unordered + 2} did not sign certificate ${unordered + 1}; the leaf comes first`
    )
  }
  return withFacts(certificates)
}

/** Reads the certificates of a PEM text of at most `most` UTF-16 units without other content. */
function readCertificates(pem: string, most: number): X509Certificate[] | X509Refusal {
  const blocks = readBlocks(pem, 'CERTIFICATE_MISSING', most)
  if (!Array.isArray(blocks)) return blocks
  const certificates: X509Certificate[] = []
  for (const [index, { label, text }] of blocks.entries()) {
    if (label.endsWith('PRIVATE KEY')) {
      return refuse('CERTIFICATE_IS_KEY', 'a private key stands where the certificate belongs')
    }
    if (label !== 'CERTIFICATE') return refuse('PEM_LABEL', `must hold CERTIFICATE blocks only, not ${label}`)
    const certificate = parse(text)
    if (certificate === undefined) return refuse('CERTIFICATE_BROKEN', `certificate ${index + 1} cannot be read`)
    certificates.push(certificate)
  }
  return certificates
}

function withFacts(certificates: readonly X509Certificate[]): CertificateChain | X509Refusal {
  const leaf = certificates[0] as X509Certificate
  const keyType = keyTypeOf(leaf.publicKey)
  if (keyType === undefined) return refuse('CERTIFICATE_KEY_TYPE', 'the key must be RSA, ECDSA or Ed25519')
  const facts = factsOf(leaf, keyType)
  return facts === undefined
    ? refuse('CERTIFICATE_BROKEN', 'certificate 1 has a field that cannot be read')
    : { ok: true, certificates, leaf: facts }
}

/**
 * Returns a certificate's id for renewal information (RFC 9773 4.1): its issuer's key identifier and its serial number, both base64url.
 * Undefined if it does not name its issuer's key, or is unreadable.
 */
export function renewalIdOf(certificate: X509Certificate): string | undefined {
  try {
    const parsed = new library.X509Certificate(new Uint8Array(certificate.raw))
    const issuer = parsed.getExtension(library.AuthorityKeyIdentifierExtension)?.keyId ?? ''
    // The octets of a DER INTEGER: one more where the first bit would make it negative.
    const digits = certificate.serialNumber
    const serial = Number.parseInt(digits[0] ?? '0', 16) >= 8 ? `00${digits}` : digits
    if (issuer === '' || serial === '') return undefined
    return [issuer, serial].map((hex) => Buffer.from(hex, 'hex').toString('base64url')).join('.')
  } catch {
    // The parser marks malformed bytes by its message only.
    return undefined
  }
}

/**
 * Does this text hold the private key of the first of `certificates`, unencrypted, as PKCS #8, PKCS #1 or SEC 1, and does OpenSSL take both for TLS?
 * Undefined when all is well.
 */
export function checkPrivateKey(pem: string, certificates: readonly X509Certificate[]): X509Refusal | undefined {
  const blocks = readBlocks(pem, 'KEY_MISSING')
  if (!Array.isArray(blocks)) return /^Proc-Type:.*ENCRYPTED/m.test(pem) ? ENCRYPTED : blocks
  // OpenSSL writes the parameters of a curve before its key.
  const keys = blocks.filter(({ label }) => label !== 'EC PARAMETERS')
  const [block] = keys
  if (block?.label === 'CERTIFICATE') {
    return refuse('KEY_IS_CERTIFICATE', 'a certificate stands where the private key belongs')
  }
  if (block?.label === 'ENCRYPTED PRIVATE KEY') return ENCRYPTED
  if (block === undefined || keys.length > 1 || !block.label.endsWith('PRIVATE KEY')) {
    return refuse('PEM_LABEL', 'must hold one PRIVATE KEY block')
  }
  const key = parseKey(block.text)
  if (key === undefined) return refuse('KEY_BROKEN', 'the private key cannot be read')
  if (keyTypeOf(key) === undefined) return refuse('KEY_TYPE', 'the key must be RSA, ECDSA or Ed25519')
  if (certificates[0]?.checkPrivateKey(key) !== true) {
    return refuse('KEY_MISMATCH', 'the private key does not belong to the first certificate')
  }
  try {
    createSecureContext({ cert: certificates.join(''), key: block.text })
    return undefined
  } catch (error) {
    // The reason of OpenSSL, such as "ee key too small", holds nothing of the text.
    return refuse('CERTIFICATE_UNUSABLE', `OpenSSL refuses it for TLS: ${codeOf(error) ?? 'no reason given'}`)
  }
}

const ENCRYPTED = refuse('KEY_ENCRYPTED', 'the private key must not be encrypted')

/**
 * Reads the PEM blocks of a text (RFC 7468) as strictly as OpenSSL: a boundary is a whole line. `missing`: the problem of a text without any,
 * `most`: its longest text in UTF-16 units.
 */
export function readBlocks(pem: string, missing: X509Problem, most = MAX_PEM): PemBlock[] | X509Refusal {
  if (pem.length > most) return refuse('TOO_LONG', `must not be longer than ${most} characters`)
  const blocks: PemBlock[] = []
  let open: { readonly label: string; readonly line: number; content: string } | undefined
  for (const [index, whole] of pem.split('\n').entries()) {
    const text = whole.trimEnd()
    const at = `line ${index + 1}: `
    if (open === undefined) {
      const label = BEGIN.exec(text)?.[1]
      if (label !== undefined) open = { label, line: index + 1, content: '' }
      else if (text.includes('-----')) return refuse('PEM_INVALID', `${at}${STRAY_BOUNDARY}`)
    } else if (text === `-----END ${open.label}-----`) {
      const { label, content } = open
      blocks.push({ label, content, text: `-----BEGIN ${label}-----\n${content}${text}\n` })
      open = undefined
    } else if (text.includes('-----')) {
      return refuse(
        'PEM_INVALID',
        `${at}the block of line ${open.line} must end with a line -----END ${open.label}-----`
      )
    } else if (text.includes(':')) return refuse('PEM_HEADERS', `${at}PEM headers are not allowed`)
    else if (!/^[A-Za-z0-9+/=\s]*$/.test(text)) {
      return refuse('PEM_INVALID', `${at}a PEM block holds characters that are not base64`)
    } else open.content += `${text}\n`
  }
  if (open !== undefined)
    return refuse('PEM_INVALID', `the block of line ${open.line} has no line -----END ${open.label}-----`)
  return blocks.length === 0 ? refuse(missing, 'must be in PEM format') : blocks
}

/** Reads the authorities that a peer's certificate is checked against: certificates in PEM in any order, roots or intermediate ones. */
export function readAuthorities(pem: string): readonly X509Certificate[] | X509Refusal {
  return readCertificates(pem, MAX_BUNDLE)
}

/** The PEM text of the authorities in a file that an option names. Fails with `FILE_UNREADABLE`, or with why its text is refused. */
export async function readAuthorityFile(path: string, option: string): Promise<string> {
  const pem = await readOptionFile(path, option)
  const read = readAuthorities(pem)
  if ('ok' in read) throw new CodedError(x509Errors[read.code], `${option}: ${path}: ${read.message}`)
  return pem
}

function parse(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem)
  } catch {
    // Every way in which OpenSSL refuses the bytes means the same here.
    return undefined
  }
}

function parseKey(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem)
  } catch {
    // As with certificates; the message could hold parts of the key.
    return undefined
  }
}

function keyTypeOf(key: KeyObject): KeyType | undefined {
  switch (key.asymmetricKeyType) {
    case 'rsa':
    case 'rsa-pss':
      return 'rsa'
    case 'ec':
      return 'ecdsa'
    case 'ed25519':
      return 'ed25519'
    default:
      return undefined
  }
}

/** Returns the facts of a certificate; undefined if the bytes of an extension are malformed, which OpenSSL reads later than here. */
function factsOf(certificate: X509Certificate, keyType: KeyType): CertificateFacts | undefined {
  try {
    const parsed = new library.X509Certificate(new Uint8Array(certificate.raw))
    const subject = parsed.subjectName
    const usages = parsed.getExtension(library.KeyUsagesExtension)?.usages ?? 0
    const names = parsed.getExtension(library.SubjectAlternativeNameExtension)?.names.items ?? []
    const extended = parsed.getExtension(library.ExtendedKeyUsageExtension)?.usages ?? []
    return {
      commonName: field(subject, 'CN'),
      organization: field(subject, 'O'),
      organizationalUnit: field(subject, 'OU'),
      locality: field(subject, 'L'),
      province: field(subject, 'ST'),
      country: field(subject, 'C'),
      issuerCommonName: field(parsed.issuerName, 'CN'),
      serialNumber: certificate.serialNumber.toLowerCase(),
      notBefore: parsed.notBefore.getTime(),
      notAfter: parsed.notAfter.getTime(),
      keyUsages: USAGES.filter((_, bit) => (usages & (1 << bit)) !== 0),
      extendedKeyUsages: extended.map((oid) => EXTENDED_USAGES[String(oid)] ?? String(oid)),
      dnsNames: names.filter(({ type }) => type === 'dns').map(({ value }) => value),
      ips: names.filter(({ type }) => type === 'ip').map(({ value }) => value),
      keyType,
      isAuthority: certificate.ca
    }
  } catch {
    // The parser marks malformed bytes by its message only.
    return undefined
  }
}

function field(name: library.Name, short: string): string {
  return name.getField(short)[0] ?? ''
}
