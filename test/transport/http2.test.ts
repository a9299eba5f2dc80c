import { readFileSync } from 'node:fs'
import t from 'tap'
import { httpProxyBack } from '../../src/transport/http-proxy/client.js'
import { nodeServerTransport } from '../../src/transport/http-proxy/server.js'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { fixture } from '../helpers/files.js'
import { multiplexed } from './suite/multiplexed.js'

const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')
const h2 = { cert: at('upstream.crt'), key: at('upstream.key') }

t.test('HTTP/2 before the codec', async (t) =>
  multiplexed(t, (parts) => ({ front: codecServerTransport(parts), back: codecBack(parts), h2 }))
)
t.test('HTTP/2 before http-proxy', async (t) =>
  multiplexed(t, (parts) => ({ front: nodeServerTransport(parts), back: httpProxyBack(parts), h2 }))
)
