import { atOnce, type Steps } from './slices.js'

/** An IP address as its 32-bit words: one for IPv4, four for IPv6. IPv4-mapped IPv6 addresses are IPv4. */
export type Address = readonly [number] | readonly [number, number, number, number]

/** A network: host bits are zero. `text` is the canonical form `address/bits`. */
export interface Cidr {
  readonly network: Address
  readonly bits: number
  readonly text: string
}

/**
 * Parses an address strictly: dotted decimal with four parts and no leading zeros (no octal and no short forms), or IPv6 (RFC 4291 2.2)
 * without zone. `::ffff:192.0.2.1` yields the IPv4 address.
 */
export function parseAddress(text: string): Address | undefined {
  if (!text.includes(':')) {
    const word = parseV4(text, 0)
    return word === undefined ? undefined : [word]
  }
  const words = parseV6(text)
  if (words === undefined) return undefined
  if (words[0] === 0 && words[1] === 0 && words[2] === 0xffff) return [words[3]]
  return words
}

/** Cache of the last result: the requests of one connection have the same peer. */
let last = { text: '', canonical: '' }

/** Returns the canonical text of an address: RFC 5952, IPv4-mapped as IPv4, without zone. Other text is returned unchanged. */
export function canonicalAddress(text: string): string {
  if (!text.includes(':')) return text
  if (text !== last.text) {
    const zone = text.indexOf('%')
    const address = parseAddress(zone === -1 ? text : text.slice(0, zone))
    last = { text, canonical: address === undefined ? text : formatAddress(address) }
  }
  return last.canonical
}

/** Parses `address/bits`, or an address as a network of one. Host bits are masked. */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf('/')
  const address = parseAddress(slash === -1 ? text : text.slice(0, slash))
  if (address === undefined) return undefined
  const width = address.length * 32
  let bits = width
  if (slash !== -1) {
    const digits = text.slice(slash + 1)
    if (!/^(0|[1-9]\d{0,2})$/.test(digits)) return undefined
    bits = Number(digits)
    // The prefix of a mapped address counts from the start of its IPv6 form.
    if (address.length === 1 && text.includes(':')) bits -= 96
    if (bits < 0 || bits > width) return undefined
  }
  const network = maskAddress(address, bits)
  return { network, bits, text: `${formatAddress(network)}/${bits}` }
}

/** Sets all but the first `bits` bits of `address` to zero. */
export function maskAddress(address: Address, bits: number): Address {
  if (address.length === 1) return [(address[0] & maskOf(bits)) >>> 0]
  const [a, b, c, d] = address
  return [
    (a & maskOf(bits)) >>> 0,
    (b & maskOf(bits - 32)) >>> 0,
    (c & maskOf(bits - 64)) >>> 0,
    (d & maskOf(bits - 96)) >>> 0
  ]
}

/** Formats as dotted decimal, or in the form of RFC 5952. */
export function formatAddress(address: Address): string {
  if (address.length === 1) return formatV4(address[0])
  const groups = address.flatMap((word) => [word >>> 16, word & 0xffff])
  let start = -1
  let length = 1
  for (let i = 0; i < 8; i++) {
    let end = i
    while (end < 8 && groups[end] === 0) end++
    if (end - i > length) {
      start = i
      length = end - i
    }
    i = Math.max(i, end - 1)
  }
  const hex = (part: readonly number[]) => part.map((group) => group.toString(16)).join(':')
  return start === -1 ? hex(groups) : `${hex(groups.slice(0, start))}::${hex(groups.slice(start + length))}`
}

/**
 * A set of networks with longest-prefix lookup. Immutable: changes and lookups take as many steps as an address has bits, for any number of
 * networks. A network that was added twice must be dropped twice.
 */
export class CidrSet {
  #v4: PrefixNode | undefined
  #v6: PrefixNode | undefined
  #size = 0

  constructor(networks: Iterable<Cidr>) {
    for (const cidr of networks) this.#add(cidr)
  }

  /** Number of added networks, including duplicates. */
  get size(): number {
    return this.#size
  }

  /** Returns the set without the networks of `drop` and with those of `put`. */
  with(put: Iterable<Cidr>, drop: Iterable<Cidr> = []): CidrSet {
    return atOnce(this.editing(put, drop))
  }

  /** Adds networks in steps. */
  *editing(put: Iterable<Cidr>, drop: Iterable<Cidr> = []): Steps<CidrSet> {
    const set = new CidrSet([])
    set.#v4 = this.#v4
    set.#v6 = this.#v6
    set.#size = this.#size
    for (const cidr of drop) {
      set.#remove(cidr)
      yield
    }
    for (const cidr of put) {
      set.#add(cidr)
      yield
    }
    return set
  }

