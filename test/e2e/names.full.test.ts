import { pbkdf2 } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { receiver } from '../capabilities/events/receiver.js'
import { create } from '../helpers/account.js'
import { startNameServer } from '../helpers/name-server.js'
import { engines, type RunningSluice, startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { startCuttingProxy } from '../store/cutting-proxy.js'
import { startPostgres, through } from '../store/postgres-server.js'

const HANGING = 20

async function web(t: Test): Promise<number> {
  const server = createServer((request, response) => response.end(`${request.headers.host} ${request.url}`))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

for (const engine of engines) {
  t.test(`${engine}: names that hang hold up no other name and no file`, async (t) => {
    const port = await web(t)
    const hanging = Array.from({ length: HANGING }, (_, i) => [`hangs-${i}.test`, 'silent'] as const)
    const names = await startNameServer(t, { 'up.test': ['127.0.0.1'], ...Object.fromEntries(hanging) })
    const policy = `
on_http_request:
  - actions:
      - type: http-request
        config: { url: "http://\${req.url.path.substring(1)}.test:${port}/", timeout: 2s }
`
    const sluice = await startSluice(t, {
      engine,
      upstream: { host: 'up.test', port },
      policy,
      options: { DNS_SERVERS: names.address, OUTBOUND_ALLOW_PRIVATE: 'on' }
    })
    const get = async (path: string) => {
      const answer = await fetch(`http://127.0.0.1:${sluice.port}${path}`)
      return `${answer.status} ${await answer.text()}`
    }
    const slow = hanging.map((_, i) => get(`/hangs-${i}`))
    await until(() => new Set(names.asked.filter((one) => one.startsWith('hangs'))).size === 2 * HANGING)
    const order: string[] = []
    const watched = slow.map(async (one) => {
      const answer = await one
      order.push('hanging')
      return answer
    })
    t.equal(await get('/up'), `200 127.0.0.1:${sluice.port} /up`)
    order.push('other name')
    for (const answer of await Promise.all(watched)) t.match(answer, /^200 /, 'the policy goes on without an answer')
    t.equal(order[0], 'other name')
  })
}

t.test('events find their names by the same servers', async (t) => {
  const names = await startNameServer(t, { 'sink.test': ['127.0.0.1'] })
  const sluice = await startSluice(t, { options: { DNS_SERVERS: names.address, OUTBOUND_ALLOW_PRIVATE: 'on' } })
  const sink = await receiver(t)
  const url = sink.url.replace('127.0.0.1', 'sink.test')
  const { id } = await create(sluice, '/event_destinations', { target: { webhook: { url } } })
  await create(sluice, '/event_subscriptions', { sources: [{ type: 'ip_policy_created.v0' }], destination_ids: [id] })
  await create(sluice, '/ip_policies', { description: 'office' })
  await sink.until(() => sink.taken.length > 0)
  t.ok(names.asked.includes('sink.test A'))
  t.equal(await metric(sluice, 'lookups_total{result="found",source="server"}'), 1, 'and are counted')
})

/** A value of `/metrics` that is about names. */
async function metric(sluice: RunningSluice, series: string): Promise<number> {
  const headers = { authorization: `Bearer ${sluice.apiKey}` }
  const text = await (await fetch(`http://127.0.0.1:${sluice.apiPort}/metrics`, { headers })).text()
  const line = text.split('\n').find((one) => one.startsWith(`sluice_dns_${series} `))
  return Number(line?.split(' ')[1] ?? Number.NaN)
}

/** Why the process is degraded. */
async function reasonsOf(sluice: RunningSluice): Promise<readonly string[]> {
  const { reasons } = (await (await fetch(`http://127.0.0.1:${sluice.apiPort}/readyz`)).json()) as { reasons: string[] }
  return reasons
}

t.test('look-ups are counted, and a process that no DNS server answers says so', async (t) => {
  const port = await web(t)
  const first = await startNameServer(t)
  const at = Number(first.address.split(':')[1])
  await first.close()
  const sluice = await startSluice(t, {
    upstream: { host: 'up.test', port },
    options: { DNS_SERVERS: first.address }
  })
  const get = async () => (await fetch(`http://127.0.0.1:${sluice.port}/`)).status
  const reasons = () => reasonsOf(sluice)
  t.equal(await get(), 502)
  await until(async () => (await reasons()).includes('dns_unreachable'))
  t.equal(await metric(sluice, 'failing_names{result="failed"}'), 1)
  t.ok((await metric(sluice, 'lookups_total{result="failed",source="server"}')) > 0)
  const names = await startNameServer(t, { 'up.test': ['127.0.0.1'] }, at)
  await until(async () => (await get()) === 200)
  await until(async () => (await reasons()).length === 0)
  t.ok(names.asked.includes('up.test A'))
  t.equal(await metric(sluice, 'failing_names{result="failed"}'), 0)
  t.equal(await metric(sluice, 'lookups_total{result="found",source="server"}'), 1)
  t.ok((await metric(sluice, 'lookup_duration_seconds_count')) >= 2)
})

t.test('a store whose name hangs holds up no other name', async (t) => {
  const server = await startPostgres(t)
  const line = await startCuttingProxy(t, server.port)
  const port = await web(t)
  const names = await startNameServer(t, { 'up.test': ['127.0.0.1'], 'db.test': ['127.0.0.1'] })
  names.ttl = 0
  const store = new URL(through(await server.database(), line.port))
  store.hostname = 'db.test'
  const sluice = await startSluice(t, {
    upstream: { host: 'up.test', port },
    options: { STORE: store.href, DNS_SERVERS: names.address }
  })
  t.ok(names.asked.includes('db.test A'), 'the store is found by the servers of the option')
  names.names.set('db.test', 'silent')
  line.cut()
  const reasons = () => reasonsOf(sluice)
  await until(async () => (await reasons()).includes('store_unreachable'))
  const { status } = await fetch(`http://127.0.0.1:${sluice.port}/`)
  t.equal(status, 200)
  await promisify(pbkdf2)('a', 'b', 1, 16, 'sha256')
  t.ok((await reasons()).includes('store_unreachable'), 'files and other names have not waited for the store')
  names.names.set('db.test', ['127.0.0.1'])
  line.mend()
  await until(async () => (await reasons()).length === 0)
})

t.test('an option for name servers that makes no sense is refused', async (t) => {
  await t.rejects(startSluice(t, { options: { DNS_SERVERS: 'ns.example.com' } }), /IP addresses of DNS servers/)
  await t.rejects(startSluice(t, { options: { DNS_RESOLVER: 'other' } }), /own, system/)
})
