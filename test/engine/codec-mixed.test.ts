import t from 'tap'
import { codecBack } from '../../src/engine/codec/codec-back.js'
import { codecFront } from '../../src/engine/codec/codec-front.js'
import { httpFront } from '../../src/engine/http-front/http-front.js'
import { httpProxyBack } from '../../src/engine/http-proxy/http-proxy-back.js'
import { engineSuite } from './conformance.js'

engineSuite(t, 'codec front, http-proxy back', (parts) => ({ front: codecFront(parts), back: httpProxyBack(parts) }))
engineSuite(t, 'node:http front, codec back', (parts) => ({ front: httpFront(parts), back: codecBack(parts) }))
