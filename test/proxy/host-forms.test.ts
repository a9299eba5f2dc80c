import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:http2'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { create, site, visit } from '../helpers/account.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { onEngines } from '../wire/engines.js'

const HOST = 'app.example.com'

/** Answers the hosts that it is told of. */
async function upstream(t: Test): Promise<number> {
  const server = createServer(({ headers }, response) => {
    response.end(`${headers.host} ${headers['x-forwarded-host']} ${headers['x-seen']}`)
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

onEngines('a host finds its edge in every form, and policies see one', async (t, engine) => {
  const port = await upstream(t)
  const sluice = await startSluice(t, { engine, upstream: { port } })
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })
  const seenBy = '"${req.host} ${req.headers[\'host\'][0]} ${req.url.raw}"'
  const value = `on_http_request: [{ actions: [{ type: add-headers, config: { headers: { x-seen: ${seenBy} } } }] }]`
  const modules = { backend: { backend_id: id }, traffic_policy: { value } }
  for (const host of [HOST, '*.wild.example.com', '[2001:db8::1]']) await site(sluice, host, modules)
  const cases: [sent: string, seen: string][] = [
    [HOST, HOST],
    [`${HOST}.`, HOST],
    [`${HOST}.:8080`, `${HOST}:8080`],
    ['a.wild.example.com.', 'a.wild.example.com'],
    ['[2001:DB8:0::0:1]', '[2001:db8::1]'],
    ['App.EXAMPLE.com', HOST],
    [`${HOST}:80`, HOST],
    [`${HOST}:`, HOST],
    [`APP.example.com.:80`, HOST],
    [`${HOST}:0080`, HOST],
    [`${HOST}:443`, `${HOST}:443`]
  ]
  for (const [sent, seen] of cases) {
    t.equal((await visit(sluice, sent)).body, `${seen} ${seen} ${seen} ${seen} http://${sent}/`, sent)
  }
  for (const host of ['.', '..', `${HOST}..`, `.${HOST}`, 'app..example.com']) {
    t.equal((await visit(sluice, host)).status, 400, host)
  }
})

t.test('an edge that shuts a host out does so for the name with the dot of the root', async (t) => {
  const port = await upstream(t)
  const sluice = await startSluice(t, { upstream: { port } })
  const value = 'on_http_request: [{ actions: [{ type: deny, config: { status_code: 451 } }] }]'
  await site(sluice, HOST, { traffic_policy: { value } })
  t.equal((await visit(sluice, 'other.example.com')).status, 200, 'the upstream of all other hosts')
  for (const host of [HOST, `${HOST}.`, `${HOST}.:443`]) t.equal((await visit(sluice, host)).status, 451, host)
})

/** The status of a request over HTTP/2 whose `:authority` is `authority`. */
async function statusOf(t: Test, { port }: RunningSluice, authority: string): Promise<number | undefined> {
  const session = connect(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  const stream = session.request({ ':method': 'GET', ':path': '/', ':authority': authority, ':scheme': 'http' })
  stream.on('error', () => undefined)
  const [fields] = (await once(stream, 'response')) as [{ readonly ':status'?: number }]
  return fields[':status']
}

const label = (length: number) => 'a'.repeat(length)
/** 251 octets. */
const LONGEST = [63, 63, 63, 49].map(label).concat('wild.test').join('.')

onEngines('a host that is longer than the DNS allows is refused before an edge is looked for', async (t, engine) => {
  const port = await upstream(t)
  const sluice = await startSluice(t, { engine, upstream: { port } })
  await site(sluice, '*.wild.test', { traffic_policy: { value: 'on_http_request: [{ actions: [{ type: deny }] }]' } })
  for (const host of [`b.${LONGEST}`, `b.${LONGEST}.`, `${label(63)}.wild.test`]) {
    t.equal((await visit(sluice, host)).status, 403, `${host.length} octets`)
    t.equal(await statusOf(t, sluice, host), 403, `${host.length} octets, HTTP/2`)
  }
  const labels = `${'a.'.repeat(30_000)}wild.test`
  for (const host of [
    `bb.${LONGEST}`,
    `bb.${LONGEST}.:443`,
    `${label(64)}.wild.test`,
    `b.${label(64)}.wild.test`,
    labels
  ]) {
    t.equal((await visit(sluice, host)).status, 400, `${host.length} octets`)
    t.equal(await statusOf(t, sluice, host), 400, `${host.length} octets, HTTP/2`)
  }
})

t.test('a rule about a host counts for every spelling of it, and a limit by it has one bucket', async (t) => {
  const port = await upstream(t)
  const policy = `
on_http_request:
  - expressions: ["req.host == 'admin.example.com'"]
    actions: [{ type: deny, config: { status_code: 451 } }]
  - expressions: ["req.headers['host'][0] == 'by-field.example.com'"]
    actions: [{ type: deny, config: { status_code: 452 } }]
  - actions: [{ type: rate-limit, config: { name: by-host, algorithm: sliding_window, capacity: 3, rate: 60s, bucket_key: [req.host] } }]
`
  const sluice = await startSluice(t, { upstream: { port }, policy })
  const spellings = (name: string) => [name, name.toUpperCase(), `${name}:80`, `${name}:`, `${name}.`, `${name}.:80`]
  for (const host of spellings('admin.example.com')) t.equal((await visit(sluice, host)).status, 451, host)
  for (const host of spellings('by-field.example.com')) t.equal((await visit(sluice, host)).status, 452, host)
  const statuses: number[] = []
  for (const host of spellings('other.example.com')) statuses.push((await visit(sluice, host)).status)
  t.same(statuses, [200, 200, 200, 429, 429, 429])
})
