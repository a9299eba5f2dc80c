import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { create, site, visit } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'
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
  const value =
    'on_http_request: [{ actions: [{ type: add-headers, config: { headers: { x-seen: "${req.host}" } } }] }]'
  const modules = { backend: { backend_id: id }, traffic_policy: { value } }
  for (const host of [HOST, '*.wild.example.com', '[2001:db8::1]']) await site(sluice, host, modules)
  const cases: [sent: string, seen: string][] = [
    [HOST, HOST],
    [`${HOST}.`, HOST],
    [`${HOST}.:8080`, `${HOST}:8080`],
    ['a.wild.example.com.', 'a.wild.example.com'],
    ['[2001:DB8:0::0:1]', '[2001:DB8:0::0:1]']
  ]
  for (const [sent, seen] of cases) {
    t.equal((await visit(sluice, sent)).body, `${sent} ${sent} ${seen}`, sent)
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
