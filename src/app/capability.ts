import type { CapabilityPage } from '../api/dashboard/dashboard.js'
import { type BoundGroup, bindRoutes, type RouteGroup } from '../api/define-route.js'
import type { ErrorTable } from '../lib/errors.js'
import type { Options } from '../options/options.js'
import type { Resource } from '../resources/resource.js'
import { type MetricFamily, registerFamily } from '../telemetry/metric-family.js'
import type { Controlled, Stages } from './stages.js'

/** The open stages of the kernel that services of capabilities build on. */
export interface Kernel extends Controlled {
  /** Gathers the counts of the worker threads. */
  gather(of?: { readonly limits: boolean }): Promise<void>
}

/** Titles of the groups of error codes in the reference, by the place where a reader meets the codes. */
export type ErrorGroupTitle =
  | 'Traffic'
  | 'Requests that Sluice makes itself'
  | 'Management API'
  | 'Policy documents'
  | 'Warnings of policy documents'
  | 'Site files'
  | 'Certificates and keys'
  | 'Certificates that are requested'
  | 'Start and store'
  | 'Agents'
  | 'Commands'

/** Error tables of a capability, by the group of the reference that lists them. */
export type CapabilityErrors = Readonly<Partial<Record<ErrorGroupTitle, readonly ErrorTable[]>>>

interface Definition<S> {
  readonly name: string
  /** False if the options switch it off: its service is not opened, and it has no routes, page and metrics. @default always on */
  enabled?(options: Options): boolean
  /** Its steps at the moments of a start. @default none */
  readonly stages?: Stages
  /** Opens the service of its routes and metrics, before the API listens. @default it has neither */
  open?(kernel: Kernel): S | Promise<S>
  /** Routes of the management API over the service. */
  readonly routes?: RouteGroup<S> | readonly RouteGroup<S>[]
  /** Error codes of its own, for the reference. */
  readonly errors?: CapabilityErrors
  /** Page of the dashboard: `page.js` in the folder of the capability. */
  readonly page?: CapabilityPage
  /** Metrics of its own, read from the service at each scrape. */
  readonly metrics?: readonly MetricFamily<S>[]
  /** Adds its fields to the described answers about a record. */
  readonly describesRecord?: DescribesRecord
}

/** Adds fields to the JSON Schema of a record in answers. */
export type DescribesRecord = (resource: Resource, schema: object) => object

/** A capability of the server, with the type of its service hidden. */
export interface Capability {
  readonly name: string
  /** Reads from the options whether it is on; undefined if it always is. */
  readonly enabled: ((options: Options) => boolean) | undefined
  readonly stages: Stages
  readonly describesRecord: DescribesRecord | undefined
  /** For the description of the API. */
  readonly routes: readonly RouteGroup<never>[]
  /** For the reference of error codes. */
  readonly errors: CapabilityErrors
  readonly page: CapabilityPage | undefined
  /** For the reference of metrics. */
  readonly metrics: readonly MetricFamily<never>[]
  /** Opens it; resolves with its routes. */
  open(kernel: Kernel): Promise<readonly BoundGroup[]>
}

/** Defines a capability: all its code is in one folder, and `src/capabilities/registry.ts` has one line for it. */
export function defineCapability<S = undefined>(definition: Definition<S>): Capability {
  const { name, stages = {}, routes = [], errors = {}, page, metrics = [], describesRecord } = definition
  const groups = [routes].flat() as readonly RouteGroup<S>[]
  return {
    name,
    stages,
    describesRecord,
    routes: groups,
    enabled: definition.enabled,
    errors,
    page,
    metrics,
    async open(kernel) {
      if (groups.length + metrics.length === 0 || definition.enabled?.(kernel.options) === false) return []
      if (definition.open === undefined) throw new RangeError(`the routes of ${name} have no service`)
      const service = await definition.open(kernel)
      for (const family of metrics) registerFamily(kernel.foundation.metrics.registry, family, () => service)
      return groups.map((group) => bindRoutes(group, service))
    }
  }
}

/** Returns the pages of capabilities in the dashboard, by the capability's name. `options`: undefined for those of all capabilities. */
export function pagesOf(
  capabilities: readonly Capability[],
  options: Options | undefined
): ReadonlyMap<string, CapabilityPage> {
  const on = capabilities.filter(({ enabled }) => options === undefined || enabled?.(options) !== false)
  return new Map(on.flatMap(({ name, page }) => (page === undefined ? [] : [[name, page]])))
}

/** Opens capabilities one after the other; resolves with their routes. */
export async function openCapabilities(capabilities: readonly Capability[], kernel: Kernel): Promise<BoundGroup[]> {
  const groups: BoundGroup[] = []
  for (const capability of capabilities) groups.push(...(await capability.open(kernel)))
  return groups
}

/** Returns the function that adds the fields of all capabilities to the described answers about a record. */
export function describing(capabilities: readonly Capability[]): DescribesRecord {
  const all = capabilities.flatMap(({ describesRecord }) => describesRecord ?? [])
  return (resource, schema) => all.reduce((described, describes) => describes(resource, described), schema)
}
