import type { ModuleDefinition } from './contract.js'
import { trafficPolicy } from './traffic-policy.js'

/** Every module, in the order in which they see a request. */
export const modules: readonly ModuleDefinition[] = [trafficPolicy]
