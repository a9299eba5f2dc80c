import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { account, create, site, visit } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'

const DENY = JSON.stringify({ on_http_request: [{ actions: [{ type: 'deny', config: { status_code: 451 } }] }] })

t.test('the kernel is a proxy with policies and an API when it has no capability', async (t) => {
  const upstream = createServer((_, response) => response.end('from the upstream'))
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => upstream.close(done)))
  const { port } = upstream.address() as AddressInfo
  const policy = JSON.stringify({
    on_http_response: [{ actions: [{ type: 'add-headers', config: { headers: { 'x-policy': 'ran' } } }] }]
  })
  const sluice = await startSluice(t, { upstream: { port }, policy, capabilities: [] })
  const ask = account(sluice)
  t.match(await visit(sluice, 'other.test'), { status: 200, headers: { 'x-policy': 'ran' } })

  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })
  const { route } = await site(sluice, 'shop.test', { backend: { backend_id: backend.id } })
  t.match(await visit(sluice, 'shop.test'), { status: 200 })
  t.equal((await ask(route, { method: 'PATCH', body: { traffic_policy: { value: DENY } } })).status, 200)
  t.match(await visit(sluice, 'shop.test'), { status: 451 })
  const [last] = (await ask('/revisions')).json.revisions
  t.equal((await ask(`/revisions/${last.id}/revert`, { method: 'POST' })).status, 200)
  t.match(await visit(sluice, 'shop.test'), { status: 200 })

  const guarded = { method: 'PATCH', body: { description: 'x' }, headers: { guard: 'error-rate=1%' } }
  t.match(await ask(route, guarded), { status: 400, json: { error_code: 'ERR_SLUICE_FIELD_INVALID' } })
  t.equal((await ask('/limits')).status, 404)
  const { paths, components } = (await ask('/openapi.json')).json
  t.notOk(paths['/shadows'] ?? paths['/site'])
  t.notOk(components.schemas.HttpsEdge.properties.declared)
  t.ok(await create(sluice, '/vaults', { name: 'v' }))
  t.same(await sluice.stop(), { ended: 0, cut: 0 })
})