  /** Returns the canonical text of the longest matching network; undefined without a match or for an invalid address. */
  match(address: string): string | undefined {
    const parsed = parseAddress(address)
    return parsed === undefined ? undefined : this.matchAddress(parsed)
  }

  matchAddress(address: Address): string | undefined {
    return longestMatch(address.length === 1 ? this.#v4 : this.#v6, address)
  }

  #add(cidr: Cidr): void {
    if (cidr.network.length === 1) this.#v4 = added(this.#v4, cidr)
    else this.#v6 = added(this.#v6, cidr)
    this.#size++
  }

  #remove(cidr: Cidr): void {
    const [v4, v6] = [this.#v4, this.#v6]
    if (cidr.network.length === 1) this.#v4 = removed(v4, cidr)
    else this.#v6 = removed(v6, cidr)
    if (this.#v4 !== v4 || this.#v6 !== v6) this.#size--
  }
}

/** Returns a mask of the upper `bits` of a word; `bits` is clamped to 0..32. */
function maskOf(bits: number): number {
  return bits <= 0 ? 0 : bits >= 32 ? -1 : -1 << (32 - bits)
}

function formatV4(word: number): string {
  return `${word >>> 24}.${(word >>> 16) & 255}.${(word >>> 8) & 255}.${word & 255}`
}

/** Parses the dotted quad from `start` to the end of `text`. */
function parseV4(text: string, start: number): number | undefined {
  let word = 0
  let part = -1
  let parts = 0
  for (let i = start; i <= text.length; i++) {
    const code = text.charCodeAt(i)
    if (code >= 0x30 && code <= 0x39) {
      if (part === 0) return undefined
      part = (part === -1 ? 0 : part * 10) + code - 0x30
      if (part > 255) return undefined
    } else if ((code === 0x2e && parts < 3) || i === text.length) {
      if (part === -1) return undefined
      word = word * 256 + part
      part = -1
      parts++
    } else return undefined
  }
  return parts === 4 ? word : undefined
}

function parseV6(text: string): readonly [number, number, number, number] | undefined {
  if (text.length > 45) return undefined
  const gap = text.indexOf('::')
  if (gap !== -1 && text.indexOf('::', gap + 1) !== -1) return undefined
  const head = groupsOf(gap === -1 ? text : text.slice(0, gap), gap === -1)
  const tail = gap === -1 ? [] : groupsOf(text.slice(gap + 2), true)
  if (head === undefined || tail === undefined) return undefined
  const missing = 8 - head.length - tail.length
  if (gap === -1 ? missing !== 0 : missing < 1) return undefined
  for (let i = 0; i < missing; i++) head.push(0)
  const g = [...head, ...tail] as [number, number, number, number, number, number, number, number]
  return [g[0] * 65536 + g[1], g[2] * 65536 + g[3], g[4] * 65536 + g[5], g[6] * 65536 + g[7]]
}

/** Parses the 16-bit groups of one side of `::`; the last may be a dotted quad at the end of the address. */
function groupsOf(text: string, last: boolean): number[] | undefined {
  if (text === '') return []
  const groups: number[] = []
  const parts = text.split(':')
  for (const [i, part] of parts.entries()) {
    if (last && i === parts.length - 1 && part.includes('.')) {
      const word = parseV4(part, 0)
      if (word === undefined) return undefined
      groups.push(word >>> 16, word & 0xffff)
    } else {
      if (!/^[0-9A-Fa-f]{1,4}$/.test(part)) return undefined
      groups.push(Number.parseInt(part, 16))
    }
  }
  return groups
}

/** Allowed and denied networks. */
export interface AddressRules {
  readonly allow: CidrSet
  readonly deny: CidrSet
}

export interface Judgement {
  readonly passes: boolean
  /** Canonical text of the deciding network; undefined if none contains the address. */
  readonly network: string | undefined
}

const REFUSED: Judgement = { passes: false, network: undefined }

/**
 * Returns whether all rules together allow `address`. Deny overrides allow; addresses without an allowing rule and invalid addresses are
 * denied. Missing rules (undefined) allow nothing.
 */
export function judge(rules: readonly (AddressRules | undefined)[], address: string | undefined): Judgement {
  const parsed = address === undefined ? undefined : parseAddress(address)
  if (parsed === undefined) return REFUSED
  let allowed: string | undefined
  for (const one of rules) {
    const denied = one?.deny.matchAddress(parsed)
    if (denied !== undefined) return { passes: false, network: denied }
    allowed ??= one?.allow.matchAddress(parsed)
  }
  return allowed === undefined ? REFUSED : { passes: true, network: allowed }
}

/** Bits of an address or network from the highest, 32 per word; all words are below 2^32. */
type Words = readonly number[]

interface Prefix {
  readonly network: Words
  /** Length of the prefix of `network`. */
  readonly bits: number
  /** Text returned by a lookup. */
  readonly text: string
}

/**
 * A persistent binary tree of bit prefixes in which every node has a prefix or branches ("path-compressed trie"). An edit copies the nodes
 * on one path down, at most as many as the key has bits; the previous tree is unchanged. A lookup follows one path down. A class, so that
 * all nodes have one shape and lookups stay fast.
 */
class PrefixNode implements Prefix {
  readonly network: Words
  readonly bits: number
  readonly text: string
  /** Number of times that the prefix was added; 0 for a node that only branches. */
  readonly count: number
  readonly zero: PrefixNode | undefined
  readonly one: PrefixNode | undefined

