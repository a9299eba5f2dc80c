import { isDeepStrictEqual } from 'node:util'
import type { ShardedMap } from '../lib/sharded-map.js'
import { Passes, type Steps } from '../lib/slices.js'
import { failoverBackends, httpResponseBackends, tunnelGroups, weightedBackends } from '../resources/backends.js'
import { certificateAuthorities, reservedDomains, tlsCertificates } from '../resources/domains.js'
import { httpsEdges, httpsRoutes, tcpEdges } from '../resources/edges.js'
import { cloudEndpoints } from '../resources/endpoints.js'
import { fileBackends } from '../resources/file-backend.js'
import { ipPolicies, ipRestrictions, ipRules } from '../resources/ip-policies.js'
import { staticBackends } from '../resources/static-backend.js'
import { tlsEdges } from '../resources/tls-edges.js'
import { type PlannedKind, type PlannedRecord, secretName } from '../resources/units.js'
import { vaultSecrets, vaults } from '../resources/vaults.js'
import type { SecretValues, Unit } from '../runtime/plan.js'

/** All kinds of records that affect traffic. */
const plannedKinds: readonly PlannedKind[] = [
  vaults,
  vaultSecrets,
  ipPolicies,
  ipRules,
  ipRestrictions,
  certificateAuthorities,
  tlsCertificates,
  reservedDomains,
  staticBackends,
  httpResponseBackends,
  fileBackends,
  tunnelGroups,
  weightedBackends,
  failoverBackends,
  httpsEdges,
  httpsRoutes,
  tcpEdges,
  tlsEdges,
  cloudEndpoints
]

/** A record after a write; `after` is undefined if it was deleted. */
export interface Touched {
  readonly kind: string
  readonly id: string
  readonly after: PlannedRecord | undefined
}

/** Units that a write changes, and their secret values. */
export interface Derived {
  readonly put: readonly (readonly [key: string, unit: Unit])[]
  readonly drop: readonly string[]
  readonly secrets: SecretValues
}

/** The units of records and the values that they refer to. */
export interface DerivedUnits {
  readonly units: Map<string, Unit>
  readonly secrets: Map<string, string>
}

const KINDS: ReadonlyMap<string, PlannedKind> = new Map(plannedKinds.map((planned) => [planned.kind, planned]))

/** The kinds of records that traffic depends on. */
export const PLANNED_KINDS: readonly string[] = [...KINDS.keys()]

/** Adds the units of one record to the whole. */
export function addUnits({ units, secrets }: DerivedUnits, one: PlannedRecord): void {
  for (const [key, unit] of KINDS.get(one.record.kind)?.units(one) ?? []) units.set(key, unit)
  noteSecrets(one, secrets)
}

/** Derives changed units from changed records, in steps. Its cost depends on the change only. `running`: units of the previous plan. */
export function* deriving(running: ShardedMap<Unit>, touched: readonly Touched[]): Steps<Derived> {
  const units = new Map<string, Unit | undefined>()
  const secrets = new Map<string, string>()
  for (const { kind, id, after } of touched) {
    yield
    const planned = KINDS.get(kind)
    if (planned === undefined) continue
    for (const key of planned.keys(id)) units.set(key, undefined)
    if (after === undefined) continue
    for (const [key, unit] of planned.units(after)) units.set(key, unit)
    noteSecrets(after, secrets)
  }
  const put: [string, Unit][] = []
  const drop: string[] = []
  const passes = new Passes()
  for (const [key, unit] of units) {
    if (passes.due()) yield
    const before = running.get(key)
    if (unit === undefined) {
      if (before !== undefined) drop.push(key)
    } else if (!isDeepStrictEqual(before, unit)) put.push([key, unit])
  }
  return { put, drop, secrets }
}

function noteSecrets({ record }: PlannedRecord, secrets: Map<string, string>): void {
  for (const [path, value] of Object.entries(record.secrets)) secrets.set(secretName(record, path), value)
}
