import { createHash, createHmac } from 'node:crypto'
import type { DeclaredRecord } from '../../../control/declared-records.js'
import { addUnits, type DerivedUnits } from '../../../control/units.js'
import { backendKinds } from '../../../resources/backends.js'
import { named, OF_FIELDS } from '../../../runtime/names.js'
import { policyKey, type RouteUnit, type Unit } from '../../../runtime/plan.js'
import type { PartUnits } from './site-memory.js'
import type { SitePolicy } from './sites.js'

const VERSION_BYTES = 6
/** Kinds of records whose key in the file is their name; sites and routes are named by host and path. */
const BACKENDS: ReadonlySet<string> = new Set(backendKinds)

/** Records of a site file, with further data for their units. */
interface UnitSources {
  readonly records: readonly DeclaredRecord[]
  /** Policies of whole sites. */
  readonly policies: readonly SitePolicy[]
  /** Returns the name of an owner's policy in messages. */
  readonly sourceOf: (owner: string) => string | undefined
  /** The site file as messages name it. */
  readonly source: string
  /** See `SiteFileInput.versionKey`. */
  readonly versionKey: Uint8Array
}

/** Returns the units of records, their secret values, and a digest for each label. */
export function unitsOf({ records, policies, sourceOf, source, versionKey }: UnitSources): PartUnits {
  const all: DerivedUnits = { units: new Map(), secrets: new Map() }
  const labels = new Map<string, string>()
  const routes = new Map<string, string[]>()
  for (const { record, label, name } of records) {
    const one: DerivedUnits = { units: new Map(), secrets: all.secrets }
    const [key] = BACKENDS.has(record.kind) ? name : []
    addUnits(one, { record, revision: versionOf(record.secrets, versionKey), ...named(key) })
    for (const [key, unit] of one.units) {
      if (!all.units.has(key)) labels.set(key, label)
      all.units.set(key, unit.kind === 'policy' ? { ...unit, source: sourceOf(unit.owner) ?? unit.source } : unit)
      if (unit.kind === 'route') routes.set(unit.edge, [...(routes.get(unit.edge) ?? []), key])
    }
  }
  for (const policy of policies) {
    addFieldPolicies(all, policy, labels, source)
    const { edge, text } = policy
    if (text === undefined) continue
    const key = policyKey(edge)
    all.units.set(key, { kind: 'policy', owner: edge, text, source: sourceOf(edge) ?? source })
    labels.set(key, labels.get(`edge:${edge}`) ?? '')
    for (const route of routes.get(edge) ?? []) {
      all.units.set(route, withSitePolicy(all.units.get(route) as RouteUnit, edge))
    }
  }
  return { units: [...all.units], secrets: all.secrets, contents: [...digests(all.units, labels)] }
}

/** Adds the policies from fields of routes, after each route's own policy. */
function addFieldPolicies(
  all: DerivedUnits,
  { routes }: SitePolicy,
  labels: Map<string, string>,
  source: string
): void {
  for (const [id, text] of routes) {
    const owner = `${id}${OF_FIELDS}`
    const routeKey = `route:${id}`
    const route = all.units.get(routeKey)
    if (route?.kind !== 'route') continue
    all.units.set(policyKey(owner), { kind: 'policy', owner, text, source })
    labels.set(policyKey(owner), labels.get(routeKey) ?? '')
    const { traffic_policy: own, ...modules } = route.modules
    const policies = [...(own === undefined ? [] : [own].flat()), { policy: policyKey(owner) }]
    all.units.set(routeKey, { ...route, modules: { ...modules, traffic_policy: policies } })
  }
}

/** Returns a version that distinguishes secret values without revealing them; 0 for none. */
function versionOf(secrets: DeclaredRecord['record']['secrets'], key: Uint8Array): number {
  const text = JSON.stringify(secrets)
  return text === '{}' ? 0 : createHmac('sha256', key).update(text).digest().readUIntBE(0, VERSION_BYTES)
}

/** The policy of the site comes before the route's own. */
function withSitePolicy(route: RouteUnit, edge: string): RouteUnit {
  const { traffic_policy: own, ...modules } = route.modules
  const policies = [{ policy: policyKey(edge) }, ...(own === undefined ? [] : [own].flat())]
  return { ...route, modules: { ...modules, traffic_policy: policies } }
}

/** Returns the digests, which are independent of the positions of policies. */
function digests(units: ReadonlyMap<string, Unit>, labels: ReadonlyMap<string, string>): Map<string, string> {
  const texts = new Map<string, string>()
  for (const [key, unit] of units) {
    const label = labels.get(key) ?? key
    const meaning = unit.kind === 'policy' ? { ...unit, source: '' } : unit
    texts.set(label, `${texts.get(label) ?? ''}${key} ${JSON.stringify(meaning)}\n`)
  }
  return new Map([...texts].map(([label, text]) => [label, createHash('sha256').update(text).digest('hex')]))
}

/** Returns the units with moved positions of policies. */
export function movedUnits(units: PartUnits, sourceOf: (owner: string) => string | undefined): PartUnits {
  const moved = units.units.map(([key, unit]): readonly [string, Unit] => {
    const source = unit.kind === 'policy' ? sourceOf(unit.owner) : undefined
    return [key, unit.kind === 'policy' && source !== undefined ? { ...unit, source } : unit]
  })
  return { ...units, units: moved }
}
