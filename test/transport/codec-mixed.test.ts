import t from 'tap'
import { httpProxyBack } from '../../src/transport/http-proxy/client.js'
import { httpFront } from '../../src/transport/http-proxy/server.js'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecFront } from '../../src/transport/http1/server.js'
import { engineSuite } from './conformance.js'

engineSuite(t, 'codec front, http-proxy back', (parts) => ({ front: codecFront(parts), back: httpProxyBack(parts) }))
engineSuite(t, 'node:http front, codec back', (parts) => ({ front: httpFront(parts), back: codecBack(parts) }))
