import { type Address, CidrSet, formatAddress, maskAddress, parseAddress, parseCidr } from '../../lib/ip.js'
import { EvaluationError } from '../expression.js'
import type { FunctionDefinition } from '../signatures.js'
import { failsWith } from './bounds.js'

/** RFC 1918. */
const PRIVATE = new CidrSet(
  ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'].flatMap((text) => {
    const cidr = parseCidr(text)
    return cidr === undefined ? [] : [cidr]
  })
)

function covers(address: Address, text: string): boolean {
  const cidr = parseCidr(text)
  if (cidr === undefined || cidr.network.length !== address.length) return false
  const masked = maskAddress(address, cidr.bits)
  return cidr.network.every((word, i) => word === masked[i])
}

function inCidrRange(text: string, cidr: string): boolean {
  const address = parseAddress(text)
  return address !== undefined && covers(address, cidr)
}

function inCidrRanges(text: string, cidrs: readonly string[]): boolean {
  const address = parseAddress(text)
  return address !== undefined && cidrs.some((cidr) => covers(address, cidr))
}

/** Ranges in a prefix tree. What is no CIDR holds no address. */
function prepareRanges(cidrs: readonly string[]): (text: string) => boolean {
  const set = new CidrSet(cidrs.flatMap((text) => parseCidr(text) ?? []))
  return (text) => set.match(text) !== undefined
}

function prepareRange(cidr: string): (text: string) => boolean {
  return prepareRanges([cidr])
}

const BAD_PREFIX = new EvaluationError(
  'failed',
  'ipPrefix(ip, v4, v6) takes an address, 0 to 32 bits and 0 to 128 bits'
)

/** The network of an address, as text: a key for all addresses of one client. */
function ipPrefix(text: string, v4: bigint, v6: bigint): string {
  const address = parseAddress(text)
  if (address === undefined || v4 < 0n || v4 > 32n || v6 < 0n || v6 > 128n) throw BAD_PREFIX
  const bits = Number(address.length === 1 ? v4 : v6)
  return `${formatAddress(maskAddress(address, bits))}/${bits}`
}

/** A range of the source that holds no address: a typo that would let all of them through, or none. */
function refusesRange(_address: unknown, cidr: string | undefined): string | undefined {
  return cidr === undefined || parseCidr(cidr) !== undefined ? undefined : NO_RANGE
}

function refusesRanges(_address: unknown, cidrs: readonly string[] | undefined): string | undefined {
  return cidrs?.every((cidr) => parseCidr(cidr) !== undefined) === false ? NO_RANGE : undefined
}

const NO_RANGE = 'a range is written as 10.0.0.0/8 or 2001:db8::/32; nothing lies in what is none'

/** Functions of IP addresses. What is no address or no CIDR lies in no range. */
export const ipFunctions: readonly FunctionDefinition[] = [
  ...['inCidrRange(string, string): bool', 'string.inCidrRange(string): bool'].map((signature) => ({
    signature,
    run: inCidrRange,
    prepare: prepareRange,
    refuses: refusesRange
  })),
  ...['inCidrRanges(string, list<string>): bool', 'string.inCidrRanges(list<string>): bool'].map((signature) => ({
    signature,
    run: inCidrRanges,
    prepare: prepareRanges,
    refuses: refusesRanges
  })),
  {
    signature: 'string.isPrivateIp(): bool',
    run: (text: string) => PRIVATE.match(text) !== undefined
  },
  { signature: 'isPrivateIp(string): bool', run: (text: string) => PRIVATE.match(text) !== undefined },
  { signature: 'ipPrefix(string, int, int): string', run: ipPrefix, refuses: failsWith(ipPrefix, ['::', 32n, 64n]) }
]
