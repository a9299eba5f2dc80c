import { defineCapability } from '../../app/capability.js'
import { POLICY_TESTS } from '../../app/ports.js'
import { policyTesting, policyTestRuns } from './stored-tests.js'

/** Runs the tests of policies that are written. */
export const policyTests = defineCapability({
  name: 'policy-tests',
  stages: {
    ruled({ opened, policies: { geo } }) {
      opened.put(POLICY_TESTS, { testing: policyTesting({ geo }), runs: policyTestRuns({ geo }) })
    }
  }
})
