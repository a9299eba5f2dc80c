import { childrenOf, type DerElement, readDer, readDerTime } from '../../lib/der.js'
import { formatAddress } from '../../lib/ip.js'

/** The elements inside a constructed element; none when they are malformed. */
function children(element: DerElement | undefined): readonly DerElement[] {
  return childrenOf(element) ?? []
}

/** Dotted text of an OBJECT IDENTIFIER. */
function oidText(content: Uint8Array): string {
  const parts: bigint[] = []
  let part = 0n
  for (const byte of content) {
    part = (part << 7n) | BigInt(byte & 0x7f)
    if (byte < 0x80) {
      parts.push(part)
      part = 0n
    }
  }
  const [first = 0n, ...rest] = parts
  const top = first < 80n ? first / 40n : 2n
  return [top, first - top * 40n, ...rest].join('.')
}

/** Text of a character string type: BMPString is UTF-16, T61String taken for Latin-1, all others UTF-8. */
function stringText({ tag, content }: DerElement): string {
  if (tag === 0x1e) {
    let text = ''
    for (let i = 0; i + 1 < content.length; i += 2) {
      text += String.fromCharCode((content[i] as number) * 256 + (content[i + 1] as number))
    }
    return text
  }
  return Buffer.from(content).toString(tag === 0x14 ? 'latin1' : 'utf8')
}

/** Instant of a UTCTime or GeneralizedTime; undefined when malformed. */
function timeValue(element: DerElement | undefined): Date | undefined {
  const at = element === undefined ? Number.NaN : readDerTime(element)
  return Number.isNaN(at) ? undefined : new Date(at)
}

/** A distinguished name. */
export interface Name {
  /** RFC 2253: most specific part first. */
  readonly text: string
  readonly commonName: string
  /** Values of the other attributes by their short name. */
  readonly values: Readonly<Record<NameAttribute, readonly string[]>>
}
type NameAttribute = 'C' | 'L' | 'O' | 'OU' | 'postalCode' | 'ST' | 'street'

/** Fields of a name that expressions see as lists, with their short names. */
export const NAME_ATTRIBUTES: Readonly<Record<string, NameAttribute>> = {
  country: 'C',
  locality: 'L',
  organization: 'O',
  organizational_unit: 'OU',
  postal_code: 'postalCode',
  province: 'ST',
  street_address: 'street'
}

/** Data of a certificate for expressions (RFC 5280). */
export interface Certificate {
  readonly pem: string
  /** Maps with the keys `id`, `critical`, `value`. */
  readonly extensions: readonly ReadonlyMap<string, unknown>[]
  readonly issuer: Name
  readonly subject: Name
  readonly san: string
  readonly dnsNames: readonly string[]
  readonly emailAddresses: readonly string[]
  readonly ipAddresses: readonly string[]
  readonly uris: readonly string[]
  /** Hexadecimal. */
  readonly serialNumber: string
  readonly signatureAlgorithm: string
  readonly notBefore: Date | undefined
  readonly notAfter: Date | undefined
}

const SHORT_NAMES: Readonly<Record<string, string>> = {
  '2.5.4.3': 'CN',
  '2.5.4.6': 'C',
  '2.5.4.7': 'L',
  '2.5.4.8': 'ST',
  '2.5.4.9': 'street',
  '2.5.4.10': 'O',
  '2.5.4.11': 'OU',
  '2.5.4.17': 'postalCode',
  '2.5.4.5': 'serialNumber',
  '0.9.2342.19200300.100.1.25': 'DC',
  '1.2.840.113549.1.9.1': 'emailAddress'
}

const ALGORITHMS: Readonly<Record<string, string>> = {
  '1.2.840.113549.1.1.4': 'MD5-RSA',
  '1.2.840.113549.1.1.5': 'SHA1-RSA',
  '1.2.840.113549.1.1.11': 'SHA256-RSA',
  '1.2.840.113549.1.1.12': 'SHA384-RSA',
  '1.2.840.113549.1.1.13': 'SHA512-RSA',
  '1.2.840.113549.1.1.10': 'RSA-PSS',
  '1.2.840.10045.4.1': 'ECDSA-SHA1',
  '1.2.840.10045.4.3.2': 'ECDSA-SHA256',
  '1.2.840.10045.4.3.3': 'ECDSA-SHA384',
  '1.2.840.10045.4.3.4': 'ECDSA-SHA512',
  '1.3.101.112': 'Ed25519'
}

