import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { ServerPlaces, shareOf } from '../../src/proxy/server-places.js'
import { AbortList } from '../../src/transport/deadlines.js'
import { account, create, type Seen, site, visit } from '../helpers/account.js'
import { rawClient } from '../helpers/raw-client.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { RawUpstream, type UpstreamPeer } from '../helpers/upstream.js'
import { Random } from '../transport/codec-fuzz.js'
import { freePort } from './free-port.js'

const turn = () => new Promise((resolve) => setImmediate(resolve))

t.test('places are never more than there are, and whoever waits gets one in order', async (t) => {
  const random = new Random(3)
  for (let round = 0; round < 30; round++) {
    const most = 1 + random.next(4)
    const length = random.next(6)
    const places = new ServerPlaces({ maxConnections: most, queue: { length, timeout: 60_000 } })
    const ends: (() => void)[] = []
    const waiting: { readonly number: number; readonly signal: AbortList }[] = []
    const served: number[] = []
    let refused = 0
    for (let number = 0; number < 60; number++) {
      const step = random.next(5)
      if (step === 0) await turn()
      else if (step === 1 && ends.length > 0) {
        const [end] = ends.splice(random.next(ends.length), 1)
        end?.()
        end?.()
      } else if (step === 2 && waiting.length > 0) {
        const [gone] = waiting.splice(random.next(waiting.length), 1)
        gone?.signal.abort('client-gone')
      } else if (places.state === 'free') ends.push(places.take())
      else {
        const signal = new AbortList()
        const one = { number, signal }
        waiting.push(one)
        places.wait(
          signal,
          () => {
            served.push(number)
            t.equal(waiting.shift(), one, 'in order')
            ends.push(places.take())
          },
          ({ failure }) => {
            if (failure !== 'upstream-busy') return
            refused++
            waiting.splice(waiting.indexOf(one), 1)
          }
        )
      }
      if (places.active > most || places.waiting > length)
        t.fail(`${places.active} of ${most}, ${places.waiting} of ${length}`)
      if (places.active !== ends.length || places.waiting !== waiting.length) t.fail('counts')
    }
    while (ends.length > 0 || places.waiting > 0) {
      ends.pop()?.()
      await turn()
    }
    t.equal(places.active, 0)
    t.equal(places.state, 'free')
    t.equal(places.refused, refused)
    t.same(
      served,
      [...served].sort((one, other) => one - other)
    )
  }
})

t.test('threads share the places, and none is without', (t) => {
  const unit = { kind: 'upstream', form: 'address', protocol: 'http', host: 'a', port: 1 } as const
  t.equal(shareOf(unit, 4), unit)
  for (const [most, threads, each] of [
    [50, 1, 50],
    [50, 4, 12],
    [4, 4, 1],
    [3, 4, 1]
  ] as const)
    t.equal(shareOf({ ...unit, maxConnections: most }, threads).maxConnections, each)
  t.end()
})

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
const BUSY = { status: 503, headers: { 'sluice-error-code': 'UPSTREAM_BUSY' } }

interface Gate {
  readonly upstream: RawUpstream
  /** Targets of the requests that it has, in order. */
  readonly asked: string[]
  /** Answers the oldest request that has none. */
  answer(): void
  /** Resolves when it has been asked so often. */
  until(requests: number): Promise<void>
}

/** An upstream that answers when it is told. */
async function gate(t: Test): Promise<Gate> {
  const peers: UpstreamPeer[] = []
  const asked: string[] = []
  let wake = () => undefined as unknown
  const upstream = await RawUpstream.start(t, async (peer) => {
    for (;;) {
      asked.push((await peer.request()).line.split(' ')[1] as string)
      peers.push(peer)
      wake()
    }
  })
  return {
    upstream,
    asked,
    answer: () => peers.shift()?.send(OK),
    async until(requests) {
      while (asked.length < requests) await new Promise<unknown>((resolve) => (wake = () => resolve(undefined)))
    }
  }
}

