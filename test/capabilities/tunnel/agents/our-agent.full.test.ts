import { ourAgent } from '../our-agent.js'
import { runProductSuite } from './product-suite.js'

runProductSuite(ourAgent)
