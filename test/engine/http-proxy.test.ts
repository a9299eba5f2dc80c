import t from 'tap'
import { httpFront } from '../../src/engine/http-front/http-front.js'
import { httpProxyBack } from '../../src/engine/http-proxy/http-proxy-back.js'
import { engineSuite } from './conformance.js'

engineSuite(t, 'node:http and http-proxy', (parts) => ({ front: httpFront(parts), back: httpProxyBack(parts) }))
