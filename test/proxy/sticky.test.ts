import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { HeaderFields } from '../../src/flow/headers.js'
import { StickyCookies } from '../../src/proxy/sticky.js'
import type { Sticky } from '../../src/runtime/plan.js'
import { account, create, type Seen, site, visit } from '../helpers/account.js'
import { ManualClock } from '../helpers/clock.js'
import { makeFlow } from '../helpers/flow.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { onEngines } from '../wire/engines.js'

const HOST = 'shop.example.com'

interface Named {
  readonly name: string
  readonly port: number
  readonly server: Server
  /** The Cookie field of each request. */
  readonly cookies: (string | undefined)[]
}

async function named(t: Test, name: string): Promise<Named> {
  const cookies: (string | undefined)[] = []
  const server = createServer((request, response) => {
    cookies.push(request.headers.cookie)
    response.end(name)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { name, port: (server.address() as AddressInfo).port, server, cookies }
}

async function weighted(sluice: RunningSluice, servers: readonly Named[], more: object): Promise<string> {
  const backends: Record<string, number> = {}
  for (const { port } of servers)
    backends[(await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })).id] = 1
  return (await create(sluice, '/backends/weighted', { backends, ...more })).id
}

/** The one cookie that an answer sets: name and value, and the whole line; undefined when it sets none. */
function setBy({ headers }: Seen): { readonly pair: string; readonly line: string } | undefined {
  const lines = headers['set-cookie'] ?? []
  if (lines.length > 1) throw new Error(`several cookies: ${lines}`)
  const [line] = lines
  return line === undefined ? undefined : { pair: line.split(';')[0] as string, line }
}

onEngines('a client keeps its server by a sealed cookie that no server sees', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  const servers = [await named(t, 'one'), await named(t, 'two'), await named(t, 'three')]
  const id = await weighted(sluice, servers, { sticky: { cookie: 'shop' } })
  await site(sluice, HOST, { backend: { backend_id: id } })
  const first = await visit(sluice, HOST)
  const { pair, line } = setBy(first) as { pair: string; line: string }
  t.match(line, /^shop=slb1\.[A-Za-z0-9_-]+; Path=\/; HttpOnly; SameSite=Lax$/)
  const text = Buffer.from(pair.replace('shop=slb1.', ''), 'base64url').toString('latin1')
  t.notMatch(text, /127\.0\.0\.1|bkdsc|upstream/, 'it says nothing about the server')
  for (let i = 0; i < 12; i++) {
    const again = await visit(sluice, HOST, { headers: { cookie: `a=1; ${pair}; b=2` } })
    t.equal(again.body, first.body)
    t.equal(setBy(again), undefined, 'it has the cookie')
  }
  const own = servers.find(({ name }) => name === first.body) as Named
  t.same(own.cookies.slice(1), Array(12).fill('a=1; b=2'))
  const seen = new Set<string>()
  for (let i = 0; i < 6; i++) seen.add((await visit(sluice, HOST)).body)
  t.equal(seen.size, 3, 'others take turns')

  const tampered = pair.slice(0, -3) + (pair.endsWith('AAA') ? 'BBB' : 'AAA')
  for (const forged of [tampered, 'shop=bkdsc_1', 'shop=slb1.', 'shop=slb1.AAAA']) {
    const answer = await visit(sluice, HOST, { headers: { cookie: `x=1; ${forged}` } })
    t.match(setBy(answer)?.line, /^shop=slb1\./, `${forged} is replaced`)
    const server = servers.find(({ name }) => name === answer.body) as Named
    t.equal(server.cookies.at(-1), 'x=1', 'and is not forwarded')
  }
  const secure = await visit(sluice, HOST, { headers: { 'x-forwarded-proto': 'https' } })
  t.notMatch(setBy(secure)?.line, /Secure/, 'what an untrusted client claims does not count')

  // Its server goes: the answer comes from another one and says so.
  own.server.closeAllConnections()
  own.server.close()
  const moved = await visit(sluice, HOST, { headers: { cookie: pair } })
  t.equal(moved.status, 200)
  t.not(moved.body, first.body)
  const next = setBy(moved) as { pair: string }
  t.not(next.pair, pair)
  for (let i = 0; i < 4; i++) t.equal((await visit(sluice, HOST, { headers: { cookie: next.pair } })).body, moved.body)

  const other = await weighted(sluice, servers, { sticky: { cookie: 'shop' } })
  await site(sluice, 'b.example.com', { backend: { backend_id: other } })
  t.ok(setBy(await visit(sluice, 'b.example.com', { headers: { cookie: next.pair } })), 'it is of one backend alone')
  const fixed = await create(sluice, '/backends/static', { address: `127.0.0.1:${servers[1]?.port}` })
  await site(sluice, 'c.example.com', { backend: { backend_id: fixed.id } })
  await visit(sluice, 'c.example.com', { headers: { cookie: `z=9; ${next.pair}` } })
  t.equal(servers[1]?.cookies.at(-1), 'z=9', 'nor does a backend without cookies pass it on')
})

