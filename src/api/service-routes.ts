import { agentRoutes } from './agent-routes.js'
import type { Account } from './calls.js'
import type { RouteGroup } from './define-route.js'
import { policyRoutes } from './policy-routes.js'
import { processRoutes } from './process-routes.js'
import { revisionRoutes } from './revision-routes.js'
import { trafficRoutes } from './traffic-routes.js'

interface Service {
  readonly account: Account
  /** Scheme, host and port of the API as clients see it, without a slash at the end. */
  readonly baseUrl: () => string
}

/** Routes of the kernel beside those of resources, in the order of the description. */
export const serviceRoutes: readonly RouteGroup<Service>[] = [
  revisionRoutes,
  agentRoutes,
  trafficRoutes,
  processRoutes,
  policyRoutes
]
