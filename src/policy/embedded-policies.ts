import { PHASES } from '../flow/flow.js'
import type { Span } from '../lib/positions.js'
import { suggest } from '../lib/suggest.js'
import { formatPath, type NodePath } from './problems.js'
import { child, type MapEntry, type MapNode, type TreeNode } from './tree.js'

/** A policy as a part of a file of another program. */
interface EmbeddedPolicy {
  readonly path: NodePath
  readonly span: Span
}

/** Old names of phases are words of other documents, too. */
const isPhase = ({ key, value }: MapEntry) =>
  (PHASES as readonly string[]).includes(key) || (/^(?:in|out)bound$/.test(key) && value.kind === 'list')
const PHASE_LINE = new RegExp(`^(?:${PHASES.join('|')}):`, 'm')
const DEEPEST = 8
const MOST = 3

/** The policies among the parts of a document, as maps of phases or as texts of them, in their order. */
function* policiesWithin(node: TreeNode, path: NodePath = []): Generator<EmbeddedPolicy> {
  if (path.length > DEEPEST) return
  if (node.kind === 'scalar' && PHASE_LINE.test(node.text)) yield { path, span: node.span }
  if (node.kind === 'list')
    for (const [index, item] of node.items.entries()) yield* policiesWithin(item, [...path, index])
  if (node.kind !== 'map') return
  if (node.entries.some(isPhase)) yield { path, span: node.span }
  else for (const { key, value } of node.entries) yield* policiesWithin(value, [...path, key])
}

/** Where a document of another program holds its first policy. */
interface Carrier extends EmbeddedPolicy {
  /** The document, in words: "a Kubernetes manifest (ConfigMap)". */
  readonly what: string
  /** The policies in it: "its part spec.policy". */
  readonly parts: string
}

/** Undefined when the document holds no policy; the path is empty when it is one itself. */
export function findEmbeddedPolicies(root: MapNode): Carrier | undefined {
  const found = [...policiesWithin(root)].slice(0, MOST)
  const [first] = found
  if (first === undefined) return undefined
  const paths = found.map(({ path }) => formatPath(path)).join(', ')
  return { ...first, what: describe(root), parts: `its ${found.length === 1 ? 'part' : 'parts'} ${paths}` }
}

function describe(root: MapNode): string {
  if (root.entries.some(isPhase)) return 'a traffic policy'
  const kind = child(root, 'kind')
  if (child(root, 'apiVersion') !== undefined && kind?.kind === 'scalar')
    return `a Kubernetes manifest (${kind.text.slice(0, 64)})`
  const isAgents = ['endpoints', 'tunnels'].some((key) => child(root, key) !== undefined)
  return isAgents ? 'the configuration file of an agent' : 'a document with a policy inside'
}

/** Keys at the root of a site file, with those of other programs for the same. */
const SITE_KEYS: Readonly<Record<string, readonly string[]>> = {
  sites: ['hosts', 'servers', 'vhosts', 'virtual_hosts', 'virtualHosts', 'http', 'routers', 'routes', 'domains'],
  listeners: ['entryPoints', 'entrypoints', 'ports', 'binds'],
  backends: ['upstreams', 'services', 'clusters', 'loadBalancers']
}

/** `; did you mean …?` for a key at the root of a policy that belongs into a site file, or nothing. */
export function siteHint(key: string): string {
  const found = Object.entries(SITE_KEYS).find(([, others]) => others.includes(key))
  const near = found?.[0] ?? suggest(key, Object.keys(SITE_KEYS))
  return near === undefined ? '' : `; did you mean "${near}", as in a site file?`
}
