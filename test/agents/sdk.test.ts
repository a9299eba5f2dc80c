import t from 'tap'
import { engines } from '../helpers/sluice.js'
import { sdkAgent } from '../tunnel/sdk-agent.js'
import { runProductSuite } from './product-suite.js'

// An exit before the last test must not look like success.
t.plan(engines.length + 5)
runProductSuite(sdkAgent)

// Its threads outlive their sessions and would hold the process.
t.teardown(() => process.exit())
