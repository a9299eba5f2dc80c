import { PHASES } from '../flow/flow.js'
import type { Span } from '../lib/positions.js'
import { suggest } from '../lib/suggest.js'
import { formatPath, type NodePath } from './problems.js'
import { child, type MapEntry, type MapNode, type TreeNode } from './tree.js'

/** A policy inside a file of another program. */
interface EmbeddedPolicy {
  readonly path: NodePath
  readonly span: Span
}

/** Former phase names also occur as keys of other documents. */
const isPhase = ({ key, value }: MapEntry) =>
  (PHASES as readonly string[]).includes(key) || (/^(?:in|out)bound$/.test(key) && value.kind === 'list')
const PHASE_LINE = new RegExp(`^(?:${PHASES.join('|')}):`, 'm')
const DEEPEST = 8
const MOST = 3

/** Yields the policies inside a document, as maps of phases or as strings, in document order. */
function* policiesWithin(node: TreeNode, path: NodePath = []): Generator<EmbeddedPolicy> {
  if (path.length > DEEPEST) return
  if (node.kind === 'scalar' && PHASE_LINE.test(node.text)) yield { path, span: node.span }
  if (node.kind === 'list')
    for (const [index, item] of node.items.entries()) yield* policiesWithin(item, [...path, index])
  if (node.kind !== 'map') return
  if (node.entries.some(isPhase)) yield { path, span: node.span }
  else for (const { key, value } of node.entries) yield* policiesWithin(value, [...path, key])
}

/** A document of another program with its first policy. */
interface Carrier extends EmbeddedPolicy {
  /** Description of the document: "a Kubernetes manifest (ConfigMap)". */
  readonly what: string
  /** Description of its policies: "its part spec.policy". */
  readonly parts: string
}

/** Returns undefined if the document contains no policy; the path is empty if the document itself is one. */
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

/** Root keys of a site file, with names that other programs use for them. */
const SITE_KEYS: Readonly<Record<string, readonly string[]>> = {
  sites: ['hosts', 'servers', 'vhosts', 'virtual_hosts', 'virtualHosts', 'http', 'routers', 'routes', 'domains'],
  listeners: ['entryPoints', 'entrypoints', 'ports', 'binds'],
  backends: ['upstreams', 'services', 'clusters', 'loadBalancers']
}

/** Returns `; did you mean …?` for a root key of a policy that belongs in a site file, or an empty string. */
export function siteHint(key: string): string {
  const found = Object.entries(SITE_KEYS).find(([, others]) => others.includes(key))
  const near = found?.[0] ?? suggest(key, Object.keys(SITE_KEYS))
  return near === undefined ? '' : `; did you mean "${near}", as in a site file?`
}
