import type { Unit } from '../plan/plan.js'

/** What the options say about traffic, with the texts of the files they name. */
export interface FileConfiguration {
  readonly listen: { readonly host: string; readonly port: number }
  readonly upstream: { readonly protocol: 'http' | 'https'; readonly host: string; readonly port: number } | undefined
  /** PEM text. */
  readonly certificateAuthorities: string | undefined
  readonly policy: { readonly source: string; readonly text: string } | undefined
}

/** Owner of the policy that the options name: part of the identity of its counters. */
export const DEFAULT_ENTRY = 'default'

/** The units that belong to the process itself: its listener and the entry that takes every host no other edge claims. */
export function fileUnits(configuration: FileConfiguration): ReadonlyMap<string, Unit> {
  const { listen, upstream, certificateAuthorities, policy } = configuration
  const units = new Map<string, Unit>()
  units.set('listener:default', { kind: 'listener', name: DEFAULT_ENTRY, ...listen })
  if (upstream === undefined) return units
  units.set('upstream:default', {
    kind: 'upstream',
    ...upstream,
    ...(certificateAuthorities === undefined ? {} : { certificateAuthorities })
  })
  const policyKey = policy === undefined ? {} : { policy: 'policy:default' }
  if (policy !== undefined) units.set('policy:default', { kind: 'policy', owner: DEFAULT_ENTRY, ...policy })
  units.set('edge:default', {
    kind: 'edge',
    id: DEFAULT_ENTRY,
    hosts: ['*'],
    routes: [{ id: DEFAULT_ENTRY, match: 'prefix', path: '/', upstream: 'upstream:default', ...policyKey }],
    ...(policy === undefined ? {} : { connectPolicy: 'policy:default' })
  })
  return units
}
