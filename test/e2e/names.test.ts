import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { receiver } from '../events/receiver.js'
import { create } from '../helpers/account.js'
import { startNameServer } from '../helpers/name-server.js'
import { engines, startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'

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
})

t.test('an option for name servers that makes no sense is refused', async (t) => {
  await t.rejects(startSluice(t, { options: { DNS_SERVERS: 'ns.example.com' } }), /IP addresses of DNS servers/)
  await t.rejects(startSluice(t, { options: { DNS_RESOLVER: 'other' } }), /own, system/)
})
