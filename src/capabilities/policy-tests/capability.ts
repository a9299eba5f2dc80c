import { defineCapability } from '../../app/capability.js'
import { POLICY_TESTS } from '../../app/ports.js'
import { firewallOf } from '../explain/running-lab.js'
import { policyTesting, policyTestRuns } from './stored-tests.js'

/** Runs the tests of policies that are written. */
export const policyTests = defineCapability({
  name: 'policy-tests',
  stages: {
    ruled({ opened, policies: { geo, services } }) {
      const parts = { geo, firewall: firewallOf(services) }
      opened.put(POLICY_TESTS, { testing: policyTesting(parts), runs: policyTestRuns(parts) })
    }
  }
})
