import t from 'tap'
import { account, create, site, visit } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'
import { onEngines } from '../wire/engines.js'

const HOST = 'shop.example.com'
const leadTo = (url: string, more = '') =>
  `on_http_request:\n  - actions:\n      - type: forward-internal\n        config: { url: "${url}"${more} }\n`
const tagging = (name: string) =>
  `on_http_response:\n  - actions:\n      - type: add-headers\n        config: { headers: { x-by: ${name} } }\n`
const answer = (body: string) =>
  `on_http_request:\n  - actions:\n      - type: custom-response\n        config: { status_code: 200, body: ${body} }\n`

onEngines('an internal entry takes the request with its own policy, and both see the answer', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const { id } = await create(sluice, '/backends/http_response', { body: 'from inside' })
  await site(sluice, 'api.internal', {
    backend: { backend_id: id },
    traffic_policy: { value: tagging('inner') }
  })
  await site(sluice, HOST, {
    traffic_policy: { value: leadTo('https://api.internal', ', binding: internal') + tagging('outer') }
  })
  const seen = await visit(sluice, HOST)
  t.match(seen, { status: 200, body: 'from inside' })
  t.equal(seen.headers['x-by'], 'inner, outer')
  const line = await sluice.line(({ msg }) => msg === 'exchange')
  t.match(line, { host: HOST, status: 200, action: 'forward-internal' })
})

t.test('no client reaches an internal entry by its name', async (t) => {
  const sluice = await startSluice(t)
  await site(sluice, 'api.internal', { traffic_policy: { value: answer('secret') } })
  t.match(await visit(sluice, 'api.internal'), { status: 404, headers: { 'sluice-error-code': 'NO_ROUTE' } })
})

t.test('an entry that is missing halts or goes on as the policy says, and heals when it appears', async (t) => {
  const sluice = await startSluice(t)
  await site(sluice, HOST, { traffic_policy: { value: leadTo('https://api.internal:8443') } })
  t.match(await visit(sluice, HOST), { status: 503, headers: { 'sluice-error-code': 'INTERNAL_ENTRY_MISSING' } })
  const told = `${leadTo('http://api.internal:8443', ', on_error: continue')}      - type: custom-response
        config: { status_code: 200, body: "\${actions.service.forward_internal.error.code}" }\n`
  await site(sluice, 'other.example.com', { traffic_policy: { value: told } })
  t.match(await visit(sluice, 'other.example.com'), { status: 200, body: 'ENDPOINT_MISSING' })
  const edge = await create(sluice, '/edges/https', { hostports: ['api.internal:8443'] })
  await create(sluice, `/edges/https/${edge.id}/routes`, { match: '/', traffic_policy: { value: answer('here') } })
  t.match(await visit(sluice, HOST), { status: 200, body: 'here' })
  t.match(await visit(sluice, 'other.example.com'), { status: 200, body: 'here' })
  await account(sluice)(`/edges/https/${edge.id}`, { method: 'DELETE' })
  t.equal((await visit(sluice, HOST)).status, 503)
})

t.test('entries that lead to each other end at the hop limit', async (t) => {
  const sluice = await startSluice(t)
  await site(sluice, 'a.internal', { traffic_policy: { value: leadTo('https://b.internal') } })
  await site(sluice, 'b.internal', { traffic_policy: { value: leadTo('https://a.internal') } })
  await site(sluice, HOST, { traffic_policy: { value: leadTo('https://a.internal') } })
  t.match(await visit(sluice, HOST), { status: 508, headers: { 'sluice-error-code': 'TOO_MANY_HOPS' } })
})

t.test('the URL may depend on the request', async (t) => {
  const sluice = await startSluice(t)
  for (const name of ['one', 'two']) await site(sluice, `${name}.internal`, { traffic_policy: { value: answer(name) } })
  await site(sluice, HOST, { traffic_policy: { value: leadTo("https://${getReqHeader('x-to')[0]}.internal") } })
  t.equal((await visit(sluice, HOST, { headers: { 'x-to': 'one' } })).body, 'one')
  t.equal((await visit(sluice, HOST, { headers: { 'x-to': 'two' } })).body, 'two')
  t.equal((await visit(sluice, HOST, { headers: { 'x-to': 'other.example.com/' } })).status, 503)
  t.equal((await visit(sluice, HOST)).status, 500)
})
