import { Agent, createServer } from 'node:http'
import httpProxy from 'http-proxy'

/** http-proxy as its documentation shows it, with a keep-alive agent: what Sluice's first engine is measured against. */
const [port, upstream] = process.argv.slice(2).map(Number) as [number, number]
const proxy = httpProxy.createProxyServer({
  target: { host: '127.0.0.1', port: upstream, protocol: 'http:' } as never,
  agent: new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })
})
proxy.on('error', (_error, _request, response) => response.end())
createServer((request, response) => proxy.web(request, response)).listen(port, '127.0.0.1')
