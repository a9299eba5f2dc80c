import type { Flow } from '../flow/flow.js'
import { closeConnection, refuse, type Verdict } from '../flow/verdict.js'
import { judge } from '../lib/ip.js'
import { decisionCounters } from '../policy/services.js'
import { defineModule, type ModuleUnits } from './contract.js'

const RESTRICTED = refuse(403, 'IP_RESTRICTED')

/**
 * Lets a client pass only when the policies allow its address, all taken together: deny beats allow. Policies are looked up at
 * each step, so that a change of their rules leaves the routes alone; one that is gone allows nobody.
 */
export const ipRestriction = defineModule<{ ip_policies: readonly string[] }>(
  'ip_restriction',
  ({ ip_policies: ids }, { owner, services }) => {
    const counters = decisionCounters(services.meter, owner, 'ip_restriction', ['allow', 'deny'])
    const step =
      (refusal: Verdict) =>
      (flow: Flow, units: ModuleUnits): Verdict | undefined => {
        const { passes, network } = judge(
          ids.map((id) => units.ipPolicy(id)),
          flow.clientAddress
        )
        const decision = passes ? 'allow' : 'deny'
        counters[decision].inc()
        flow.publish('ip_policy', { decision, matched_cidr: network ?? '' })
        return passes ? undefined : refusal
      }
    return { request: step(RESTRICTED), connect: step(closeConnection) }
  }
)