async function metric(sluice: RunningSluice, name: string): Promise<number> {
  const { text } = await account(sluice)('/metrics')
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

/** Resolves when so many wait. */
async function waiting(sluice: RunningSluice, many: number): Promise<void> {
  while ((await metric(sluice, 'sluice_upstream_waiting')) !== many) await turn()
}

t.test('a server carries no more than max_connections; further requests wait in turn, within bounds', async (t) => {
  const sluice = await startSluice(t)
  const { upstream, asked, answer, until } = await gate(t)
  const { id } = await create(sluice, '/backends/static', {
    address: `127.0.0.1:${upstream.port}`,
    max_connections: 1,
    queue: { length: 2, timeout: 60 }
  })
  await site(sluice, 'a.example.com', { backend: { backend_id: id } })
  const get = (path: string) => visit(sluice, 'a.example.com', { path })
  const first = get('/1')
  await until(1)
  const second = get('/2')
  await waiting(sluice, 1)
  const gone = await rawClient(sluice.port)
  gone.send('GET /gone HTTP/1.1\r\nHost: a.example.com\r\n\r\n')
  await waiting(sluice, 2)
  t.match(await get('/crowded'), BUSY)
  gone.socket.resetAndDestroy()
  await waiting(sluice, 1)
  const third = get('/3')
  await waiting(sluice, 2)
  const answers: Seen[] = []
  for (const [index, one] of [first, second, third].entries()) {
    await until(index + 1)
    answer()
    answers.push(await one)
  }
  for (const seen of answers) t.match(seen, { status: 200, body: 'ok' })
  t.same(asked, ['/1', '/2', '/3'])
  t.equal(upstream.peers.length, 1, 'one connection served them all')
  t.equal(await metric(sluice, 'sluice_upstream_busy_total'), 1)
  t.equal(await metric(sluice, 'sluice_upstream_active'), 0)
})

t.test('who waits too long is refused, and the server is not to blame', async (t) => {
  const sluice = await startSluice(t)
  const ask = account(sluice)
  const { upstream, answer, until } = await gate(t)
  const { id } = await create(sluice, '/backends/static', {
    address: `127.0.0.1:${upstream.port}`,
    max_connections: 1,
    queue: { timeout: 0.05 },
    passive_health: { failures: 1 }
  })
  await site(sluice, 'a.example.com', { backend: { backend_id: id } })
  const first = visit(sluice, 'a.example.com')
  await until(1)
  t.match(await visit(sluice, 'a.example.com'), BUSY)
  answer()
  t.match(await first, { status: 200 })
  t.match(await ask(`/backends/static/${id}`), { json: { state: { status: 'unchecked' } } })
})

t.test('a server with a place goes before one without, a backup does not, and a cookie keeps its server', async (t) => {
  const sluice = await startSluice(t)
  const [one, other] = [await gate(t), await gate(t)]
  const made = async ({ upstream }: Gate) =>
    (await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}`, max_connections: 1 })).id
  const [a, b] = [await made(one), await made(other)]
  const weighted = { backends: { [a]: 100, [b]: 1 }, sticky: { cookie: 'at' } }
  const shared = await create(sluice, '/backends/weighted', weighted)
  await site(sluice, 'a.example.com', { backend: { backend_id: shared.id } })
  const held = [visit(sluice, 'a.example.com'), visit(sluice, 'a.example.com')]
  await Promise.all([one.until(1), other.until(1)])
  one.answer()
  other.answer()
  const cookies = (await Promise.all(held)).map(({ headers }) => String(headers['set-cookie']).split(';')[0] as string)
  const again = visit(sluice, 'a.example.com', { headers: { cookie: cookies[0] as string } })
  await Promise.race([one.until(2), other.until(2)])
  const [busy, idle] = one.asked.length === 2 ? [one, other] : [other, one]
  const kept = visit(sluice, 'a.example.com', { headers: { cookie: cookies[0] as string } })
  await waiting(sluice, 1)
  busy.answer()
  await busy.until(3)
  busy.answer()
  t.match(await Promise.all([again, kept]), [{ status: 200 }, { status: 200 }])
  t.equal(idle.asked.length, 1)

  const failover = await create(sluice, '/backends/failover', { backends: [a, b] })
  await site(sluice, 'b.example.com', { backend: { backend_id: failover.id } })
  const asked = other.asked.length
  const before = one.asked.length
  const two = [visit(sluice, 'b.example.com'), visit(sluice, 'b.example.com')]
  for (const number of [1, 2]) {
    await one.until(before + number)
    one.answer()
  }
  t.match(await Promise.all(two), [{ status: 200 }, { status: 200 }])
  t.equal(other.asked.length, asked, 'the second server stands in for one that is down alone')
})

t.test('connections to TCP edges take places, too', async (t) => {
  const sluice = await startSluice(t)
  const upstream = await RawUpstream.start(t)
  const backend = await create(sluice, '/backends/static', {
    address: `127.0.0.1:${upstream.port}`,
    max_connections: 1,
    queue: { length: 1 }
  })
  const port = await freePort()
  await create(sluice, '/edges/tcp', {
    hostports: [`localhost:${port}`],
    backend: { enabled: true, backend_id: backend.id }
  })
  const first = await rawClient(port)
  const peer = await upstream.next()
  const second = await rawClient(port)
  second.send('second')
  await waiting(sluice, 1)
  t.equal(upstream.peers.length, 1)
  const crowded = connect(port, '127.0.0.1').on('error', () => undefined)
  await new Promise((resolve) => crowded.once('close', resolve))
  t.equal(await metric(sluice, 'sluice_upstream_busy_total'), 1)
  first.socket.end()
  peer.socket.end()
  await (await upstream.next()).until('second')
  second.socket.destroy()
})
