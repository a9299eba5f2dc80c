import { once } from 'node:events'
import { connect, createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { create, site } from '../helpers/account.js'
import { rawClient } from '../helpers/raw-client.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { RawUpstream } from '../helpers/upstream.js'

const HOST = 'app.example.com'
const POLICY = `
on_http_request:
  - actions:
      - {type: remove-headers, config: {headers: [x-user]}}
      - {type: add-headers, config: {headers: {x-role: guest}}}
on_http_response:
  - actions:
      - {type: remove-headers, config: {headers: [x-powered-by]}}
      - {type: add-headers, config: {headers: {x-cache: none}}}
`
/** Fields that pass in a trailer section, in both directions. */
const PASSING = { 'x-checksum': 'abc', 'grpc-status': '0', server_timing: 'x' }
/** Names that no message has as a trailer. */
const RESERVED = [
  ...['x-forwarded-for', 'x-forwarded-prefix', 'x-request-id', 'sluice-error-code', 'sluice-explain', 'sluice-other'],
  ...['true-client-ip', 'cf-connecting-ip', 'x-original-url', 'x-rewrite-url', 'x-real-ip', 'forwarded'],
  ...[
    'x_request_id',
    'sluice_explain',
    'true_client_ip',
    'host',
    'authorization',
    'cookie',
    'set-cookie',
    'x_original-url'
  ]
]
/** Names that the policy removes or writes in requests, and in responses. */
const OF_REQUESTS = ['x-user', 'x_user', 'x-role', 'x_role', 'x-named']
const OF_RESPONSES = ['x-powered-by', 'x-cache', 'x_cache', 'x-named']

const fieldsOf = (names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, 'smuggled']))

interface Exchanged {
  readonly toUpstream: IncomingHttpHeaders
  readonly toClient: IncomingHttpHeaders
}

/** The trailers of a message, which has to have some. */
const sent = (list: readonly (readonly [string, string])[]): IncomingHttpHeaders =>
  Object.fromEntries(list.map(([name, value]) => [name.toLowerCase(), value]))

const section = (fields: Record<string, string>): string =>
  `${Object.entries(fields)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`

type Peer = (
  t: Test,
  trailers: Record<string, string>,
  seen: (trailers: IncomingHttpHeaders) => void
) => Promise<number>

const upstreams: Readonly<Record<string, Peer>> = {
  'HTTP/1.1': async (t, trailers, seen) => {
    const { port } = await RawUpstream.start(t, async (peer) => {
      for (;;) {
        seen(sent((await peer.request()).trailers))
        peer.send(
          `HTTP/1.1 200 OK\r\nConnection: x-named\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n${section(trailers)}`
        )
      }
    })
    return port
  },
  'HTTP/2': async (t, trailers, seen) => {
    const server = createServer().listen(0, '127.0.0.1')
    t.teardown(() => server.close())
    server.on('stream', (stream: ServerHttp2Stream) => {
      stream.on('trailers', seen)
      stream.resume().on('end', () => {
        stream.on('wantTrailers', () => stream.sendTrailers(trailers))
        stream.respond({ ':status': 200 }, { waitForTrailers: true })
        stream.end('a')
      })
    })
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }
}

type Client = (t: Test, sluice: RunningSluice, trailers: Record<string, string>) => Promise<IncomingHttpHeaders>

const clients: Readonly<Record<string, Client>> = {
  'HTTP/1.1': async (_t, { port }, trailers) => {
    const client = await rawClient(port)
    client.send(`POST / HTTP/1.1\r\nHost: ${HOST}\r\nConnection: x-named\r\nTransfer-Encoding: chunked\r\n\r\n`)
    client.send(`1\r\na\r\n0\r\n${section(trailers)}`)
    const answer = await client.answer('POST')
    client.socket.destroy()
    return sent(answer.trailers)
  },
  'HTTP/2': async (t, { port }, trailers) => {
    const session = connect(`http://127.0.0.1:${port}`)
    t.teardown(() => session.destroy())
    const stream = session.request({ ':method': 'POST', ':authority': HOST }, { waitForTrailers: true } as object)
    stream.on('wantTrailers', () => stream.sendTrailers(trailers))
    stream.end('a')
    const arrived = once(stream, 'trailers') as Promise<[IncomingHttpHeaders]>
    stream.resume()
    await once(stream, 'end')
    return (await arrived)[0]
  }
}

/** One exchange with these trailers both ways. */
async function exchanged(
  t: Test,
  [front, back]: readonly [string, string],
  requests: Record<string, string>,
  responses: Record<string, string>
): Promise<Exchanged> {
  let toUpstream: IncomingHttpHeaders = {}
  const port = await (upstreams[back] as Peer)(t, responses, (trailers) => {
    toUpstream = trailers
  })
  const sluice = await startSluice(t)
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}`, http2: back === 'HTTP/2' })
  await site(sluice, HOST, { backend: { backend_id: id }, traffic_policy: { value: POLICY } })
  const toClient = await (clients[front] as Client)(t, sluice, requests)
  return { toUpstream, toClient }
}

const names = (trailers: IncomingHttpHeaders): string[] =>
  Object.keys(trailers).filter((name) => !name.startsWith('Symbol'))

for (const front of Object.keys(clients)) {
  for (const back of Object.keys(upstreams)) {
    t.test(`${front} to ${back}: trailers carry no field that the head may not`, async (t) => {
      // HTTP/2 has no Connection field that could name others.
      const named = (protocol: string, list: readonly string[]) =>
        protocol === 'HTTP/2' ? list.filter((name) => name !== 'x-named') : list
      const requests = fieldsOf([...RESERVED, ...named(front, OF_REQUESTS)])
      const responses = fieldsOf([...RESERVED, ...named(back, OF_RESPONSES)])
      const through = await exchanged(t, [front, back], { ...requests, ...PASSING }, { ...responses, ...PASSING })
      t.same(names(through.toUpstream).sort(), Object.keys(PASSING).sort(), 'to the upstream')
      t.same(names(through.toClient).sort(), Object.keys(PASSING).sort(), 'to the client')
    })
  }
}

t.test('names that this policy does not touch pass, each in its own direction', async (t) => {
  const through = await exchanged(
    t,
    ['HTTP/1.1', 'HTTP/1.1'],
    { 'x-powered-by': 'a', 'x-cache': 'b' },
    { 'x-user': 'c', 'x-role': 'd' }
  )
  t.same(through.toUpstream, { 'x-powered-by': 'a', 'x-cache': 'b' })
  t.same(through.toClient, { 'x-user': 'c', 'x-role': 'd' })
})
