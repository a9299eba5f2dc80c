import { didYouMean } from '../../../lib/suggest.js'
import type { TreeNode } from '../../../policy/tree.js'
import type { MapForm } from './form.js'

/** Terms of other programs, and their names here. */
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

/** Is a key missing, rather than misspelled? Unknown keys are reported instead. */
export function lacks(node: TreeNode, { fields }: MapForm): boolean {
  return node.kind === 'map' && node.entries.every(({ key }) => Object.hasOwn(fields, key))
}

/** Returns `; did you mean "x"?` for a key of another program or a misspelled one, or the empty text. */
export function meantKey(key: string, known: readonly string[]): string {
  const words = Object.hasOwn(SYNONYMS, key) ? (SYNONYMS[key] as readonly string[]) : []
  const word = words.find((one) => known.includes(one))
  return word === undefined ? didYouMean(key, known) : `; did you mean "${word}"?`
}
