import t from 'tap'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecFront } from '../../src/transport/http1/server.js'
import { engineSuite } from './conformance.js'

engineSuite(t, 'codec', (parts) => ({ front: codecFront(parts), back: codecBack(parts) }))
