import { readFileSync } from 'node:fs'
import t from 'tap'
import { httpProxyBack } from '../../src/transport/http-proxy/client.js'
import { nodeServerTransport } from '../../src/transport/http-proxy/server.js'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { fixture } from '../helpers/files.js'
import { engineSuite } from './conformance.js'
import { handedOver } from './handed-over.js'
import type { Make } from './suite/harness.js'
import { multiplexed } from './suite/multiplexed.js'

const [major = 0] = process.versions.node.split('.').map(Number)
const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')
const identity = { cert: at('upstream.crt'), key: at('upstream.key') }

const codec: Make = (parts) => ({
  front: handedOver(codecServerTransport(parts), parts.clock),
  back: codecBack(parts)
})
const node: Make = (parts) => ({
  front: handedOver(nodeServerTransport(parts), parts.clock),
  back: httpProxyBack(parts)
})

if (major < 24) t.test('sockets are handed over', { skip: 'Node 24 or newer is needed' }, async () => undefined)
else
  for (const [name, make] of Object.entries({ codec, 'node:http': node })) {
    engineSuite(t, `${name} over sockets that were handed over`, make)
    engineSuite(t, `${name} over such sockets with TLS`, (parts) => ({ ...make(parts), secure: identity }))
    t.test(`HTTP/2 before ${name} over such sockets`, async (t) =>
      multiplexed(t, (parts) => ({ ...make(parts), h2: identity }))
    )
  }
