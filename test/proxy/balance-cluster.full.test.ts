import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { create, site, visit } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { startPostgres } from '../store/postgres-server.js'

t.test('every process of a store has one owner for a key, and reads the cookies of the others', async (t) => {
  const postgres = await startPostgres(t)
  const options = { STORE: await postgres.database(), API_RATE_LIMIT: 'off' }
  const [here, there] = [await startSluice(t, { options }), await startSluice(t, { options })]
  const backends: Record<string, number> = {}
  for (const name of ['a', 'b', 'c']) {
    const server = createServer((_request, response) => response.end(name)).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
    backends[(await create(here, '/backends/static', { address })).id] = 1
  }
  const of = async (host: string, body: object) => {
    const { id } = await create(here, '/backends/weighted', { backends, ...body })
    await site(here, host, { backend: { backend_id: id } })
  }
  await of('hash.example.com', { balance: 'hash', hash_key: "req.headers['x-user'][0]" })
  await of('sticky.example.com', { sticky: {} })
  await until(async () => (await visit(there, 'sticky.example.com')).status === 200)
  for (let i = 0; i < 20; i++) {
    const headers = { 'x-user': `user ${i}` }
    const owner = (await visit(here, 'hash.example.com', { headers })).body
    t.equal((await visit(there, 'hash.example.com', { headers })).body, owner)
  }
  for (let i = 0; i < 6; i++) {
    const first = await visit(here, 'sticky.example.com')
    const cookie = String(first.headers['set-cookie']?.[0]?.split(';')[0])
    const second = await visit(there, 'sticky.example.com', { headers: { cookie } })
    t.equal(second.body, first.body)
    t.equal(second.headers['set-cookie'], undefined)
  }
})
