import { runAgentSuite } from './agent-suite.js'
import { ourAgent } from './our-agent.js'

runAgentSuite(ourAgent)
