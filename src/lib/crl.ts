import { constants, createHash, verify, type X509Certificate } from 'node:crypto'
import { childrenOf, type DerElement, readDer, readDerTime } from './der.js'
import { readAuthorities, readBlocks, refuse, type X509Refusal } from './x509.js'

/** Maximum length of revocation lists in UTF-16 units: some ten thousand certificates. */
export const MAX_CRL = 512 * 1024

/** Content of one authority's revocation lists. */
export interface Revocations {
  readonly ok: true
  /** Serial numbers of the certificates that are revoked: lower-case hexadecimal digits without zeros at the front, sorted. */
  readonly serials: readonly string[]
  /** Earliest time of the next list (ms since the Unix epoch); undefined if no list contains one. */
  readonly nextUpdate: number | undefined
}

/**
 * Reads the certificate revocation lists (RFC 5280 5) that `authority` has issued, one PEM block each; what one of them revokes
 * is revoked. Lists of other issuers and lists that hold for a part of the certificates only are refused, because what such a
 * list leaves out would pass. Whether a list is out of date is not judged: what it revokes stays revoked.
 */
export function readRevocations(pem: string, authority: X509Certificate): Revocations | X509Refusal {
  const blocks = readBlocks(pem, 'CRL_MISSING', MAX_CRL)
  if (!Array.isArray(blocks)) return blocks
  const serials = new Set<string>()
  let nextUpdate: number | undefined
  for (const [index, { label, content }] of blocks.entries()) {
    if (label !== 'X509 CRL') return refuse('PEM_LABEL', `must hold X509 CRL blocks only, not ${label}`)
    const read = readList(Buffer.from(content, 'base64'), authority, `list ${index + 1}`)
    if (!read.ok) return read
    for (const serial of read.serials) serials.add(serial)
    if (read.nextUpdate !== undefined) nextUpdate = Math.min(nextUpdate ?? read.nextUpdate, read.nextUpdate)
  }
  return { ok: true, serials: [...serials].sort(), nextUpdate }
}

function readList(der: Buffer, authority: X509Certificate, name: string): Revocations | X509Refusal {
  const [outer, ...more] = readDer(der) ?? []
  const [signed, method, signature, ...rest] = outer?.tag === SEQUENCE ? (childrenOf(outer) ?? []) : []
  if (signed === undefined || method === undefined || more.length + rest.length > 0) return broken(name)
  // The first byte counts unused bits: a signature has none.
  if (signature?.tag !== BIT_STRING || signature.content[0] !== 0) return broken(name)
  const list = readSigned(signed)
  // It stands twice, and only one of both is signed (5.1.1.2).
  if (list === undefined || !list.method.equals(method.whole)) return broken(name)
  const algorithm = algorithmOf(method)
  if (algorithm === undefined) return refuse('CRL_BROKEN', `${name} is signed by a method that is not known here`)
  if (
    !list.issuer.equals(subjectOf(authority)) ||
    !isSigned(signed.whole, signature.content.subarray(1), algorithm, authority)
  ) {
    return refuse('CRL_ISSUER', `${name} was not issued by this authority`)
  }
  // A delta, one of some distribution points, or one for other issuers says so in what must be understood (5.2.4, 5.2.5, 5.3.3).
  if (list.critical) {
    return refuse('CRL_PARTIAL', `${name} has a critical extension: only whole lists of the authority itself are taken`)
  }
  return { ok: true, serials: list.serials, nextUpdate: list.nextUpdate }
}

const broken = (name: string): X509Refusal => refuse('CRL_BROKEN', `${name} cannot be read`)

const INTEGER = 0x02
const BOOLEAN = 0x01
const BIT_STRING = 0x03
const SEQUENCE = 0x30
const TIMES: readonly (number | undefined)[] = [0x17, 0x18]
const EXTENSIONS = 0xa0

interface SignedList {
  /** DER of the AlgorithmIdentifier. */
  readonly method: Buffer
  /** DER. */
  readonly issuer: Buffer
  readonly nextUpdate: number | undefined
  readonly serials: readonly string[]
  /** The list or one of its entries has a critical extension. */
  readonly critical: boolean
}

/** TBSCertList (RFC 5280 5.1); undefined when it is none. What is read here decides who is let in, so nothing is skipped. */
function readSigned(element: DerElement): SignedList | undefined {
  const left = element.tag === SEQUENCE ? [...(childrenOf(element) ?? [])] : []
  const next = (fits: (tag: number | undefined) => boolean) => (fits(left[0]?.tag) ? left.shift() : undefined)
  const is = (wanted: number) => (tag: number | undefined) => tag === wanted
  const isTime = (tag: number | undefined) => TIMES.includes(tag)
  next(is(INTEGER))
  const [method, issuer, thisUpdate] = [next(is(SEQUENCE)), next(is(SEQUENCE)), next(isTime)]
  const [nextTime, revoked, extensions] = [next(isTime), next(is(SEQUENCE)), next(is(EXTENSIONS))]
  if (method === undefined || issuer === undefined || thisUpdate === undefined || left.length > 0) return undefined
  const entries = revoked === undefined ? [] : childrenOf(revoked)
  const nextUpdate = nextTime === undefined ? undefined : readDerTime(nextTime)
  let critical = extensions === undefined ? false : hasCritical(childrenOf(extensions)?.[0])
  if (entries === undefined || critical === undefined || Number.isNaN(nextUpdate)) return undefined
  const serials: string[] = []
  for (const entry of entries) {
    const [serial, since, about, ...rest] = childrenOf(entry) ?? []
    const marked = about === undefined ? false : hasCritical(about)
    if (serial?.tag !== INTEGER || !isTime(since?.tag) || marked === undefined || rest.length > 0) return undefined
    serials.push(normalSerial(Buffer.from(serial.content).toString('hex')))
    critical ||= marked
  }
  return { method: method.whole, issuer: issuer.whole, nextUpdate, serials, critical }
}

