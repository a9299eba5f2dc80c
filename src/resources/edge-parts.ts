import {
  type ModuleConfigs,
  type PolicyUnit,
  policyKey,
  type SecretReference,
  type Unit,
  upstreamKey
} from '../runtime/plan.js'
import { text, texts } from '../schema/fields.js'
import { refusalOfTcpHost } from '../schema/formats.js'
import { module, type RuleView } from '../schema/objects.js'
import { ref, refs, type Target } from '../schema/references.js'
import { certificateAuthority } from './certificates.js'
import { pathOf } from './present.js'
import type { Resource } from './resource.js'
import { type PlannedRecord, secretAt } from './units.js'

/** Returns the field with the pairs that an edge serves. */
export function hostportsField(description: string) {
  return texts({
    description,
    item: 'A host and a port.',
    form: 'hostport',
    bytes: 300,
    max: 100,
    distinct: true,
    unique: 'hostport'
  })
}

/** Reports hosts that an edge cannot serve: on its own ports, or at TLS listeners, where clients name them. */
export function checkTcpHosts({ body, report }: RuleView, isNamed: boolean): void {
  for (const [index, hostport] of ((body.hostports ?? []) as readonly string[]).entries()) {
    const refusal = refusalOfTcpHost(hostport, isNamed)
    if (refusal !== undefined) report(`hostports[${index}]`, 'FIELD_INVALID', refusal)
  }
}

/** Returns the module that forwards traffic. `targets`: kinds of backends that can carry it. */
export function backendModule(targets: readonly Target[]) {
  return module('Where traffic goes.', { backend: ref(targets, { description: 'The backend.', required: true }) })
}

/** Returns the module that asks clients for a certificate. */
export function mutualTls() {
  return module('Asks clients for a certificate.', {
    certificate_authorities: refs(certificateAuthority, {
      description: 'Authorities whose certificates are taken.',
      required: true,
      min: 1,
      as: 'certificate_authority_ids'
    })
  })
}

/** Tests stored beside the policy. */
export const policyTests = text({
  description:
    'An extension of Sluice: tests of traffic_policy, a document as "sluice test" reads it, YAML or JSON. A write that changes the ' +
    'policy or its tests runs them first, and is refused when one fails. Without a policy they wait for one.',
  bytes: 256 * 1024
})

type ModuleBody = { readonly enabled: boolean } & Readonly<Record<string, unknown>>

/** Compiled modules of a record: configurations of the enabled ones, the upstream's key and the policy. */
interface PlannedModules {
  readonly modules: ModuleConfigs
  readonly upstream: { readonly upstream?: string }
  readonly units: readonly (readonly [key: string, unit: Unit])[]
}

/**
 * Plans the modules of a record. The backend becomes a key and the policy a separate unit; other modules are part of their owner's unit.
 * `policy`: members of that unit.
 */
export function plannedModules(
  resource: Resource,
  planned: PlannedRecord,
  policy: Pick<PolicyUnit, 'carrier'>
): PlannedModules {
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
      const unit: PolicyUnit = { kind: 'policy', owner: record.id, text: body.value as string, source, ...policy }
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
