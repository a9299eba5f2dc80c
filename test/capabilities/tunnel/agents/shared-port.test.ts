import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect as connectHttp2 } from 'node:http2'
import { connect as connectTcp, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { Agent } from '../../../../src/capabilities/tunnel/client/agent.js'
import { systemClock } from '../../../../src/lib/clock.js'
import { create } from '../../../helpers/account.js'
import { engines, startSluice } from '../../../helpers/sluice.js'
import { freePort } from '../../../proxy/free-port.js'
import { authority } from '../../../proxy/tls-client.js'
import { ourAgent } from '../our-agent.js'
import { DATA, frame, RawAgent, SYN, word } from '../raw-agent.js'
import { Upstream } from '../upstream.js'
import { HOST, LABELS, secured, startShared, visitTls } from './shared.js'

for (const engine of engines) {
  t.test(`${engine}: agents and visitors on one port`, async (t) => {
    const { sluice, port, token, agents } = await startShared(t, { engine })
    const upstream = await Upstream.start(t)
    const agent = await ourAgent.start(agents, token, { labels: LABELS, target: upstream.port })
    t.teardown(() => agent.close())
    const browser = { alpn: ['h2', 'http/1.1'] }

    await t.test('a browser', async (t) => {
      const session = connectHttp2(`https://${HOST}`, { createConnection: () => secured(port, HOST, ['h2']) })
      const stream = session.request({ ':path': '/two', ':authority': HOST })
      const [head] = await once(stream, 'response')
      t.equal(head[':status'], 200)
      t.equal(String(Buffer.concat(await stream.toArray())), 'hello from /two')
      session.close()
      t.same(await visitTls(port, HOST, { path: '/one', alpn: ['http/1.1'] }), { status: 200, body: 'hello from /one' })
    })

    await t.test('a client that offers no protocol', async (t) => {
      t.same(await visitTls(port, HOST, { path: '/old' }), { status: 200, body: 'hello from /old' })
    })

    await t.test('a client that names nobody', async (t) => {
      t.same(await visitTls(port, undefined, { path: '/ip' }), { status: 200, body: 'hello from /ip' })
    })

    await t.test('a name of both', async (t) => {
      t.same(await visitTls(port, 'localhost', { path: '/x' }), { status: 200, body: 'hello from /x' })
      const shown = secured(port, 'localhost', browser.alpn)
      await once(shown, 'secureConnect')
      t.match(shown.getPeerCertificate().subject.CN, /development/, 'who offers a protocol is a visitor')
      shown.destroy()
    })

    await t.test('what is neither', async (t) => {
      const noise = secured(port, 'localhost', undefined)
      await once(noise, 'secureConnect')
      noise.write(Buffer.from([0xff, 0x00, 0x12, 0x13]))
      const answer = String(Buffer.concat(await noise.toArray()))
      t.match(answer, /^HTTP\/1\.1 400 /)
      const gone = secured(port, 'localhost', undefined)
      await once(gone, 'secureConnect')
      gone.write(Buffer.from([0, 0, 0, 0x99, 0, 0, 0, 0]))
      await once(gone.resume(), 'close')
      t.equal((await visitTls(port, HOST)).status, 200, 'others are not concerned')
    })

    await t.test('whoever sends one byte at a time', async (t) => {
      const raw = await RawAgent.connect(agents)
      const call = Buffer.concat([word(0), Buffer.from(JSON.stringify({ Extra: { Authtoken: token } }))])
      const id = raw.nextId()
      for (const byte of frame(DATA, SYN, id, call)) {
        raw.socket.write(Buffer.from([byte]))
        await new Promise(setImmediate)
      }
      t.match(await raw.answer(id), { Error: '' })
      raw.socket.destroy()
      const visitor = secured(port, undefined, undefined)
      await once(visitor, 'secureConnect')
      for (const byte of Buffer.from(`\r\nGET /slow HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`)) {
        visitor.write(Buffer.from([byte]))
        await new Promise(setImmediate)
      }
      t.match(String(Buffer.concat(await visitor.toArray())), /^HTTP\/1\.1 200 .*hello from \/slow/s)
    })

    await t.test('an agent that uses an address', async (t) => {
      const other = await ourAgent.start({ ...agents, address: `127.0.0.1:${port}` }, token, {
        endpoint: 'https',
        at: 'other.example.com',
        target: upstream.port
      })
      t.same(await visitTls(port, 'other.example.com', { host: 'other.example.com' }), {
        status: 200,
        body: 'hello from /'
      })
      await other.close()
    })
    t.notOk(sluice.log.some(({ level }) => Number(level) >= 50))
  })
}

t.test('the handshake budget holds until it is known who came', async (t) => {
  const { port, sluice } = await startShared(t, { options: { LIMITS_HANDSHAKES: '2', TIMEOUTS_HEADERS: '1s' } })
  const silent = [secured(port, 'localhost', undefined), secured(port, undefined, undefined)]
  for (const one of silent) {
    one.on('error', () => undefined)
    await once(one, 'secureConnect')
  }
  const third = secured(port, HOST, ['http/1.1'])
  const [error] = await once(third, 'error')
  t.ok(error, 'two are at their handshake')
  await Promise.all(silent.map((one) => one.closed || once(one.resume(), 'close')))
  t.equal((await visitTls(port, HOST)).status, 503, 'the silent ones had their time')
  t.ok(sluice.log.some(({ failure }) => failure === 'timeout'))
})

t.test('agents that the handshake budget turns away come back until they are in', async (t) => {
  const { port, agents, token } = await startShared(t, {
    options: { LIMITS_HANDSHAKES: '5', TIMEOUTS_HEADERS: '60s' }
  })
  const silent = Array.from({ length: 5 }, () => secured(port, 'localhost', undefined))
  for (const one of silent)
    await once(
      one.on('error', () => undefined),
      'secureConnect'
    )
  const turnedAway = new Set<number>()
  let bound = 0
  let done: () => void = () => undefined
  const all = new Promise<void>((resolve) => {
    done = resolve
  })
  const running = Array.from({ length: 100 }, (_, number) => {
    const agent = new Agent({
      server: { host: '127.0.0.1', port: agents.port, serverName: 'localhost', ca: agents.ca },
      token,
      tunnels: [{ labels: { number: String(number) }, forwardsTo: '', target: { kind: 'unix', path: '/' } }],
      version: '0',
      clock: systemClock,
      random: Math.random,
      wait: (milliseconds, signal) => wait(milliseconds / 10, undefined, { signal }).catch(() => undefined),
      report(event) {
        if (event.kind === 'waiting' && turnedAway.add(number).size === 100) for (const one of silent) one.destroy()
        if (event.kind === 'bound' && ++bound === 100) done()
      }
    })
    return { agent, run: agent.run() }
  })
  await Promise.race([all, Promise.all(running.map(({ run }) => run))])
  t.equal(bound, 100)
  t.equal(turnedAway.size, 100, 'each was turned away')
  for (const { agent } of running) agent.stop()
  await Promise.all(running.map(({ run }) => run))
})

t.test('a PROXY header says where an agent comes from', async (t) => {
  const port = await freePort()
  const at = `127.0.0.1:${port}`
  const data = t.testdir()
  const sluice = await startSluice(t, {
    options: {
      AGENTS: at,
      LISTENERS: `https://${at}?proxy_protocol=on`,
      TRUSTED_PROXIES: '127.0.0.1/32',
      DATA: data,
      STORE: ':memory:'
    }
  })
  const { token } = await create(sluice, '/credentials', {})
  const ca = await readFile(join(data, 'agents', 'ca.pem'), 'utf8')
  const relay = createServer((socket) => {
    const onward = connectTcp(port, '127.0.0.1', () => {
      onward.write('PROXY TCP4 198.51.100.7 127.0.0.1 4711 443\r\n')
      socket.pipe(onward).pipe(socket)
    })
    onward.on('error', () => socket.destroy())
    socket.on('error', () => onward.destroy())
    socket.on('close', () => onward.destroy())
  }).listen(0, '127.0.0.1')
  await once(relay, 'listening')
  t.teardown(() => relay.close())
  const behind = (relay.address() as { port: number }).port
  const agents = { port: behind, address: `localhost:${behind}`, ca }
  const agent = await ourAgent.start(agents, String(token), { labels: LABELS, target: 9 })
  const { ip } = await sluice.line(({ msg }) => msg === 'an agent has connected')
  t.equal(ip, '198.51.100.7')
  await agent.close()
})

t.test('an IP restriction of agents turns only agents away', async (t) => {
  const { sluice, port, token, agents } = await startShared(t)
  const upstream = await Upstream.start(t)
  const agent = await ourAgent.start(agents, token, { labels: LABELS, target: upstream.port })
  t.teardown(() => agent.close())
  const policy = await create(sluice, '/ip_policies', {})
  await create(sluice, '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '192.0.2.0/24', action: 'allow' })
  await create(sluice, '/ip_restrictions', { type: 'agent', enforced: true, ip_policy_ids: [policy.id] })
  await sluice.line(({ msg }) => msg === 'an agent has gone')
  await t.rejects(RawAgent.session(agents, token), /the server closed the connection/)
  t.equal((await visitTls(port, HOST)).status, 503, 'a visitor is told that there is no tunnel')
})

t.test('who must show a certificate does not get past that by looking like an agent', async (t) => {
  const { sluice, port } = await startShared(t)
  const { id } = await create(sluice, '/certificate_authorities', { ca_pem: (await authority('Clients')).pem })
  const answer = await create(sluice, '/backends/http_response', { status_code: 200, body: 'secret' })
  const edge = await create(sluice, '/edges/https', {
    hostports: ['secret.example.com:443', 'localhost:443'],
    mutual_tls: { enabled: true, certificate_authority_ids: [id] }
  })
  await create(sluice, `/edges/https/${edge.id}/routes`, { match: '/', backend: { backend_id: answer.id } })
  const asked = { host: 'secret.example.com' }
  await t.rejects(visitTls(port, 'secret.example.com', asked), 'a name of visitors')
  await t.rejects(visitTls(port, 'localhost', asked), 'a name of agents that the edge has too')
  t.equal((await visitTls(port, undefined, asked)).status, 421, 'no name')
  t.equal((await visitTls(port, undefined, { ...asked, alpn: ['http/1.1'] })).status, 421)
})

t.test('agents on a shared port hear that the process stops', async (t) => {
  const { sluice, token, agents } = await startShared(t)
  const agent = await ourAgent.start(agents, token, { labels: LABELS, target: 9 })
  t.teardown(() => agent.close())
  t.same(await sluice.stop(), { ended: 0, cut: 0 }, 'an agent is nothing to wait for')
  t.ok(sluice.log.some(({ msg, why }) => msg === 'an agent has gone' && why === 'the server stops'))
})

t.test('what cannot be shared is refused', async (t) => {
  const port = await freePort()
  const at = `127.0.0.1:${port}`
  await t.rejects(startSluice(t, { options: { AGENTS: at, LISTENERS: `http://${at}` } }), {
    message: /without TLS/
  })
  const { sluice } = await startShared(t)
  await t.rejects(sluice.listeners([]), { code: 'AGENTS_ADDRESS', message: /cannot go while the process runs/ })
})
