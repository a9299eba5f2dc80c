import { didYouMean } from '../../../lib/suggest.js'
import type { TreeNode } from '../../../policy/tree.js'

/** Words of other programs, and what they are called here. */
const SYNONYMS: Readonly<Record<string, readonly string[]>> = {
  upstream: ['backend', 'backends'],
  upstreams: ['backends', 'servers', 'backend'],
  service: ['backend'],
  services: ['backends'],
  proxy_pass: ['backend'],
  reverse_proxy: ['backend'],
  url: ['servers'],
  target: ['servers', 'backend'],
  targets: ['servers'],
  paths: ['routes'],
  location: ['routes'],
  locations: ['routes'],
  server_name: ['hosts'],
  domains: ['hosts']
}

/** Is something missing in a map that no key of another name stands for? Keys that are not known are reported instead. */
export function lacks(node: TreeNode, known: readonly string[]): boolean {
  return node.kind === 'map' && node.entries.every(({ key }) => known.includes(key))
}

/** `; did you mean "x"?` for a key that is called so by another program or misspelled, or the empty text. */
export function meantKey(key: string, known: readonly string[]): string {
  const words = Object.hasOwn(SYNONYMS, key) ? (SYNONYMS[key] as readonly string[]) : []
  const word = words.find((one) => known.includes(one))
  return word === undefined ? didYouMean(key, known) : `; did you mean "${word}"?`
}
