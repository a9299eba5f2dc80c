import { ourAgent } from '../tunnel/our-agent.js'
import { runProductSuite } from './product-suite.js'

runProductSuite(ourAgent)
