/**
 * A persistent binary tree of bit prefixes with one child for each next bit, and no node that neither holds a prefix nor
 * parts two of them (the "path-compressed trie"). An edit copies the nodes on one way down, at most as many as the key
 * has bits; the tree before stays as it was. A lookup walks one way down.
 */

/** The bits of an address or network from the highest, 32 in each word; all words are below 2^32. */
export type Words = readonly number[]

export interface Prefix {
  readonly network: Words
  /** How many bits of `network` count. */
  readonly bits: number
  /** What a lookup answers. */
  readonly text: string
}

/** A class, so that all nodes have one shape and a walk stays fast. */
export class PrefixNode implements Prefix {
  readonly network: Words
  readonly bits: number
  readonly text: string
  /** How often the prefix was added; 0: the node only parts two ways. */
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

/** The text of the longest prefix that begins `address`, which has as many words as every prefix of the tree. */
export function longestMatch(tree: PrefixNode | undefined, address: Words): string | undefined {
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

/** The tree with one more of this prefix. */
export function added(tree: PrefixNode | undefined, prefix: Prefix): PrefixNode {
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

/** The tree with one less of this prefix; the same tree when it is not there. */
export function removed(tree: PrefixNode | undefined, prefix: Prefix): PrefixNode | undefined {
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

/** The node changed, or what is left when it then holds nothing and parts nothing. */
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
