import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import t from 'tap'
import { account, create } from '../helpers/account.js'
import { ManualClock } from '../helpers/clock.js'
import { rawClient } from '../helpers/raw-client.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { RawUpstream } from '../helpers/upstream.js'
import { freePort } from './free-port.js'

interface Edge {
  readonly id: string
  readonly port: number
}

interface Wanted {
  readonly upstream?: number
  readonly policy?: string
  readonly policies?: readonly string[]
}

async function tcpEdge(sluice: RunningSluice, { upstream, policy, policies }: Wanted): Promise<Edge> {
  const port = await freePort()
  const body: Record<string, unknown> = { hostports: [`localhost:${port}`] }
  if (upstream !== undefined) {
    const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream}` })
    body.backend = { enabled: true, backend_id: backend.id }
  }
  if (policy !== undefined) body.traffic_policy = { enabled: true, value: policy }
  if (policies !== undefined) body.ip_restriction = { enabled: true, ip_policy_ids: policies }
  return { id: (await create(sluice, '/edges/tcp', body)).id, port }
}

/** A connection that ends before anything is said; it may be reset before the client knows that it stands. */
async function turnedAway(port: number): Promise<void> {
  const socket = connect({ host: '127.0.0.1', port })
  let said = 0
  socket.on('data', (chunk: Buffer) => {
    said += chunk.length
  })
  socket.on('error', () => undefined)
  await new Promise((resolve) => socket.once('close', resolve))
  if (said > 0) throw new Error(`${said} bytes came`)
}

const rule = (action: string) => `on_tcp_connect: [{ actions: [${action}] }]`

/** The line of the connection that ended. */
const line = (sluice: RunningSluice, edge: Edge) =>
  sluice.line(({ msg, edge: id, bytes_in }) => msg === 'connection' && id === edge.id && bytes_in !== undefined)

t.test('bytes pass both ways, an end is passed on as an end of one direction, and the log tells', async (t) => {
  const sluice = await startSluice(t)
  const upstream = await RawUpstream.start(t)
  const edge = await tcpEdge(sluice, { upstream: upstream.port })
  const client = await rawClient(edge.port)
  const peer = await upstream.next()
  peer.send('first word of the server')
  await client.until('first word of the server')
  client.send('hello')
  await peer.until('hello')
  client.end()
  await peer.untilEnd()
  peer.send(', and all of this after the end of the client')
  await client.until('after the end of the client')
  peer.end()
  await client.closed
  t.match(await line(sluice, edge), {
    edge: edge.id,
    port: edge.port,
    client: '127.0.0.1',
    code: undefined,
    bytes_in: 5,
    bytes_out: 69,
    duration_ms: Number,
    started: String,
    ended: String,
    revision: Number
  })
})

t.test('a break of one side breaks the other', async (t) => {
  const sluice = await startSluice(t)
  const upstream = await RawUpstream.start(t)
  const edge = await tcpEdge(sluice, { upstream: upstream.port })
  const client = await rawClient(edge.port)
  client.send('x')
  const peer = await upstream.next()
  await peer.until('x')
  peer.reset()
  await client.closed
  t.equal(client.error, 'ECONNRESET')
  t.match(await line(sluice, edge), { code: 'CONNECTION_BROKEN' })
  const other = await rawClient(edge.port)
  other.send('y')
  const second = await upstream.next()
  await second.until('y')
  other.reset()
  await second.closed
  t.equal(second.error, 'ECONNRESET')
})

t.test('a reader that is slow holds the writer back, and nothing is lost', async (t) => {
  const sluice = await startSluice(t)
  const size = 32 * 1024 * 1024
  let written = 0
  let full = () => {}
  const stuck = new Promise<void>((resolve) => {
    full = resolve
  })
  const server = createServer((socket) => {
    const block = Buffer.alloc(64 * 1024, 'b')
    const write = () => {
      while (written < size) {
        written += block.length
        if (!socket.write(block)) {
          const timer = setTimeout(full, 300)
          socket.once('drain', () => {
            clearTimeout(timer)
            write()
          })
          return
        }
      }
      socket.end()
    }
    write()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const edge = await tcpEdge(sluice, { upstream: (server.address() as { port: number }).port })
  const client = connect({ host: '127.0.0.1', port: edge.port })
  client.pause()
  await stuck
  t.ok(written < size, `${written} bytes were taken from the writer`)
  let read = 0
  client.on('data', (chunk: Buffer) => {
    read += chunk.length
  })
  client.resume()
  await once(client, 'end')
  t.equal(read, size)
})

t.test(
  'on_tcp_connect decides before the first byte: deny, restrict-ips, close-connection; set-vars and log go on',
  async (t) => {
    const sluice = await startSluice(t)
    const upstream = await RawUpstream.start(t)
    for (const action of [
      '{ type: deny }',
      '{ type: close-connection }',
      '{ type: restrict-ips, config: { allow: [192.0.2.0/24] } }'
    ]) {
      const edge = await tcpEdge(sluice, { upstream: upstream.port, policy: rule(action) })
      const client = await rawClient(edge.port)
      await client.untilEnd()
      t.equal(client.text, '', action)
      t.match(await line(sluice, edge), { code: 'CONNECTION_REFUSED', rule: '#0', action: /deny|close|restrict/ })
    }
    t.equal(upstream.peers.length, 0)
    const policy = rule(
      '{ type: set-vars, config: { vars: [{ who: "${conn.client_ip} on ${endpoint.id} ${endpoint.protocol}" }] } }, ' +
        '{ type: log, config: { metadata: { who: "${vars.who}", password: hidden } } }'
    )
    const edge = await tcpEdge(sluice, { upstream: upstream.port, policy })
    const client = await rawClient(edge.port)
    const peer = await upstream.next()
    peer.end()
    client.end()
    await client.closed
    t.match(await line(sluice, edge), {
      logs: [{ who: `127.0.0.1 on ${edge.id} tcp`, password: '[redacted]' }]
    })
  }
)

t.test('a policy with HTTP phases, or with a limit of requests, is no policy of a TCP edge', async (t) => {
  const sluice = await startSluice(t)
  const call = account(sluice)
  const refused = async (value: string) => {
    const hostports = [`localhost:${await freePort()}`]
    const body = { hostports, traffic_policy: { enabled: true, value } }
    return (await call('/edges/tcp', { method: 'POST', body })).json
  }
  t.match(await refused('on_http_request: [{ actions: [{ type: deny }] }]'), {
    error_code: 'ERR_SLUICE_POLICY_PHASE'
  })
  const limit =
    '{ type: rate-limit, config: { name: a, algorithm: sliding_window, capacity: 1, rate: 60s, bucket_key: [conn.client_ip] } }'
  t.match(await refused(rule(limit)), { error_code: 'ERR_SLUICE_POLICY_ACTION_PHASE' })
})

t.test('a policy of old documents: inbound is on_tcp_connect here', async (t) => {
  const sluice = await startSluice(t)
  const upstream = await RawUpstream.start(t)
  const edge = await tcpEdge(sluice, { upstream: upstream.port, policy: 'inbound: [{ actions: [{ type: deny }] }]' })
  await (await rawClient(edge.port)).untilEnd()
  t.match(await line(sluice, edge), { code: 'CONNECTION_REFUSED', action: 'deny' })
})

t.test(
  'without a backend, or with one that is not there, the connection is closed; the backend heals it',
  async (t) => {
    const sluice = await startSluice(t)
    const bare = await tcpEdge(sluice, {})
    await turnedAway(bare.port)
    t.match(await line(sluice, bare), { code: 'NO_UPSTREAM' })
    const nobody = await freePort()
    const edge = await tcpEdge(sluice, { upstream: nobody })
    await turnedAway(edge.port)
    t.match(await line(sluice, edge), { code: 'UPSTREAM_REFUSED' })
    const fixed = await create(sluice, '/backends/http_response', { status_code: 200, body: 'x' })
    await account(sluice)(`/edges/tcp/${bare.id}/backend`, {
      method: 'PUT',
      body: { enabled: true, backend_id: fixed.id }
    })
    await turnedAway(bare.port)
    const upstream = await RawUpstream.start(t)
    const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
    const body = { enabled: true, backend_id: backend.id }
    t.equal((await account(sluice)(`/edges/tcp/${bare.id}/backend`, { method: 'PUT', body })).status, 200)
    const client = await rawClient(bare.port)
    client.send('healed')
    await (await upstream.next()).until('healed')
  }
)

t.test('silence ends a connection', async (t) => {
  const clock = new ManualClock()
  const sluice = await startSluice(t, { clock, options: { TIMEOUTS_IDLE: '40ms' } })
  const upstream = await RawUpstream.start(t)
  const edge = await tcpEdge(sluice, { upstream: upstream.port })
  const client = await rawClient(edge.port)
  client.send('x')
  await (await upstream.next()).until('x')
  const ended = client.closed
  const timer = setInterval(() => clock.advance(20), 5)
  await ended
  clearInterval(timer)
  t.match(await line(sluice, edge), { code: 'IDLE' })
})

t.test('beyond the budget of connections further ones are closed', async (t) => {
  const sluice = await startSluice(t, { options: { LIMITS_CONNECTIONS: '2' } })
  const upstream = await RawUpstream.start(t)
  const edge = await tcpEdge(sluice, { upstream: upstream.port })
  const [first, second] = [await rawClient(edge.port), await rawClient(edge.port)]
  for (const client of [first, second]) client.send('x')
  await upstream.next()
  await upstream.next()
  const third = await rawClient(edge.port)
  await third.untilEnd()
  first.reset()
  await first.closed
  await line(sluice, edge)
  // Its line may be written before its place is free.
  const next = upstream.next()
  for (let served = false; !served; ) {
    const client = await rawClient(edge.port)
    client.send('again')
    // Turned away it sees an end: what it sent before may be answered by a reset that a half-open socket does not notice.
    served = await Promise.race([next.then(() => true), client.untilEnd().then(() => false)])
  }
  await (await next).until('again')
})

t.test('a deleted edge takes nobody in and lets its connections end, until the drain time is over', async (t) => {
  const sluice = await startSluice(t, { options: { TIMEOUTS_DRAIN: '300ms' } })
  const upstream = await RawUpstream.start(t)
  const edge = await tcpEdge(sluice, { upstream: upstream.port })
  const client = await rawClient(edge.port)
  client.send('before')
  const peer = await upstream.next()
  await peer.until('before')
  t.equal((await account(sluice)(`/edges/tcp/${edge.id}`, { method: 'DELETE' })).status, 204)
  await t.rejects(rawClient(edge.port), { code: 'ECONNREFUSED' })
  client.send(' and after')
  await peer.until('before and after')
  await client.untilEnd()
  t.match(await line(sluice, edge), { code: 'DRAINING' })
})

t.test('a PROXY header of a trusted peer says who the client is', async (t) => {
  const sluice = await startSluice(t, { options: { TCP_PROXY_PROTOCOL: 'on', TRUSTED_PROXIES: '127.0.0.1/32' } })
  const upstream = await RawUpstream.start(t)
  const edge = await tcpEdge(sluice, {
    upstream: upstream.port,
    policy: rule('{ type: restrict-ips, config: { allow: [203.0.113.7/32] } }')
  })
  const client = await rawClient(edge.port)
  client.send('PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\nhello')
  const peer = await upstream.next()
  t.equal(await peer.until('hello'), 'hello', 'and is not passed on')
  peer.end()
  client.end()
  await client.closed
  t.match(await line(sluice, edge), { client: '203.0.113.7' })
  const other = await rawClient(edge.port)
  other.send('PROXY TCP4 203.0.113.8 192.0.2.1 4711 443\r\nhello')
  await other.untilEnd()
  const without = await rawClient(edge.port)
  without.send('hello')
  await without.untilEnd()
  t.equal(upstream.peers.length, 1)
})

t.test(
  'a policy leads a connection to an internal edge, whose own policy is asked too and whose port stays closed',
  async (t) => {
    const sluice = await startSluice(t)
    const upstream = await RawUpstream.start(t)
    const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
    const port = await freePort()
    const inner = await create(sluice, '/edges/tcp', {
      hostports: [`db.internal:${port}`],
      backend: { backend_id: backend.id },
      traffic_policy: { value: rule('{ type: log, config: { metadata: { by: inner } } }') }
    })
    const lead = (where: string) => rule(`{ type: forward-internal, config: { url: "tcp://${where}" } }`)
    const outer = await tcpEdge(sluice, { policy: lead(`db.internal:${port}`) })
    const client = await rawClient(outer.port)
    const peer = await upstream.next()
    peer.send('from inside')
    await client.until('from inside')
    client.end()
    peer.end()
    t.match(await line(sluice, outer), { logs: [{ by: 'inner' }] })
    const refused = connect({ host: '127.0.0.1', port })
    const [error] = await once(refused, 'error')
    t.match(error, { code: 'ECONNREFUSED' }, 'no client reaches it')

    await account(sluice)(`/edges/tcp/${inner.id}/traffic_policy`, {
      method: 'PUT',
      body: { value: lead(`db.internal:${port}`) }
    })
    await turnedAway(outer.port)
    await account(sluice)(`/edges/tcp/${inner.id}`, { method: 'DELETE' })
    await turnedAway(outer.port)
  }
)
