import t from 'tap'
import { account, create, visit } from '../../../helpers/account.js'
import { until } from '../../../helpers/until.js'
import { ourAgent } from '../our-agent.js'
import { Upstream } from '../upstream.js'
import { startProduct } from './product.js'

const HOST = 'app.example.com'
const DENY = 'on_http_request: [{ actions: [{ type: deny, config: { status_code: 451 } }] }]'

async function running(t: Test) {
  const product = await startProduct(t)
  const { token } = await product.credential()
  const upstream = await Upstream.start(t)
  const bind = async (at: string, endpoint: 'http' | 'https' = 'https') => {
    const agent = await ourAgent.start(product.agents, token, { endpoint, at, target: upstream.port })
    t.teardown(() => agent.close())
    return agent
  }
  const edge = async (...hostports: string[]): Promise<string> => {
    const { id } = await create(product.sluice, '/edges/https', { hostports })
    await create(product.sluice, `/edges/https/${id}/routes`, { match: '/', traffic_policy: { value: DENY } })
    return id
  }
  const status = async (host = HOST) => (await visit(product.sluice, host)).status
  return { product, bind, edge, status }
}

type Test = Parameters<typeof startProduct>[0]

t.test('a name below the wildcard of an edge is the edge’s, and so is one on another port', async (t) => {
  const { bind, edge, status } = await running(t)
  const id = await edge('*.example.com:443')
  for (const at of [HOST, 'deep.app.example.com', 'APP.example.com.']) {
    await t.rejects(bind(at), new RegExp(`already served by an edge \\(${id}\\)`), at)
  }
  t.equal(await status(), 451)
  t.equal((await bind('example.com')).url, 'https://example.com', 'the wildcard does not hold its suffix')
  await edge('other.test:8443')
  await t.rejects(bind('other.test'), /already served by an edge/)
})

t.test('an edge for every other host takes neither the names of agents nor internal ones', async (t) => {
  const { product, bind, edge, status } = await running(t)
  const before = await bind('before.example.com')
  await edge('*:443')
  await bind('after.example.com')
  for (const host of ['before.example.com', 'after.example.com']) t.equal(await status(host), 200, host)
  t.equal(await status('none.example.com'), 451)
  t.equal(await status('api.internal'), 404)
  t.equal(product.sluice.log.filter(({ msg }) => /has taken the name/.test(String(msg))).length, 0)
  await before.close()
})

t.test('a cloud endpoint does not take the name of an agent, and no agent takes its name', async (t) => {
  const { product, bind, status } = await running(t)
  const ask = account(product.sluice)
  const agent = await bind(HOST)
  const post = (url: string) => ask('/endpoints', { method: 'POST', body: { url, traffic_policy: DENY } })
  for (const url of [`https://${HOST}`, `http://${HOST}`, `https://${HOST}:8443`])
    t.match(await post(url), { status: 409, json: { error_code: /ALREADY_EXISTS/, details: { field: 'url' } } }, url)
  t.equal(await status(), 200)
  const { json } = await post('https://other.example.com')
  await t.rejects(bind('other.example.com'), new RegExp(`already served by an edge \\(${json.id}\\)`))
  const types = (await ask('/endpoints')).json.endpoints.map(({ type }: { type: string }) => type)
  t.same(types.slice(0, 2), ['cloud', 'ephemeral'])
  await agent.close()
})

t.test('no agent takes an internal name, for TCP either', async (t) => {
  const { product, bind } = await running(t)
  await t.rejects(bind('api.internal'), /is internal: only policies lead there/)
  const { token } = await product.credential()
  const offer = { endpoint: 'tcp', at: 'db.internal:40001', target: 9 } as const
  await t.rejects(ourAgent.start(product.agents, token, offer), /is internal: only policies lead there/)
})

t.test('an edge takes the name of an agent with a word to both, and the agent has it again afterwards', async (t) => {
  const { product, bind, edge, status } = await running(t)
  const cases: [hostport: string, endpoint: 'http' | 'https'][] = [
    [`${HOST}:443`, 'https'],
    [`${HOST}:8443`, 'https'],
    ['*.example.com:443', 'https'],
    [`${HOST}:443`, 'http']
  ]
  for (const [hostport, endpoint] of cases) {
    const agent = await bind(HOST, endpoint)
    t.equal(await status(), 200, 'the agent serves')
    const id = await edge(hostport)
    const elsewhere = hostport.endsWith(':8443')
    t.equal(await status(), elsewhere ? 404 : 451, `${hostport} serves from its first request on, at its port`)
    t.equal(await agent.stopped, `${endpoint}://${HOST} belongs to an edge now (${id})`)
    t.match(await product.sluice.line(({ msg, edge }) => /has taken the name/.test(String(msg)) && edge === id), {
      url: `${endpoint}://${HOST}`,
      tunnel: agent.id
    })
    await account(product.sluice)(`/edges/https/${id}`, { method: 'DELETE' })
    await until(async () => (await status()) === 200)
    t.pass('and serves again')
    await agent.close()
    await product.until('/tunnels', ({ tunnels }) => (tunnels as unknown[]).length === 0)
  }
})
