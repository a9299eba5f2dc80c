import t from 'tap'
import { httpFront } from '../../src/transport/http-proxy/http-front.js'
import { httpProxyBack } from '../../src/transport/http-proxy/http-proxy-back.js'
import { codecBack } from '../../src/transport/http1/codec-back.js'
import { codecFront } from '../../src/transport/http1/codec-front.js'
import { engineSuite } from './conformance.js'

engineSuite(t, 'codec front, http-proxy back', (parts) => ({ front: codecFront(parts), back: httpProxyBack(parts) }))
engineSuite(t, 'node:http front, codec back', (parts) => ({ front: httpFront(parts), back: codecBack(parts) }))