/** Is one of these extensions critical? Undefined when they are none. */
function hasCritical(extensions: DerElement | undefined): boolean | undefined {
  const found = extensions?.tag === SEQUENCE ? childrenOf(extensions) : undefined
  return found?.some((extension) => {
    const flag = childrenOf(extension)?.[1]
    return flag?.tag === BOOLEAN && flag.content[0] !== 0
  })
}

/** DER of the subject: behind version, serial number, algorithm, issuer and validity. */
function subjectOf({ raw }: X509Certificate): Buffer {
  const [certificate] = readDer(raw) ?? []
  const fields = childrenOf(childrenOf(certificate)?.[0]) ?? []
  const first = fields.findIndex(({ tag }) => tag === INTEGER)
  return fields[first + 4]?.whole ?? Buffer.alloc(0)
}

interface SignatureAlgorithm {
  /** Hash name for `verify`; null if the key determines it. */
  readonly hash: string | null
  readonly pss?: true
}

/** By the DER of the object identifier (RFC 4055 5, RFC 5758 3.2, RFC 8410 3), in hexadecimal digits. SHA-1 can be forged. */
const ALGORITHMS: ReadonlyMap<string, SignatureAlgorithm> = new Map([
  ['06092a864886f70d01010b', { hash: 'sha256' }],
  ['06092a864886f70d01010c', { hash: 'sha384' }],
  ['06092a864886f70d01010d', { hash: 'sha512' }],
  ['06082a8648ce3d040302', { hash: 'sha256' }],
  ['06082a8648ce3d040303', { hash: 'sha384' }],
  ['06082a8648ce3d040304', { hash: 'sha512' }],
  ['06032b6570', { hash: null }]
])
const RSA_PSS = '06092a864886f70d01010a'
const HASHES: ReadonlyMap<string, string> = new Map([
  ['0609608648016503040201', 'sha256'],
  ['0609608648016503040202', 'sha384'],
  ['0609608648016503040203', 'sha512']
])

function algorithmOf(method: DerElement): SignatureAlgorithm | undefined {
  const [identifier, parameters] = childrenOf(method) ?? []
  const name = hexadecimalOf(identifier)
  if (name !== RSA_PSS) return ALGORITHMS.get(name)
  // RSASSA-PSS-params: the hash stands first, in [0] (RFC 4055 3.1).
  const [first] = childrenOf(parameters) ?? []
  const [named] = childrenOf(childrenOf(first)?.[0]) ?? []
  const hash = first?.tag === 0xa0 ? HASHES.get(hexadecimalOf(named)) : undefined
  return hash === undefined ? undefined : { hash, pss: true }
}

function hexadecimalOf(element: DerElement | undefined): string {
  return element === undefined ? '' : element.whole.toString('hex')
}

function isSigned(
  signed: Buffer,
  signature: Buffer,
  { hash, pss }: SignatureAlgorithm,
  { publicKey: key }: X509Certificate
): boolean {
  const padded = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_AUTO }
  try {
    return verify(hash, signed, pss ? { key, ...padded } : key, signature)
  } catch {
    // The key is of another kind than the method.
    return false
  }
}

function normalSerial(hexadecimal: string): string {
  return hexadecimal.toLowerCase().replace(/^0+(?=.)/, '')
}

/** An authority for client certificates, with its revocations. */
export class ClientAuthority {
  readonly pem: string
  /** Identifies the authority's revocation list; undefined without one. */
  readonly listed: string | undefined
  readonly #serials: ReadonlySet<string>
  #certificates: readonly X509Certificate[] | undefined

  /** `pem`: one certificate, or several without a list. `revoked`: see `Revocations`; undefined without a list. */
  constructor(pem: string, revoked?: readonly string[]) {
    this.pem = pem
    this.#serials = new Set(revoked)
    this.listed =
      revoked === undefined ? undefined : createHash('sha256').update(pem).update(revoked.join()).digest('base64')
  }

  /** Returns whether the authority issued this certificate. */
  issued(certificate: X509Certificate): boolean {
    this.#certificates ??= certificatesIn(this.pem)
    return this.#certificates.some((own) => certificate.checkIssued(own) && certificate.verify(own.publicKey))
  }

  /** Returns whether the authority issued and revoked this certificate. */
  revokes(certificate: X509Certificate): boolean {
    return this.#serials.has(normalSerial(certificate.serialNumber)) && this.issued(certificate)
  }
}

function certificatesIn(pem: string): readonly X509Certificate[] {
  const read = readAuthorities(pem)
  return 'ok' in read ? [] : read
}

/** The revoked certificate; `issuer-not-shown`: an intermediate authority that was not sent could be revoked. */
export type Revoked = X509Certificate | 'issuer-not-shown'

/** Finds the revoked certificate in a client's chain, leaf first; undefined without one. */
export function findRevoked(
  authorities: readonly ClientAuthority[],
  shown: readonly X509Certificate[]
): Revoked | undefined {
  for (const certificate of shown) {
    if (authorities.some((authority) => authority.revokes(certificate))) return certificate
    if (authorities.some((authority) => authority.issued(certificate))) return undefined
  }
  return 'issuer-not-shown'
}
