import { runPhase } from '../policy/run.js'
import type { ModuleDefinition } from './contract.js'

/** Runs the route's traffic policy. The policy is found by key at each step, so that a changed policy leaves its routes alone. */
export const trafficPolicy: ModuleDefinition = {
  name: 'traffic_policy',
  compile({ policy: key }) {
    if (key === undefined) return undefined
    return {
      name: 'traffic_policy',
      request(flow, units) {
        const phase = units.policy(key)?.phases.on_http_request
        return phase ? runPhase(phase, flow) : undefined
      },
      response(flow, units) {
        const phase = units.policy(key)?.phases.on_http_response
        return phase ? runPhase(phase, flow) : undefined
      }
    }
  }
}
