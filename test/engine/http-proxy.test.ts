import t from 'tap'
import { httpFront } from '../../src/transport/http-proxy/http-front.js'
import { httpProxyBack } from '../../src/transport/http-proxy/http-proxy-back.js'
import { engineSuite } from './conformance.js'

engineSuite(t, 'node:http and http-proxy', (parts) => ({ front: httpFront(parts), back: httpProxyBack(parts) }))
