import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { Balancer } from '../../src/proxy/balance.js'
import { account, create, site, visit } from '../helpers/account.js'
import { makeFlow } from '../helpers/flow.js'
import { startSluice } from '../helpers/sluice.js'
import { onEngines } from '../wire/engines.js'

const HOST = 'shop.example.com'
const USER = "req.headers['x-user'][0]"
const KEYS = Array.from({ length: 6_000 }, (_, i) => `user-${i}@example.com`)

/** Who has each key: the name of the member. */
function owners(members: Readonly<Record<string, number>>, down: readonly string[] = []): string[] {
  const names = Object.keys(members)
  const balancer = new Balancer({ balance: 'hash', hashKey: USER }, names)
  const shares = names
    .map((name, index) => ({ index, weight: members[name] as number, load: 0, name }))
    .filter(({ name }) => !down.includes(name))
  return KEYS.map((key) => names[balancer.take(shares, makeFlow({ headers: ['X-User', key] })) as number] as string)
}

/** Names between which keys moved: `from>to`. */
function moves(before: readonly string[], after: readonly string[]): Set<string> {
  return new Set(before.flatMap((name, i) => (name === after[i] ? [] : `${name}>${after[i]}`)))
}

const count = (all: readonly string[], name: string) => all.filter((one) => one === name).length

t.test('each server has keys in proportion to its weight, whatever the order of the servers', async (t) => {
  const weights = { 'upstream:a': 1, 'upstream:b': 2, 'upstream:c': 3, 'upstream:d': 4 }
  const all = owners(weights)
  for (const [name, weight] of Object.entries(weights)) {
    const due = (KEYS.length * weight) / 10
    t.ok(Math.abs(count(all, name) - due) < 0.1 * due + 20, `${name}: ${count(all, name)} of ${due}`)
  }
  t.same(owners(Object.fromEntries(Object.entries(weights).reverse())), all)
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`upstream:bkdsc_${i}`, 1]))
  for (const name of Object.keys(many)) {
    const has = count(owners(many), name)
    t.ok(has > 220 && has < 380, `${name}: ${has} of 300`)
  }
})

t.test('keys move only from or to the server that changes', async (t) => {
  const five = { a: 2, b: 1, c: 3, d: 1, e: 1 }
  const before = owners(five)
  for (const gone of Object.keys(five)) {
    const rest = Object.fromEntries(Object.entries(five).filter(([name]) => name !== gone))
    const after = owners(rest)
    t.ok(
      [...moves(before, after)].every((move) => move.startsWith(`${gone}>`)),
      `without ${gone}`
    )
    t.equal(count(after, gone), 0)
    t.ok(moves(before, after).size > 1, 'its keys are shared by all others')
    t.same(owners(five, [gone]), after, 'one that is down leaves its keys to the same servers')
    t.ok(
      [...moves(after, before)].every((move) => move.endsWith(`>${gone}`)),
      `${gone} comes`
    )
  }
  t.ok([...moves(before, owners({ ...five, f: 1 }))].every((move) => move.endsWith('>f')))
  t.ok(
    [...moves(before, owners({ ...five, c: 5 }))].every((move) => move.endsWith('>c')),
    'more weight'
  )
  t.ok(
    [...moves(before, owners({ ...five, c: 1 }))].every((move) => move.startsWith('c>')),
    'less weight'
  )
})

async function named(t: Test, name: string, port = 0): Promise<{ readonly port: number; readonly server: Server }> {
  const server = createServer((_request, response) => response.end(name))
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, server }
}

onEngines('requests with one key have one server; without a key they take turns', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const servers = await Promise.all(['a', 'b', 'c'].map((name) => named(t, name)))
  const backends: Record<string, number> = {}
  for (const { port } of servers)
    backends[(await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })).id] = 1
  const { id } = await create(sluice, '/backends/weighted', { backends, balance: 'hash', hash_key: USER })
  await site(sluice, HOST, { backend: { backend_id: id } })
  const of = async (user: string) => (await visit(sluice, HOST, { headers: { 'x-user': user } })).body
  const users = Array.from({ length: 30 }, (_, i) => `u${i}`)
  const all = async () => {
    const seen: string[] = []
    for (const user of users) seen.push(await of(user))
    return seen
  }
  const first = await all()
  t.same(new Set(first), new Set(['a', 'b', 'c']))
  t.same(await all(), first)
  const turns: string[] = []
  for (let i = 0; i < 9; i++) turns.push((await visit(sluice, HOST)).body)
  for (const name of ['a', 'b', 'c']) t.equal(count(turns, name), 3)
  for (let i = 0; i < 3; i++) turns.push(await of(''))
  t.equal(new Set(turns.slice(9)).size, 3, 'an empty value is none')

  const [gone] = servers
  gone?.server.closeAllConnections()
  gone?.server.close()
  await of(users[first.indexOf('a')] as string)
  const without = await all()
  t.ok([...moves(first, without)].every((move) => move.startsWith('a>')))
  t.same(new Set(without), new Set(['b', 'c']))
})

t.test('a wrong hash key is refused with its place, and so is one without effect', async (t) => {
  const sluice = await startSluice(t)
  const { id } = await create(sluice, '/backends/static', { address: '127.0.0.1:1' })
  const refused = async (body: Readonly<Record<string, unknown>>, field: string, says: RegExp) =>
    t.match(await account(sluice)('/backends/weighted', { method: 'POST', body: { backends: { [id]: 1 }, ...body } }), {
      status: 400,
      json: { msg: says, details: { field } }
    })
  const hash = (hash_key: string) => ({ balance: 'hash', hash_key })
  await refused(hash(''), 'hash_key', /required with balance hash/)
  await refused({ hash_key: USER }, 'hash_key', /goes with balance hash alone/)
  await refused(hash("req.headers['x-user'"), 'hash_key', /at \d+: .*/)
  await refused(hash('req.heders'), 'hash_key', /at 1: .*req\.headers/)
  await refused(hash("req.headers['x-user']"), 'hash_key', /must be one value.*write \[0\]/)
  await refused(hash('string(rand.int())'), 'hash_key', /at \d+: /)
  await refused(hash("secrets.get('a', 'b')"), 'hash_key', /at \d+: /)
  await refused({ sticky: { cookie: 'a b' } }, 'sticky.cookie', /name of a cookie/)
  await refused({ sticky: { cookie: '__Host-a' } }, 'sticky.cookie', /over TLS alone/)
  await refused({ sticky: { path: '/;a' } }, 'sticky.path', /must begin with/)
  const group = { labels: { app: 'x' }, ...hash('nonsense') }
  t.match(await account(sluice)('/backends/tunnel_group', { method: 'POST', body: group }), {
    status: 400,
    json: { details: { field: 'hash_key' } }
  })
})
