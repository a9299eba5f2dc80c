import 'reflect-metadata'
import { once } from 'node:events'
import { connect } from 'node:http2'
import { Client, credentials, status } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { create, site } from '../helpers/account.js'
import { ask, callAll, cutShort, type Seen, startWords } from '../helpers/grpc.js'
import { engines, startSluice } from '../helpers/sluice.js'
import { freePort } from './free-port.js'
import { authority, certificate } from './tls-client.js'

const HOST = 'grpc.example.com'

/** A server of gRPC behind an HTTPS edge, and clients of the edge: over TLS, and in clear text. */
async function started(
  t: Test,
  policy: object = {},
  options: Readonly<Record<string, string>> = {}
): Promise<{ client: Client; plain: Client; seen: Seen; port: number; plainPort: number }> {
  const { port: upstream, seen } = await startWords(t)
  const port = await freePort()
  const sluice = await startSluice(t, { options: { LISTENERS: `https://127.0.0.1:${port}`, ...options } })
  const ca = await authority('Test CA')
  const { pem, key } = await certificate('G', ca, [HOST])
  await create(sluice, '/tls_certificates', { certificate_pem: pem, private_key_pem: key })
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream}`, http2: true })
  await site(sluice, HOST, { backend: { backend_id: id }, ...policy })
  const client = new Client(`127.0.0.1:${port}`, credentials.createSsl(Buffer.from(ca.pem)), {
    'grpc.ssl_target_name_override': HOST,
    'grpc.default_authority': HOST,
    'grpc.enable_retries': 0
  })
  t.teardown(() => client.close())
  const plain = new Client(`127.0.0.1:${sluice.port}`, credentials.createInsecure(), {
    'grpc.default_authority': HOST,
    'grpc.enable_retries': 0
  })
  t.teardown(() => plain.close())
  return { client, plain, seen, port, plainPort: sluice.port }
}

t.test('all four kinds of call pass an edge, with metadata and status', async (t) => {
  const { client } = await started(t)
  await callAll(t, client)
})

for (const engine of engines) {
  t.test(`${engine}: and a listener without TLS, by prior knowledge`, async (t) => {
    const { plain } = await started(t, {}, { ENGINE: engine })
    await callAll(t, plain)
  })

  t.test(`${engine}: without TLS what edges_on_http says holds`, async (t) => {
    const refusing = await started(t, {}, { ENGINE: engine, EDGES_ON_HTTP: 'refuse' })
    t.match((await ask(refusing.plain, 'x')).error, { code: status.PERMISSION_DENIED, details: 'HTTPS_REQUIRED' })
    t.equal((await ask(refusing.client, 'x')).value, 'X', 'TLS goes on')
    const leading = await started(t, {}, { ENGINE: engine, EDGES_ON_HTTP: 'redirect' })
    const session = connect(`http://127.0.0.1:${leading.plainPort}`)
    t.teardown(() => session.destroy())
    const moved = session.request({ ':authority': HOST, ':path': '/a?b=c' })
    const [fields] = await once(moved, 'response')
    t.match(fields, { ':status': 308, location: `https://${HOST}:${leading.port}/a?b=c` })
  })
}

t.test('deadlines and cancellation reach the server', async (t) => {
  const { client, seen } = await started(t)
  await cutShort(t, client, seen)
})

t.test('a refusal of ours is a status of gRPC', async (t) => {
  for (const [code, expected] of [
    [401, status.UNAUTHENTICATED],
    [403, status.PERMISSION_DENIED],
    [429, status.RESOURCE_EXHAUSTED],
    [503, status.UNAVAILABLE],
    [418, status.UNKNOWN]
  ] as const) {
    const deny = { on_http_request: [{ actions: [{ type: 'deny', config: { status_code: code } }] }] }
    const { client } = await started(t, { traffic_policy: { value: JSON.stringify(deny) } })
    t.equal((await ask(client, 'x')).error?.code, expected, String(code))
  }
})
