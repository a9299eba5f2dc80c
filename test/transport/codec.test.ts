import t from 'tap'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { engineSuite } from './conformance.js'

engineSuite(t, 'codec', (parts) => ({ front: codecServerTransport(parts), back: codecBack(parts) }))
