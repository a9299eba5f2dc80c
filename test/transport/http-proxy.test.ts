import t from 'tap'
import { httpProxyBack } from '../../src/transport/http-proxy/client.js'
import { nodeServerTransport } from '../../src/transport/http-proxy/server.js'
import { engineSuite } from './conformance.js'

engineSuite(t, 'node:http and http-proxy', (parts) => ({
  front: nodeServerTransport(parts),
  back: httpProxyBack(parts)
}))
