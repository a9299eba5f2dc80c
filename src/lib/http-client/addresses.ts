import { type Address, CidrSet, parseAddress, parseCidr } from '../ip.js'

/**
 * Networks outside the public internet: the special-purpose registries of RFC 6890 for IPv4, and further networks of the machine's
 * environment. IPv4-mapped addresses count as IPv4 addresses.
 */
const NOT_PUBLIC_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  // Metadata service address of a large cloud.
  '168.63.129.16/32'
]
/** Assigned unicast space. */
const PUBLIC_V6 = ['2000::/3']
/** Networks in it that are no destination: protocol assignments, documentation, 6to4. */
const NOT_PUBLIC_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']
/** RFC 6052: the last 32 bits are the IPv4 address behind a translator. */
const TRANSLATED = ['64:ff9b::/96']

/** Addresses of cloud metadata services, which reveal credentials, in addition to the link-local ones. */
const METADATA = ['168.63.129.16/32', '100.100.100.200/32', 'fd00:ec2::254/128', 'fd20:ce::254/128']
/** Link-local networks (RFC 3927, RFC 4291 2.5.6). */
const LINK_LOCAL = ['169.254.0.0/16', 'fe80::/10']

const notPublic = setOf([...NOT_PUBLIC_V4, ...NOT_PUBLIC_V6])
const publicV6 = setOf(PUBLIC_V6)
const translated = setOf(TRANSLATED)
const linkLocal = setOf([...LINK_LOCAL, ...METADATA])

/** Returns whether the text is an address on the public internet; false for other texts and for an address with a zone. */
export function isPublicAddress(text: string): boolean {
  const address = parseAddress(text)
  return address !== undefined && isPublic(address)
}

/** Returns whether the text is a link-local address, with or without a zone, or the address of a cloud metadata service. */
export function isLinkLocal(text: string): boolean {
  const zone = text.indexOf('%')
  const address = parseAddress(zone === -1 ? text : text.slice(0, zone))
  if (address === undefined) return false
  const [, , , last] = address
  const meant: Address = last !== undefined && translated.matchAddress(address) !== undefined ? [last] : address
  return linkLocal.matchAddress(meant) !== undefined
}

function isPublic(address: Address): boolean {
  if (address.length === 1) return notPublic.matchAddress(address) === undefined
  if (translated.matchAddress(address) !== undefined) return isPublic([address[3]])
  return publicV6.matchAddress(address) !== undefined && notPublic.matchAddress(address) === undefined
}

function setOf(networks: readonly string[]): CidrSet {
  return new CidrSet(networks.flatMap((network) => parseCidr(network) ?? []))
}
