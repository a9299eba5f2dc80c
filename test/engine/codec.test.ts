import t from 'tap'
import { codecBack } from '../../src/engine/codec/codec-back.js'
import { codecFront } from '../../src/engine/codec/codec-front.js'
import { engineSuite } from './conformance.js'

engineSuite(t, 'codec', (parts) => ({ front: codecFront(parts), back: codecBack(parts) }))