const SUBJECT_ALTERNATIVE_NAME = '2.5.29.17'

/** Parses a DER certificate; undefined when it is none. */
export function parseCertificate(der: Uint8Array): Certificate | undefined {
  const [outer] = readDer(der) ?? []
  const [body, algorithm] = children(outer)
  const fields = [...children(body)]
  // The version is optional and has a tag of its own.
  if (fields[0]?.tag === 0xa0) fields.shift()
  const [serial, , issuer, validity, subject] = fields
  if (serial === undefined || issuer === undefined || validity === undefined || subject === undefined) return undefined
  const [notBefore, notAfter] = children(validity)
  const [oid] = children(algorithm)
  const name = oid === undefined ? '' : oidText(oid.content)
  const extensions = children(children(fields.find(({ tag }) => tag === 0xa3))[0]).map(extension)
  return {
    pem: pemText(der),
    extensions,
    issuer: parseName(issuer),
    subject: parseName(subject),
    ...alternativeNames(extensions.find((one) => one.get('id') === SUBJECT_ALTERNATIVE_NAME)),
    serialNumber: Buffer.from(serial.content)
      .toString('hex')
      .replace(/^(?:00)+(?=.)/, ''),
    signatureAlgorithm: ALGORITHMS[name] ?? name,
    notBefore: timeValue(notBefore),
    notAfter: timeValue(notAfter)
  }
}

function pemText(der: Uint8Array): string {
  const lines =
    Buffer.from(der)
      .toString('base64')
      .match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

function extension(element: DerElement): ReadonlyMap<string, unknown> {
  const parts = children(element)
  const id = parts[0] === undefined ? '' : oidText(parts[0].content)
  const critical = parts[1]?.tag === 0x01 && parts[1].content[0] !== 0
  return new Map<string, unknown>([
    ['id', id],
    ['critical', critical],
    ['value', new Uint8Array(parts.at(-1)?.content ?? [])]
  ])
}

function parseName(element: DerElement): Name {
  const values = { C: [], L: [], O: [], OU: [], postalCode: [], ST: [], street: [] } as Record<NameAttribute, string[]>
  const relative: string[] = []
  let commonName = ''
  for (const set of children(element)) {
    const parts = children(set).map((attribute) => {
      const [type, value] = children(attribute)
      const oid = type === undefined ? '' : oidText(type.content)
      const name = SHORT_NAMES[oid] ?? oid
      const text = value === undefined ? '' : stringText(value)
      if (name === 'CN') commonName = text
      else if (Object.hasOwn(values, name)) values[name as NameAttribute].push(text)
      return `${name}=${escapeName(text)}`
    })
    relative.push(parts.join('+'))
  }
  return { text: relative.reverse().join(','), commonName, values }
}

/** RFC 2253 2.4. */
function escapeName(text: string): string {
  return text
    .replace(/[,+"\\<>;]/g, '\\$&')
    .replace(/^[ #]/, '\\$&')
    .replace(/(.) $/, '$1\\ ')
}

function alternativeNames(found: ReadonlyMap<string, unknown> | undefined) {
  const names = {
    dnsNames: [] as string[],
    emailAddresses: [] as string[],
    ipAddresses: [] as string[],
    uris: [] as string[]
  }
  const shown: string[] = []
  const [list] = found === undefined ? [] : (readDer(found.get('value') as Uint8Array) ?? [])
  for (const { tag, content } of children(list)) {
    const text = Buffer.from(content).toString('latin1')
    if (tag === 0x81) shown.push(`email:${names.emailAddresses[names.emailAddresses.push(text) - 1]}`)
    else if (tag === 0x82) shown.push(`DNS:${names.dnsNames[names.dnsNames.push(text) - 1]}`)
    else if (tag === 0x86) shown.push(`URI:${names.uris[names.uris.push(text) - 1]}`)
    else if (tag === 0x87) {
      const address = addressText(content)
      names.ipAddresses.push(address)
      shown.push(`IP Address:${address}`)
    }
  }
  return { ...names, san: shown.join(', ') }
}

function addressText(bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (bytes.length === 4) return formatAddress([view.getUint32(0)])
  if (bytes.length !== 16) return ''
  return formatAddress([view.getUint32(0), view.getUint32(4), view.getUint32(8), view.getUint32(12)])
}
