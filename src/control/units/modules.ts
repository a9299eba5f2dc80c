import { pathOf } from '../../resources/present.js'
import type { Resource } from '../../resources/resource.js'
import { tcpEdge } from '../../resources/tcp-edge.js'
import type { ModuleConfigs, PolicyUnit, SecretReference, Unit } from '../../runtime/plan.js'
import { type PlannedRecord, policyKey, secretAt, upstreamKey } from './planned.js'

type ModuleBody = { readonly enabled: boolean } & Readonly<Record<string, unknown>>

/** What the modules of a record mean: configurations of the enabled ones, the key of where it forwards to, its policy. */
export interface PlannedModules {
  readonly modules: ModuleConfigs
  readonly upstream: { readonly upstream?: string }
  readonly units: readonly (readonly [key: string, unit: Unit])[]
}

/** A backend names the unit of its upstream and a policy is a unit of its own; other modules stand in their owner's unit. */
export function plannedModules(resource: Resource, planned: PlannedRecord): PlannedModules {
  const { record } = planned
  const modules: Record<string, unknown> = {}
  const units: [string, Unit][] = []
  let upstream: PlannedModules['upstream'] = {}
  for (const name of resource.modules) {
    const body = record.body[name] as ModuleBody | null | undefined
    if (body?.enabled !== true) continue
    if (name === 'backend') upstream = { upstream: upstreamKey(body.backend as string) }
    else if (name === 'traffic_policy') {
      const key = policyKey(record.id)
      const source = `${pathOf(resource, record)}/${name}`
      const carrier = resource.name === tcpEdge.name ? { carrier: 'tcp' as const } : {}
      const unit: PolicyUnit = { kind: 'policy', owner: record.id, text: body.value as string, source, ...carrier }
      units.push([key, unit])
      modules[name] = { policy: key }
    } else modules[name] = config(planned, name, body)
  }
  return { modules, upstream, units }
}

function config(planned: PlannedRecord, name: string, { enabled: _, ...body }: ModuleBody): object {
  const prefix = `${name}.`
  const secrets: Record<string, SecretReference> = {}
  for (const path of Object.keys(planned.record.secrets).sort()) {
    const reference = path.startsWith(prefix) ? secretAt(planned, path) : undefined
    if (reference !== undefined) secrets[path.slice(prefix.length)] = reference
  }
  return Object.keys(secrets).length === 0 ? body : { ...body, secrets }
}
