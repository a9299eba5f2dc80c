import { type BoundGroup, bindRoutes, type RouteGroup } from '../api/define-route.js'
import type { ControlPlane } from '../control/control-plane.js'
import type { Options } from '../options/options.js'
import type { Foundation } from './foundation.js'

/** The open stages of the kernel that capabilities build on. */
export interface Kernel {
  readonly options: Options
  readonly foundation: Foundation
  readonly control: ControlPlane
  /** Gathers the counts of the worker threads. */
  gather(of: { readonly limits: boolean }): Promise<void>
}

interface Definition<S> {
  readonly name: string
  /** Opens the service once the kernel is open, before the API listens. Register what a stop must close with `foundation.lifecycle`. */
  open(kernel: Kernel): S | Promise<S>
  /** Routes of the management API over the service. */
  readonly routes?: RouteGroup<S>
}

/** A capability of the server, with the type of its service hidden. */
export interface Capability {
  readonly name: string
  /** For the description of the API. */
  readonly routes: RouteGroup<never> | undefined
  /** Opens it; resolves with its routes. */
  open(kernel: Kernel): Promise<readonly BoundGroup[]>
}

/** Defines a capability: everything about it stands in one folder, and `src/capabilities/registry.ts` has one line for it. */
export function defineCapability<S>({ name, open, routes }: Definition<S>): Capability {
  return {
    name,
    routes,
    async open(kernel) {
      const service = await open(kernel)
      return routes === undefined ? [] : [bindRoutes(routes, service)]
    }
  }
}

/** Opens capabilities one after the other; resolves with their routes. */
export async function openCapabilities(capabilities: readonly Capability[], kernel: Kernel): Promise<BoundGroup[]> {
  const groups: BoundGroup[] = []
  for (const capability of capabilities) groups.push(...(await capability.open(kernel)))
  return groups
}