  constructor({ network, bits, text }: Prefix, count: number, zero?: PrefixNode, one?: PrefixNode) {
    this.network = network
    this.bits = bits
    this.text = text
    this.count = count
    this.zero = zero
    this.one = one
  }
}

/** Returns the text of the longest prefix of `address`, which has as many words as all prefixes of the tree. */
function longestMatch(tree: PrefixNode | undefined, address: Words): string | undefined {
  const width = address.length * 32
  let found: string | undefined
  let node = tree
  while (node !== undefined && commonBits(node.network, address) >= node.bits) {
    if (node.count > 0) found = node.text
    if (node.bits === width) break
    node = bitAt(address, node.bits) === 0 ? node.zero : node.one
  }
  return found
}

/** Returns the tree with one more of this prefix. */
function added(tree: PrefixNode | undefined, prefix: Prefix): PrefixNode {
  if (tree === undefined) return new PrefixNode(prefix, 1)
  const { network, bits } = prefix
  const shared = Math.min(commonBits(tree.network, network), tree.bits, bits)
  const { zero, one } = tree
  if (shared === tree.bits) {
    if (shared === bits) return new PrefixNode(prefix, tree.count + 1, zero, one)
    return bitAt(network, shared) === 0
      ? new PrefixNode(tree, tree.count, added(zero, prefix), one)
      : new PrefixNode(tree, tree.count, zero, added(one, prefix))
  }
  const below = bitAt(tree.network, shared) === 0
  if (shared === bits) return below ? new PrefixNode(prefix, 1, tree) : new PrefixNode(prefix, 1, undefined, tree)
  const leaf = new PrefixNode(prefix, 1)
  const parting = { network, bits: shared, text: '' }
  return below ? new PrefixNode(parting, 0, tree, leaf) : new PrefixNode(parting, 0, leaf, tree)
}

/** Returns the tree with one less of this prefix; the same tree without it. */
function removed(tree: PrefixNode | undefined, prefix: Prefix): PrefixNode | undefined {
  const { network, bits } = prefix
  if (tree === undefined || tree.bits > bits || commonBits(tree.network, network) < tree.bits) return tree
  const { zero, one, count } = tree
  if (tree.bits === bits) return count === 0 ? tree : kept(tree, count - 1, zero, one)
  if (bitAt(network, tree.bits) === 0) {
    const next = removed(zero, prefix)
    return next === zero ? tree : kept(tree, count, next, one)
  }
  const next = removed(one, prefix)
  return next === one ? tree : kept(tree, count, zero, next)
}

/** Returns the changed node, or its remainder if it is empty and does not branch. */
function kept(
  node: Prefix,
  count: number,
  zero: PrefixNode | undefined,
  one: PrefixNode | undefined
): PrefixNode | undefined {
  if (count > 0 || (zero !== undefined && one !== undefined)) return new PrefixNode(node, count, zero, one)
  return zero ?? one
}

function commonBits(a: Words, b: Words): number {
  for (let i = 0; i < a.length; i++) {
    const different = (a[i] as number) ^ (b[i] as number)
    if (different !== 0) return i * 32 + Math.clz32(different)
  }
  return a.length * 32
}

function bitAt(words: Words, index: number): number {
  return ((words[index >>> 5] as number) >>> (31 - (index & 31))) & 1
}
