import { once } from 'node:events'
import { connect, createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { create, site } from '../helpers/account.js'
import { type Engine, type RunningSluice, startSluice } from '../helpers/sluice.js'
import { ask } from '../transport/http2-client.js'
import { onEngines } from './engines.js'
import { ask as ask1, field } from './peers.js'

/** How upstreams and clients of the field behave, where the specifications leave room for it. */

const HOST = 'two.test'

/** An upstream of HTTP/2 in clear text. */
async function http2Server(t: Test, serve: (stream: ServerHttp2Stream) => void): Promise<Http2Server> {
  const server = createServer()
  const sessions = new Set<{ destroy(): void }>()
  server.on('session', (session) => sessions.add(session))
  server.on('stream', (stream) => {
    stream.on('error', () => undefined)
    serve(stream)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const session of sessions) session.destroy()
  })
  return server
}

/** The product in front of it. */
async function before(t: Test, engine: Engine, server: Http2Server, route: object = {}): Promise<RunningSluice> {
  const sluice = await startSluice(t, { engine })
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const { id } = await create(sluice, '/backends/static', { address, http2: true })
  await site(sluice, HOST, { backend: { backend_id: id }, ...route })
  return sluice
}

function session(t: Test, sluice: RunningSluice) {
  const client = connect(`http://127.0.0.1:${sluice.port}`)
  client.on('error', () => undefined)
  t.teardown(() => client.destroy())
  return client
}

onEngines('trailers pass behind a length that an upstream of HTTP/2 states', async (t, engine) => {
  let asked = ''
  const server = await http2Server(t, (stream) => {
    const content = asked === 'empty' ? '' : '\0\0\0\0\x02ok'
    stream.respond(
      { ':status': 200, 'content-type': 'application/grpc', 'content-length': content.length },
      { waitForTrailers: true }
    )
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '5' }))
    stream.end(content)
  })
  const sluice = await before(t, engine, server)
  const grpc = { ':method': 'POST', ':authority': HOST, 'content-type': 'application/grpc', te: 'trailers' }
  for (asked of ['empty', 'message']) {
    const { status, trailers } = await ask(session(t, sluice), grpc, 'x').answer()
    t.same([status, trailers], [200, ['grpc-status', '5']], asked)
  }
  const post = (extra: string) => `POST / HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: 5\r\n${extra}\r\n\0\0\0\0\0`
  const { port } = await before(t, engine, server, { grpc_web: {} })
  const web = await ask1(port, post('Content-Type: application/grpc-web+proto\r\nX-Grpc-Web: 1\r\n'))
  t.match(web?.body, /^\0\0\0\0\x02ok\x80\0\0\0.grpc-status: ?5/, 'gRPC-Web has its frame of trailers')
  const asking = await ask1(sluice.port, post('TE: trailers\r\nConnection: TE\r\n'))
  t.same([asking?.framing, asking?.trailers], ['chunked', [['grpc-status', '5']]], 'HTTP/1.1 that asks for trailers')
  const plain = await ask1(sluice.port, post(''))
  t.same([plain?.framing, field(plain, 'content-length')], ['length', '7'], 'others get the length')
})
