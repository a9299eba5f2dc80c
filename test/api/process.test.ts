import { chmod, readFile, stat, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { newSealKey } from '../../src/lib/seal.js'
import { API_KEY, type RunningSluice, startSluice } from '../helpers/sluice.js'
import { type Asked, asker } from './asking.js'

const HOST = 'shop.example.com'

/** A policy that answers by itself. */
function answering(status: number): string {
  return `on_http_request:\n  - actions:\n      - type: custom-response\n        config:\n          status_code: ${status}\n`
}

function api(sluice: RunningSluice) {
  const ask = asker('127.0.0.1', sluice.apiPort)
  return (path: string, asked: Asked = {}) => ask(path, { key: API_KEY, ...asked })
}

/** The status that a request for `host` gets on the traffic port. */
function statusOf(sluice: RunningSluice, host = HOST): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request({ port: sluice.port, host: '127.0.0.1', headers: { host }, agent: false }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode))
    })
    sent.on('error', reject).end()
  })
}

/** An edge with one route whose policy answers with `status`; answers the path of the route. */
async function site(sluice: RunningSluice, status: number): Promise<string> {
  const ask = api(sluice)
  const edge = await ask('/edges/https', { method: 'POST', body: { hostports: [`${HOST}:443`] } })
  t.equal(edge.status, 201, edge.text)
  const routes = `/edges/https/${edge.json.id}/routes`
  const body = { match: '/', traffic_policy: { value: answering(status) } }
  const route = await ask(routes, { method: 'POST', body })
  t.equal(route.status, 201, route.text)
  return `${routes}/${route.json.id}`
}

t.test('what the API answers already serves, and what it refuses has changed nothing', async (t) => {
  const sluice = await startSluice(t)
  const ask = api(sluice)
  t.equal(await statusOf(sluice), 404)
  const route = await site(sluice, 201)
  t.equal(await statusOf(sluice), 201)
  t.equal(await statusOf(sluice, 'other.example.com'), 404)

  const change = (value: string) => ask(route, { method: 'PATCH', body: { traffic_policy: { value } } })
  t.equal((await change(answering(202))).status, 200)
  t.equal(await statusOf(sluice), 202)

  const refused = await change(answering(203).replace('custom-response', 'costum-response'))
  t.equal(refused.status, 400, refused.text)
  t.match(refused.json, { error_code: 'POLICY_ACTION_UNKNOWN', details: { line: '3', column: '15' } })
  t.equal(await statusOf(sluice), 202, 'the policy before it keeps acting')
  t.equal((await ask(route)).json.traffic_policy.value, answering(202))

  t.equal((await ask(route, { method: 'DELETE' })).status, 204)
  t.equal(await statusOf(sluice), 404)
})

t.test('a creation and what is read later tell the same, with the address of the API in its links', async (t) => {
  const sluice = await startSluice(t)
  const ask = api(sluice)
  const made = await ask('/edges/https', { method: 'POST', body: { hostports: [`${HOST}:443`] } })
  const read = await ask(`/edges/https/${made.json.id}`)
  t.same(read.json, made.json)
  t.equal(made.json.uri, `http://127.0.0.1:${sluice.apiPort}/edges/https/${made.json.id}`)
  t.equal((await ask('/openapi.json')).json.info.version, JSON.parse(await readFile('package.json', 'utf8')).version)
})

t.test('records and files stand beside each other: a reload changes the own part only', async (t) => {
  const sluice = await startSluice(t, { upstream: { port: 1 }, policy: answering(210) })
  await site(sluice, 201)
  t.equal(await statusOf(sluice, 'other.example.com'), 210)
  t.match(await sluice.reload(answering(211)), { ok: true, changed: true })
  t.equal(await statusOf(sluice, 'other.example.com'), 211)
  t.equal(await statusOf(sluice), 201)
  t.match(await sluice.reload(answering(99)), { ok: false })
  t.equal(await statusOf(sluice, 'other.example.com'), 211)
})

t.test('a restart on the same folder keeps records and opens sealed secrets', async (t) => {
  const data = join(t.testdir(), 'data')
  const first = await startSluice(t, { options: { DATA: data } })
  const route = await site(first, 201)
  const verification = { enabled: false, provider: 'github', secret: 'a secret of a hook' }
  const put = await api(first)(`${route}/webhook_verification`, { method: 'PUT', body: verification })
  t.equal(put.status, 200, put.text)
  await first.stop()
  t.equal((await stat(join(data, 'seal.key'))).mode & 0o777, 0o600)
  t.notMatch(await readFile(join(data, 'sluice.db'), 'latin1'), verification.secret)

  const second = await startSluice(t, { options: { DATA: data } })
  t.equal(await statusOf(second), 201, 'before any call of the API')
  t.equal((await api(second)(route)).status, 200)
  await t.rejects(startSluice(t, { options: { DATA: data } }), { code: 'STORE_LOCKED' })
  await second.stop()

  await writeFile(join(data, 'seal.key'), newSealKey())
  await t.rejects(startSluice(t, { options: { DATA: data } }), { code: 'SEAL_KEY_WRONG' })
  await chmod(join(data, 'seal.key'), 0o644)
  await t.rejects(startSluice(t, { options: { DATA: data } }), { code: 'SEAL_KEY_EXPOSED' })
})

t.test('a store that lasts needs a sealing key that lasts', async (t) => {
  const store = join(t.testdir(), 'records.db')
  await t.rejects(startSluice(t, { options: { STORE: store } }), { code: 'SEAL_KEY_MISSING' })
})

t.test('the options of the API hold: rate, foreign pages, zone', async (t) => {
  const page = 'https://console.example.com'
  const options = {
    API_RATE_LIMIT: '2/1h',
    API_CORS_ORIGINS: page,
    ZONE: 'apps.test',
    API_PUBLIC_URL: 'https://api.test'
  }
  const sluice = await startSluice(t, { options })
  const ask = api(sluice)
  const domain = await ask('/reserved_domains', {
    method: 'POST',
    body: { domain: 'shop.apps.test' },
    headers: { origin: page }
  })
  t.equal(domain.status, 201, domain.text)
  t.equal(domain.headers['access-control-allow-origin'], page)
  t.equal(domain.json.cname_target, null, 'a domain below the zone needs no CNAME')
  t.match(domain.json.uri, /^https:\/\/api\.test\//)
  t.equal((await ask('/reserved_domains')).status, 200)
  t.equal((await ask('/reserved_domains')).status, 429)
})
