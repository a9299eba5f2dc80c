import type { CapabilityPage } from '../api/dashboard/dashboard.js'
import { type BoundGroup, bindRoutes, type RouteGroup } from '../api/define-route.js'
import type { ControlPlane } from '../control/control-plane.js'
import type { ErrorTable } from '../lib/errors.js'
import type { Options } from '../options/options.js'
import { type MetricFamily, registerFamily } from '../telemetry/metric-family.js'
import type { Foundation } from './foundation.js'
import type { OpenPolicyServices } from './server-services.js'

/** Names something that a stage of the kernel opens and a capability uses. */
export interface PartKey<T> {
  readonly name: string
  readonly '~type'?: T
}

/** Returns a key; its name is for messages alone. */
export function partKey<T>(name: string): PartKey<T> {
  return { name }
}

/** Parts of capabilities that stages of the kernel have opened. */
export class OpenedParts {
  readonly #parts = new Map<PartKey<unknown>, unknown>()

  put<T>(key: PartKey<T>, part: T): void {
    this.#parts.set(key, part)
  }

  /** Throws a RangeError when no stage has opened it. */
  get<T>(key: PartKey<T>): T {
    if (!this.#parts.has(key)) throw new RangeError(`no stage has opened ${key.name}`)
    return this.#parts.get(key) as T
  }
}

/** The open stages of the kernel that capabilities build on. */
export interface Kernel {
  readonly options: Options
  readonly foundation: Foundation
  readonly control: ControlPlane
  /** Services of policies. */
  readonly policies: OpenPolicyServices
  readonly opened: OpenedParts
  /** Gathers the counts of the worker threads. */
  gather(of: { readonly limits: boolean }): Promise<void>
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
  /** False if the options switch it off: it is not opened, and has no routes, page and metrics. @default always on */
  enabled?(options: Options): boolean
  /** Opens the service once the kernel is open, before the API listens. Register resources to close with `foundation.lifecycle`. */
  open(kernel: Kernel): S | Promise<S>
  /** Routes of the management API over the service. */
  readonly routes?: RouteGroup<S> | readonly RouteGroup<S>[]
  /** Error codes of its own, for the reference. */
  readonly errors?: CapabilityErrors
  /** Page of the dashboard: `page.js` in the folder of the capability. */
  readonly page?: CapabilityPage
  /** Metrics of its own, read from the service at each scrape. */
  readonly metrics?: readonly MetricFamily<S>[]
}

/** A capability of the server, with the type of its service hidden. */
export interface Capability {
  readonly name: string
  /** Undefined if it is always on. */
  readonly enabled: ((options: Options) => boolean) | undefined
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
export function defineCapability<S>(definition: Definition<S>): Capability {
  const { name, open, routes = [], errors = {}, page, metrics = [] } = definition
  const groups = [routes].flat() as readonly RouteGroup<S>[]
  return {
    name,
    routes: groups,
    enabled: definition.enabled,
    errors,
    page,
    metrics,
    async open(kernel) {
      if (definition.enabled?.(kernel.options) === false) return []
      const service = await open(kernel)
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
