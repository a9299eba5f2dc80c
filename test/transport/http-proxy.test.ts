import t from 'tap'
import { httpProxyBack } from '../../src/transport/http-proxy/client.js'
import { httpFront } from '../../src/transport/http-proxy/server.js'
import { engineSuite } from './conformance.js'

engineSuite(t, 'node:http and http-proxy', (parts) => ({ front: httpFront(parts), back: httpProxyBack(parts) }))
