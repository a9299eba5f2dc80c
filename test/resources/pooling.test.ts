import t from 'tap'
import { account, create, visit } from '../helpers/account.js'
import { rawClient } from '../helpers/raw-client.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { freePort } from '../proxy/free-port.js'

/** One product serves all tests here, each with hosts of its own. */
const sluice = await startSluice(t)
const ask = account(sluice)

const answer = (text: string) =>
  `on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 200, body: "${text}" } }] }]`
const DENY = 'on_tcp_connect: [{ actions: [{ type: deny }] }]'

const pooled = (url: string, traffic_policy: string, pooling_enabled = true) =>
  create(sluice, '/endpoints', { url, traffic_policy, pooling_enabled })

/** Counts the bodies of answers. 60 draws from a pool of two miss one of them once in 2^59 runs. */
async function shares(sluice: RunningSluice, host: string, requests = 60): Promise<Record<string, number>> {
  const seen: Record<string, number> = {}
  for (let i = 0; i < requests; i++) {
    const { body } = await visit(sluice, host)
    seen[body] = (seen[body] ?? 0) + 1
  }
  return seen
}

async function refusal(path: string, method: string, body: object) {
  const { status, json } = await ask(path, { method, body })
  return { status, code: json.error_code, field: json.details?.field }
}

const TAKEN = { status: 409, code: /ALREADY_EXISTS/, field: 'url' }

t.test('cloud endpoints with one URL share its requests, each with its own policy', async (t) => {
  const first = await pooled('https://pool.test', answer('one'))
  t.match(first, { pooling_enabled: true })
  t.same(await shares(sluice, 'pool.test', 3), { one: 3 })
  const second = await pooled('https://POOL.test:443', answer('two'))
  t.same(Object.keys(await shares(sluice, 'pool.test')).sort(), ['one', 'two'])
  const exclusive = { url: 'https://pool.test', traffic_policy: answer('x') }
  t.match(await refusal('/endpoints', 'POST', exclusive), TAKEN, 'one of them has it off')
  t.match(await refusal(`/endpoints/${first.id}`, 'PATCH', { pooling_enabled: false }), TAKEN)
  t.match(await refusal(`/endpoints/${second.id}`, 'PATCH', { pooling_enabled: false }), TAKEN)
  const tls = { url: 'tls://pool.test', traffic_policy: DENY, pooling_enabled: true }
  t.match(await refusal('/endpoints', 'POST', tls), TAKEN, 'the URLs differ')
  t.match(await refusal('/edges/https', 'POST', { hostports: ['pool.test:443'] }), { status: 409 })
  t.equal((await ask(`/endpoints/${first.id}`, { method: 'DELETE' })).status, 204)
  t.same(await shares(sluice, 'pool.test', 5), { two: 5 })
  t.match(await refusal('/endpoints', 'POST', exclusive), TAKEN, 'the pool holds its URL without its first member')
  t.match(await refusal('/edges/https', 'POST', { hostports: ['pool.test:443'] }), { status: 409 })
  t.equal((await ask(`/endpoints/${second.id}`, { method: 'PATCH', body: { pooling_enabled: false } })).status, 200)
  t.match(await refusal('/endpoints', 'POST', { ...exclusive, pooling_enabled: true }), TAKEN)
  await ask(`/endpoints/${second.id}`, { method: 'DELETE' })
  await create(sluice, '/edges/https', { hostports: ['pool.test:443'] })
})

t.test('a member that moves away leaves its URL to the others', async (t) => {
  const [first, second] = [
    await pooled('https://move.test', answer('one')),
    await pooled('https://move.test', answer('two'))
  ]
  await ask(`/endpoints/${first.id}`, { method: 'PATCH', body: { url: 'https://moved.test' } })
  t.same(await shares(sluice, 'move.test', 5), { two: 5 })
  t.same(await shares(sluice, 'moved.test', 5), { one: 5 })
  t.match(await refusal('/endpoints', 'POST', { url: 'https://move.test', traffic_policy: answer('x') }), TAKEN)
  await ask(`/endpoints/${first.id}`, { method: 'PATCH', body: { url: 'https://move.test' } })
  t.same(Object.keys(await shares(sluice, 'move.test')).sort(), ['one', 'two'])
  t.same((await ask(`/endpoints/${second.id}`)).json.url, 'https://move.test')
})

t.test('what an edit undid comes back into the pool', async (t) => {
  const first = await pooled('https://back.test', answer('one'))
  await pooled('https://back.test', answer('two'))
  await ask(`/endpoints/${first.id}`, { method: 'DELETE' })
  const [last] = (await ask('/revisions?limit=1')).json.revisions
  t.equal((await ask(`/revisions/${last.id}/revert`, { method: 'POST' })).status, 200)
  t.same(Object.keys(await shares(sluice, 'back.test')).sort(), ['one', 'two'])
})

t.test('policies that forward to a pool reach each of its members', async (t) => {
  await pooled('https://pool.internal', answer('one'))
  await pooled('https://pool.internal', answer('two'))
  const config = '{ url: "https://pool.internal" }'
  await pooled('https://front.test', `on_http_request: [{ actions: [{ type: forward-internal, config: ${config} }] }]`)
  t.same(Object.keys(await shares(sluice, 'front.test')).sort(), ['one', 'two'])
})

t.test('connections to one port are shared, and the port is open as long as a member is there', async (t) => {
  const port = await freePort()
  const url = `tcp://localhost:${port}`
  const [first, second] = [await pooled(url, DENY), await pooled(url, DENY)]
  t.match(await refusal('/endpoints', 'POST', { url, traffic_policy: DENY }), TAKEN)
  const edges = async (connections: number) => {
    const past = sluice.log.length
    for (let i = 0; i < connections; i++) {
      const client = await rawClient(port)
      client.end()
      await client.closed
    }
    const ids = () =>
      sluice.log
        .slice(past)
        .filter(({ msg, edge }) => msg === 'connection' && (edge === first.id || edge === second.id))
        .map(({ edge }) => edge)
    await until(() => ids().length === connections)
    return new Set(ids())
  }
  t.equal((await edges(40)).size, 2)
  await ask(`/endpoints/${first.id}`, { method: 'DELETE' })
  t.same([...(await edges(3))], [second.id])
  await ask(`/endpoints/${second.id}`, { method: 'DELETE' })
  await t.rejects(rawClient(port), { code: 'ECONNREFUSED' })
  await pooled(url, DENY, false)
})
