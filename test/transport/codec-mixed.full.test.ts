import t from 'tap'
import { httpProxyBack } from '../../src/transport/http-proxy/client.js'
import { nodeServerTransport } from '../../src/transport/http-proxy/server.js'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { engineSuite } from './conformance.js'

engineSuite(t, 'codec front, http-proxy back', (parts) => ({
  front: codecServerTransport(parts),
  back: httpProxyBack(parts)
}))
engineSuite(t, 'node:http front, codec back', (parts) => ({
  front: nodeServerTransport(parts),
  back: codecBack(parts)
}))