t.test('a cookie with an end is renewed in its second half, and ignored after it', async (t) => {
  const clock = new ManualClock()
  const sluice = await startSluice(t, { clock })
  const servers = [await named(t, 'one'), await named(t, 'two')]
  const sticky = { ttl: 100, path: '/shop', same_site: 'strict' }
  const id = await weighted(sluice, servers, { sticky })
  await site(sluice, HOST, { backend: { backend_id: id } })
  const first = await visit(sluice, HOST)
  const { pair, line } = setBy(first) as { pair: string; line: string }
  t.match(line, /^sluice-[A-Za-z0-9]+=slb1\.[^;]+; Path=\/shop; Max-Age=100; HttpOnly; SameSite=Strict$/)
  clock.advance(49_000)
  t.equal(setBy(await visit(sluice, HOST, { headers: { cookie: pair } })), undefined)
  clock.advance(2_000)
  const renewed = await visit(sluice, HOST, { headers: { cookie: pair } })
  t.equal(renewed.body, first.body)
  const { pair: second } = setBy(renewed) as { pair: string }
  clock.advance(60_000)
  t.ok(setBy(await visit(sluice, HOST, { headers: { cookie: pair } })), 'the first one is over')
  t.equal((await visit(sluice, HOST, { headers: { cookie: second } })).body, first.body)
})

t.test('in front of a failover the cookie of the group that answered holds', async (t) => {
  const sluice = await startSluice(t)
  const servers = [await named(t, 'one'), await named(t, 'two')]
  const group = await weighted(sluice, servers, { sticky: {}, balance: 'least_requests' })
  const { id } = await create(sluice, '/backends/failover', { backends: [group] })
  await site(sluice, HOST, { backend: { backend_id: id } })
  const first = await visit(sluice, HOST)
  const { pair } = setBy(first) as { pair: string }
  for (let i = 0; i < 6; i++) t.equal((await visit(sluice, HOST, { headers: { cookie: pair } })).body, first.body)
  const ask = account(sluice)
  t.match((await ask(`/backends/weighted/${group}`)).json, {
    sticky: { cookie: '', ttl: 0, path: '', same_site: 'lax' }
  })
  await ask(`/backends/weighted/${group}`, { method: 'PATCH', body: { sticky: null } })
  const plain = await visit(sluice, HOST, { headers: { cookie: pair } })
  t.equal(setBy(plain), undefined)
  t.ok(servers.every(({ cookies }) => cookies.every((one) => one === undefined)))
})

t.test(
  'what one process has sealed opens in another with the same keys, and over TLS the cookie is for TLS',
  async (t) => {
    const clock = new ManualClock()
    const [old, now] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
    const made = (...keys: Uint8Array[]) => {
      const cookies = new StickyCookies(clock)
      cookies.useKeys(keys)
      return cookies
    }
    const sticky: Sticky = { cookie: 'c', path: '/', sameSite: 'None' }
    const grant = (cookies: StickyCookies, scheme: 'http' | 'https') => {
      const headers = new HeaderFields([])
      cookies.grant(
        makeFlow({ url: `${scheme}://app.example.com/` }),
        [{ owner: 'u', sticky, member: 'm', kept: false }],
        headers
      )
      return headers.get('set-cookie') ?? ''
    }
    const line = grant(made(old), 'https')
    t.match(line, /; Path=\/; HttpOnly; SameSite=None; Secure$/)
    t.match(grant(made(old), 'http'), /; HttpOnly; SameSite=Lax$/, 'None needs TLS')
    t.equal(grant(made(), 'http'), '', 'without a key there is no cookie')
    const held = (cookies: StickyCookies, owner = 'u') => {
      const flow = makeFlow({ headers: ['Cookie', line.split(';')[0] as string] })
      cookies.take(flow)
      return cookies.held(flow, owner, sticky)
    }
    t.same(held(made(old)), { member: 'm', renew: false })
    t.same(held(made(now, old)), { member: 'm', renew: false }, 'the key was changed')
    t.equal(held(made(now)), undefined)
    const both = made(old)
    t.ok(held(both))
    t.equal(held(both, 'other'), undefined, 'of another backend')
    t.ok(held(both))
    clock.advance(-3_600_000)
    t.equal(held(both), undefined, 'from the future')
  }
)
