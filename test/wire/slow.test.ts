import { ManualClock } from '../helpers/clock.js'
import { startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { onEngines } from './engines.js'
import { statusOf } from './message.js'
import { ask, RawClient, Upstream } from './peers.js'

const GET = 'GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n'

onEngines('slow clients end at their time-outs, and nobody else notices', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const options = {
    TIMEOUTS_HEADERS: '1s',
    TIMEOUTS_KEEP_ALIVE: '400ms',
    TIMEOUTS_REQUEST_BODY: '300ms',
    ACCESS_LOG: 'off'
  }
  const sluice = await startSluice(t, { engine, upstream: upstream.address, options })
  const port = sluice.port

  const heads = await Promise.all(Array.from({ length: 200 }, () => RawClient.open(port)))
  for (const client of heads) client.write('GET /slow HTTP/1.1\r\nHost: a.test\r\nX-A')
  // A byte now and then must not keep the connection alive.
  const drip = setInterval(() => {
    for (const client of heads) if (!client.closed) client.write('a')
  }, 100)
  t.teardown(() => clearInterval(drip))

  const times: number[] = []
  for (let i = 0; i < 50; i++) {
    const begun = performance.now()
    t.equal((await ask(port, GET))?.body, 'ok')
    times.push(performance.now() - begun)
  }
  times.sort((a, b) => a - b)
  t.ok((times[45] as number) < 100, `90 of 100 requests beside them within ${times[45]} ms`)

  await t.test('a head', async (t) => {
    const ended = await Promise.all(heads.map((client) => client.until(() => client.closed, 4_000)))
    t.equal(ended.filter((one) => one).length, 200, 'all of them are closed')
    t.same([...new Set(heads.map(({ answers }) => answers.map(statusOf).join()))], ['408'])
    clearInterval(drip)
    for (const client of heads) client.close()
  })

  await t.test('a body', async (t) => {
    upstream.reset()
    const client = await RawClient.open(port)
    client.write('POST /slow HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100\r\n\r\nhello')
    await upstream.until(() => upstream.connections.some(({ text }) => text.includes('POST /slow')))
    const [connection] = upstream.connections.filter(({ text }) => text.includes('POST /slow'))
    t.ok(await client.until(() => client.closed, 3_000))
    t.same(client.answers.map(statusOf), [408])
    await connection?.closed
    t.same(upstream.requests, [], 'the upstream sees no complete request')
  })

  await t.test('a body that comes slowly but comes', async (t) => {
    const client = await RawClient.open(port)
    client.write('POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: 6\r\n\r\n')
    for (const byte of 'slowly') {
      await new Promise((resolve) => setTimeout(resolve, 100))
      client.write(byte)
    }
    t.ok(await client.until(() => client.answers.length === 1))
    t.same(client.answers.map(statusOf), [200], 'only silence ends it')
    client.close()
  })

  await t.test('no request', async (t) => {
    const used = await RawClient.open(port)
    await used.ask(GET)
    t.ok(await used.until(() => used.closed, 3_000), 'an idle connection is closed')
    t.equal(used.rest, '', 'without a word')
    used.close()
  })
})

onEngines('a client that does not read is given up, and its upstream with it', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, {
    engine,
    upstream: upstream.address,
    options: { TIMEOUTS_IDLE: '400ms' }
  })
  upstream.reply = (_request, { socket }) => {
    const block = 'x'.repeat(65_536)
    const push = (): void => {
      while (!socket.destroyed && socket.write(block));
    }
    socket.on('drain', push)
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n')
    push()
    return undefined
  }
  const client = await RawClient.open(sluice.port)
  client.write(GET)
  await client.until(() => client.text.length > 0)
  client.socket.pause()
  const [connection] = upstream.connections
  await connection?.closed
  t.ok((connection?.socket.bytesWritten ?? 0) < 64 * 1_048_576, 'the upstream was paused, not buffered')
  client.close()
})

onEngines('more connections than allowed are closed', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, { engine, upstream: upstream.address, options: { LIMITS_CONNECTIONS: '5' } })
  const clients: RawClient[] = []
  for (let i = 0; i < 5; i++) {
    const client = await RawClient.open(sluice.port)
    t.equal((await client.ask(GET))?.body, 'ok')
    clients.push(client)
  }
  const sixth = await RawClient.open(sluice.port)
  const answer = await sixth.ask(GET)
  t.ok(answer === undefined || statusOf(answer) === 503, 'the sixth gets no service')
  t.ok(await sixth.until(() => sixth.closed))
  t.equal((await clients[0]?.ask(GET))?.body, 'ok', 'the others go on')
  clients[0]?.close()
  let again: string | undefined
  for (let i = 0; i < 50 && again !== 'ok'; i++) again = (await ask(sluice.port, GET))?.body
  t.equal(again, 'ok', 'a place becomes free')
  for (const client of clients) client.close()
})

const REPLACING = `
on_http_request:
  - actions: [{ type: request-body-find-replace, config: { replacements: [{ from: hello, to: HELLO }] } }]
`
const post = (client: string, length: number, body: string): string =>
  `POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/plain\r\nX-Forwarded-For: ${client}\r\nContent-Length: ${length}\r\n\r\n${body}`

onEngines('clients whose bodies trickle in take no room from others, and end with 408', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const clock = new ManualClock()
  const options = {
    TRUSTED_PROXIES: '127.0.0.0/8',
    LIMITS_BUFFERED_BODY: '256KiB',
    LIMITS_BUFFERED_BODIES: '1MiB',
    TIMEOUTS_REQUEST_BODY: '0s'
  }
  const sluice = await startSluice(t, { engine, upstream: upstream.address, policy: REPLACING, options, clock })
  const part = 'x'.repeat(200_000)
  const slow = await Promise.all(Array.from({ length: 8 }, () => RawClient.open(sluice.port)))
  for (const client of slow) client.write(post('192.0.2.1', 250_000, part))
  const shared = () => slow.filter(({ answers }) => answers.some((answer) => statusOf(answer) === 429))
  await until(() => shared().length >= 6)
  t.equal(shared().length, 6, 'two bodies are the share')
  const answer = await ask(sluice.port, post('192.0.2.2', 5, 'hello'))
  t.equal(answer && statusOf(answer), 200, 'an honest client is served')
  t.equal(upstream.requests.at(-1)?.body, 'HELLO')
  t.match(await sluice.line(({ code }) => code === 'BODY_SHARE'), { client: '192.0.2.1', status: 429 })

  clock.advance(60_001)
  const late = () => slow.filter(({ answers }) => answers.some((one) => statusOf(one) === 408))
  await until(() => late().length === 2)
  t.ok(await late()[0]?.until(() => late().every(({ closed }) => closed), 5_000), 'and their connections end')
  const again = await ask(sluice.port, post('192.0.2.1', 5, 'hello'))
  t.equal(again && statusOf(again), 200, 'what they held is free again')
  for (const client of slow) client.close()
})
