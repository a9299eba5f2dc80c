import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { labelDialer } from '../../../src/capabilities/tunnel/server/dialer.js'
import { ManualClock } from '../../helpers/clock.js'
import { AgentServer, type AgentServerSetup, open, TOKEN } from './agent-server.js'
import { CREDIT, DATA, FIN, frame, GOAWAY, RawAgent, RESET, SYN, word } from './raw-agent.js'

const AUTH = 0
const BIND = 1
const UNBIND = 2
const PROXY = 3
const STOP = 5
const LABELLED = 7
const HEARTBEAT = 0xffff_ffff
const WINDOW = 262_144
const RUST = { UserAgent: 'ngrok-javascript/1.7.0 ngrok-rust/0.18.0' }

async function started(t: Test, setup: AgentServerSetup = {}) {
  const clock = new ManualClock()
  const server = await AgentServer.start(t, { clock, ...setup })
  /** Lets time pass as the timer of the listener would notice it. */
  const pass = (milliseconds: number) => {
    clock.advance(milliseconds)
    server.listener.sweep()
  }
  return { server, pass, dialer: labelDialer(server.registry, { app: 'web' }, 'http') }
}

/** A session with one tunnel for `app=web`. */
async function tunnelled(server: AgentServer, extra: object = {}): Promise<RawAgent> {
  const agent = await RawAgent.session(server, TOKEN, extra)
  const { Error: error } = await agent.call(LABELLED, { Labels: { app: 'web' } })
  if (error !== '') throw new Error(String(error))
  return agent
}

/** The visitors' streams that an agent was given. */
const visits = (agent: RawAgent) =>
  agent.frames.filter(({ type, flags, body }) => type === DATA && (flags & SYN) !== 0 && body.readUInt32BE(0) === PROXY)

t.test('before it has authenticated', async (t) => {
  await t.test('an agent may do nothing else', async (t) => {
    const { server, pass } = await started(t)
    const agent = await RawAgent.connect(server)
    t.same(await agent.call(LABELLED, { Labels: { app: 'web' } }), { Error: 'authenticate first' })
    pass(1000)
    await agent.untilClosed()
    t.same(server.tunnelIds(), [])
    t.equal(server.attempts, 0)
  })

  await t.test('heartbeats are echoed, calls may come byte by byte and in any case of letters', async (t) => {
    const { server } = await started(t)
    const agent = await RawAgent.connect(server)
    const beat = agent.begin(HEARTBEAT, word(42))
    await agent.until(() => agent.text(beat).length === 4)
    t.same(agent.of(beat)[0]?.body, word(42))
    const request = JSON.stringify({ version: ['2'], CLIENTID: '', eXtra: { AuthToken: TOKEN, nested: ['}"\\'] } })
    const id = agent.nextId()
    const bytes = Buffer.concat([word(AUTH), Buffer.from(request)])
    for (const [index, byte] of bytes.entries()) agent.send(frame(DATA, index === 0 ? SYN : 0, id, Buffer.from([byte])))
    const answer = await agent.answer(id)
    t.match(answer, { Version: '2', ClientId: /^ts_/, Error: '', Extra: { Region: 'global', Cookie: /./ } })
    t.match(await agent.call(AUTH, { Extra: { Authtoken: TOKEN } }), { Error: /authenticated already/ })
  })

  await t.test('a call, a heartbeat and a few KiB are enough', async (t) => {
    const { server, pass } = await started(t)
    const agent = await RawAgent.connect(server)
    const ids = Array.from({ length: 3 }, () => agent.begin(AUTH).valueOf())
    await agent.until(() => agent.of(ids[2] as number).length > 0)
    t.match(agent.of(ids[2] as number), [{ type: RESET, body: word(5) }])
    const other = await RawAgent.connect(server)
    t.match(await other.call(AUTH, { Extra: { Authtoken: 'x'.repeat(17_000) } }), { Error: /too long/ })
    t.match(server.attempts, 0)
    pass(1000)
    await other.untilClosed()
  })

  await t.test('single bytes on calls that wait are no way to take memory', async (t) => {
    const { server } = await started(t, { authenticate: () => new Promise(() => undefined) })
    const agent = await RawAgent.connect(server)
    agent.begin(AUTH, JSON.stringify({ Extra: { Authtoken: TOKEN } }))
    const second = agent.begin(AUTH)
    t.match(await agent.answer(second), { Error: 'authenticate once' })
    const crumbs = Buffer.concat(Array.from({ length: 1000 }, () => frame(DATA, 0, second, 'x')))
    let sent = 0
    while (!agent.closed && sent < 100) {
      agent.socket.write(crumbs)
      sent++
      await new Promise(setImmediate)
    }
    await agent.untilClosed()
    t.equal(server.listener.open, 0, 'it ends long before its time is over')
  })

  await t.test('ten seconds are enough', async (t) => {
    const { server, pass } = await started(t)
    const agent = await RawAgent.connect(server)
    agent.begin(AUTH, '{"Extra": {')
    const silent = await RawAgent.connect(server)
    while (server.listener.open < 2) await new Promise(setImmediate)
    pass(9900)
    t.equal(server.listener.open, 2)
    pass(200)
    await agent.untilClosed()
    await silent.untilClosed()
    t.equal(server.listener.open, 0)
  })

  await t.test('connections are counted by address', async (t) => {
    const { server } = await started(t, { limits: { unauthenticatedPerAddress: 2 } })
    const first = await RawAgent.session(server, TOKEN)
    await RawAgent.connect(server)
    await RawAgent.connect(server)
    const fourth = await RawAgent.connect(server)
    await fourth.untilClosed()
    t.notOk(first.closed, 'who has authenticated does not count')
  })

  await t.test('a failure of ours is no refusal', async (t) => {
    const { server, pass } = await started(t, { authenticate: () => Promise.reject(new Error('the store is away')) })
    const agent = await RawAgent.connect(server)
    const id = agent.begin(AUTH, JSON.stringify({ Extra: { Authtoken: TOKEN } }))
    while (server.failures.length === 0) await new Promise(setImmediate)
    t.match(server.failures, [{ message: 'the store is away' }])
    pass(10_100)
    await agent.untilClosed()
    t.same(agent.of(id), [], 'nothing is answered')
  })

  await t.test('a bad token that comes again and again is not looked at', async (t) => {
    const { server, pass } = await started(t)
    const attempt = async (token: string) => {
      const agent = await RawAgent.connect(server)
      const answer = await agent.call(AUTH, { Extra: { Authtoken: token } })
      agent.socket.destroy()
      return answer
    }
    for (let time = 0; time < 10; time++) t.match(await attempt('bad'), { Error: 'this token is not known here' })
    t.match(await attempt('bad'), { Error: /too many failed attempts; the next one counts in 60 s/ })
    t.equal(server.attempts, 10)
    t.match(await attempt(TOKEN), { Error: '' }, 'a good token from the same address passes')
    pass(60_000)
    t.match(await attempt('bad'), { Error: 'this token is not known here' })
  })
})

t.test('a neighbour that guesses tokens does not make honest agents give up', async (t) => {
  const { server, pass } = await started(t, { tokens: { good: [], fresh: [] } })
  await RawAgent.session(server, 'good')
  for (let time = 0; time < 100; time++) {
    const guess = await RawAgent.connect(server)
    t.match(await guess.call(AUTH, { Extra: { Authtoken: `guess ${time}` } }), {
      Error: 'this token is not known here'
    })
    guess.socket.destroy()
  }
  const { attempts } = server
  const fresh = await RawAgent.connect(server)
  const id = fresh.begin(AUTH, JSON.stringify({ Extra: { Authtoken: 'fresh' } }))
  const known = await RawAgent.session(server, 'good')
  t.notOk(known.closed, 'who was let in before is let in again')
  t.equal(server.attempts, attempts + 1, 'nobody else is looked at')
  while (server.listener.open < 3) await new Promise(setImmediate)
  pass(10_100)
  await fresh.untilClosed()
  t.same(fresh.of(id), [], 'and nobody else is refused: an agent that is refused does not come back')
  pass(60_000)
  await RawAgent.session(server, 'fresh')
})

t.test('hostile agents lose their own session and nobody else', async (t) => {
  const { server, pass, dialer } = await started(t)
  const good = await tunnelled(server)
  const works = async () => {
    const before = visits(good).length
    const { duplex } = await open(dialer)
    await good.until(() => visits(good).length > before)
    duplex.destroy()
  }

  await t.test('garbage', async () => {
    for (let round = 0; round < 20; round++) {
      const agent = await RawAgent.connect(server)
      agent.socket.write(Buffer.concat([Buffer.from([0, 0, 0, 0x50 + round]), randomBytes(5000)]))
      await agent.untilClosed()
    }
    await works()
  })

  await t.test('10,000 streams', async (t) => {
    const agent = await RawAgent.session(server, TOKEN)
    const opening = Array.from({ length: 10_000 }, () => frame(DATA, SYN, agent.nextId(), word(LABELLED)))
    agent.send(...opening)
    await agent.untilClosed()
    t.match(agent.frames.at(-1), { type: GOAWAY })
    await works()
  })

  await t.test('frames for streams that never were', async () => {
    const agent = await RawAgent.session(server, TOKEN)
    agent.send(...Array.from({ length: 2000 }, (_, index) => frame(DATA, 0, 100_001 + index * 2, 'x')))
    await agent.untilClosed()
    await works()
  })

  await t.test('more than the window', async (t) => {
    const agent = await RawAgent.session(server, TOKEN)
    const id = agent.begin(LABELLED)
    agent.send(frame(DATA, 0, id, Buffer.alloc(300_000)))
    await agent.until(() => agent.of(id).length > 0)
    t.match(agent.of(id), [{ type: RESET, body: word(3) }])
    t.match(await agent.call(LABELLED, { Labels: { a: 'b' } }), { Error: '' }, 'the session lives')
    agent.socket.destroy()
  })

  await t.test('a window that is a lie', async (t) => {
    const agent = await RawAgent.session(server, TOKEN)
    await agent.call(LABELLED, { Labels: { liar: 'yes' } })
    const { duplex } = await open(labelDialer(server.registry, { liar: 'yes' }, 'tcp'))
    await agent.until(() => visits(agent).length === 1)
    const id = visits(agent)[0]?.id as number
    const bytes = () => agent.of(id).reduce((sum, { type, body }) => sum + (type === DATA ? body.length : 0), 0)
    duplex.write(Buffer.alloc(2_000_000))
    await agent.until(() => bytes() === WINDOW)
    agent.send(frame(CREDIT, 0, id, word(0x7fff_ffff)))
    await agent.until(() => bytes() === 2 * WINDOW)
    await agent.call(8, {})
    t.equal(bytes(), 2 * WINDOW, 'no more than one window is ever under way')
    duplex.destroy()
    agent.socket.destroy()
  })

  await t.test('an agent that never reads', async (t) => {
    const agent = await RawAgent.session(server, TOKEN)
    await agent.call(LABELLED, { Labels: { deaf: 'yes' } })
    const secure = server.secured.at(-1)
    agent.socket.pause()
    const toDeaf = labelDialer(server.registry, { deaf: 'yes' }, 'tcp')
    const pipes = await Promise.all(Array.from({ length: 200 }, () => open(toDeaf)))
    for (const { duplex } of pipes) duplex.write(Buffer.alloc(WINDOW))
    for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate)
    const waiting = secure?.writableLength ?? 0
    t.ok(waiting > 0 && waiting < 1_000_000, `${waiting} bytes wait, of ${200 * WINDOW}`)
    pass(1000)
    const broken = Promise.all(pipes.map(({ duplex }) => new Promise((resolve) => duplex.once('close', resolve))))
    good.send(frame(DATA, 0, 3, word(1)))
    for (let time = 0; time < 16; time++) pass(2000)
    await broken
    t.equal(server.registry.select({ deaf: 'yes' }).length, 0)
  })
})

t.test('an agent that is busy all the time is not taken for one that does not read', async (t) => {
  const { server, pass, dialer } = await started(t)
  const agent = await tunnelled(server)
  const { duplex } = await open(dialer)
  const bytes = () => agent.of(2).reduce((sum, { body }) => sum + body.length, 0)
  for (let round = 1; round <= 20; round++) {
    const before = bytes()
    duplex.write(Buffer.alloc(100_000))
    await new Promise(process.nextTick)
    pass(2000)
    await agent.until(() => bytes() >= before + 100_000)
    agent.send(frame(DATA, 0, 3, word(round)), frame(CREDIT, 0, 2, word(100_000)))
    await agent.call(8, {})
  }
  t.notOk(agent.closed)
  duplex.destroy()
})

t.test('silence and noise', async (t) => {
  const { server, pass } = await started(t)
  const patient = await RawAgent.session(server, TOKEN, { HeartbeatInterval: 60e9, HeartbeatTolerance: 30e9 })
  const hasty = await RawAgent.session(server, TOKEN, { HeartbeatInterval: 1, HeartbeatTolerance: 1 })
  pass(4900)
  t.equal(server.listener.open, 2, 'five seconds at least')
  pass(200)
  await hasty.untilClosed()
  pass(80_000)
  patient.send(frame(DATA, 0, 3, word(9)))
  await patient.until(() => patient.text(3).length === 8)
  pass(80_000)
  t.equal(server.listener.open, 1, 'a heartbeat counts from when it came')
  pass(11_000)
  await patient.untilClosed()
  const noisy = await RawAgent.session(server, TOKEN)
  noisy.send(...Array.from({ length: 2000 }, (_, index) => frame(DATA, 0, 3, word(index))))
  await new Promise((resolve) => noisy.socket.once('drain', resolve).write('') && resolve(undefined))
  await noisy.call(8, {})
  pass(1000)
  await noisy.untilClosed()
  t.ok(noisy.text(3).length <= 4 * 102, 'a flood is not echoed')
})

t.test('an agent whose heartbeats stop gets no visitor as long as another one of its group beats', async (t) => {
  const { server, pass, dialer } = await started(t)
  const beats = { HeartbeatInterval: 1e9, HeartbeatTolerance: 24e9 }
  const stopped = await tunnelled(server, beats)
  const before = await open(dialer)
  const beating = await tunnelled(server, beats)
  const beat = async () => {
    const answered = beating.text(3).length
    beating.send(frame(DATA, 0, 3, word(9)))
    await beating.until(() => beating.text(3).length > answered)
  }
  pass(2_900)
  await beat()
  t.equal(before.stale, false)
  pass(200)
  t.equal(before.stale, true, 'no new request uses the stream of one that may have stopped')
  const [first] = server.registry.select({ app: 'web' })
  const own = labelDialer(server.registry, { app: 'web' }, 'http', { key: 'one', ...(first && { first }) })
  for (let visitor = 0; visitor < 4; visitor++) (await open(visitor % 2 === 0 ? dialer : own)).duplex.write('x')
  await beating.until(() => visits(beating).length === 4)
  t.equal(visits(stopped).length, 1)
  pass(3_100)
  ;(await open(dialer)).duplex.write('x')
  t.ok(visits(beating).length + visits(stopped).length >= 5, 'where all are late, one of them is asked')
  stopped.send(frame(DATA, 0, 3, word(9)))
  await stopped.until(() => stopped.text(3).length === 8)
  t.equal(before.stale, false, 'one that beats again is as good as before')
})

t.test('a visitor as the agent hears of it', async (t) => {
  const { server, dialer } = await started(t)
  const agent = await tunnelled(server)
  const { duplex } = await open(dialer)
  duplex.write('GET / HTTP/1.1\r\n\r\n')
  await agent.until(() => visits(agent).length === 1 && agent.text(visits(agent)[0]?.id as number).endsWith('\r\n\r\n'))
  const [first, second] = agent.of(2)
  t.equal(first?.flags, SYN)
  const length = Number(first?.body.readBigInt64LE(4))
  t.equal(first?.body.length, 12 + length, 'type, length and header in one frame')
  t.same(JSON.parse(String(first?.body.subarray(12))), {
    Id: server.tunnelIds()[0],
    ClientAddr: '203.0.113.9:51234',
    Proto: 'http',
    EdgeType: '3',
    PassthroughTLS: false
  })
  t.equal(String(second?.body), 'GET / HTTP/1.1\r\n\r\n')
  agent.send(frame(DATA, 0, 2, 'answer'), frame(DATA, FIN, 2))
  t.equal(String(Buffer.concat(await duplex.toArray())), 'answer')
  duplex.end()
  await agent.until(() => agent.of(2).some(({ flags, body }) => flags === FIN && body.length === 0))
  t.equal(dialer.key, labelDialer(server.registry, { app: 'web' }, 'http').key)
})

t.test('an abort is an end and then a reset', async (t) => {
  const { server, dialer } = await started(t)
  const agent = await tunnelled(server)
  const { duplex } = await open(dialer)
  duplex.destroy()
  await agent.until(() => agent.of(2).some(({ type }) => type === RESET))
  t.match(agent.of(2).slice(1), [
    { type: DATA, flags: FIN, body: Buffer.alloc(0) },
    { type: RESET, body: word(6) }
  ])
})

t.test('an agent that delays its small writes gets a word back for its credit', async (t) => {
  const { server, dialer } = await started(t)
  for (const rust of [true, false]) {
    const agent = await tunnelled(server, rust ? RUST : {})
    const { duplex } = await open(dialer)
    await agent.until(() => visits(agent).length === 1)
    agent.send(frame(CREDIT, 0, 2, word(100)))
    await agent.call(8, {})
    const nudges = agent.of(3).filter(({ type }) => type === CREDIT)
    t.match(nudges, rust ? [{ body: word(1) }] : [])
    duplex.destroy()
    agent.socket.destroy()
    await server.until(() => server.tunnelIds().length === 0)
  }
})

t.test('a tunnel that turns a visitor away unread loses it to the next', async (t) => {
  const { server, dialer } = await started(t)
  const first = await tunnelled(server, RUST)
  const second = await tunnelled(server, RUST)
  const taken = async (agent: RawAgent, count: number) => {
    await agent.until(() => visits(agent).length === count)
    return visits(agent)[count - 1]?.id as number
  }

  await t.test('with a reset', async (t) => {
    const { duplex } = await open(dialer)
    duplex.write('request')
    const id = await taken(first, 1)
    first.send(frame(RESET, 0, id, word(5)))
    const other = await taken(second, 1)
    await second.until(() => second.text(other).endsWith('request'))
    second.send(frame(DATA, FIN, other, 'answer'))
    t.equal(String(Buffer.concat(await duplex.toArray())), 'answer')
    duplex.destroy()
  })

  await t.test('with an end, before it has read anything', async (t) => {
    const { duplex } = await open(dialer)
    duplex.end('request')
    const id = await taken(first, 2)
    first.send(frame(CREDIT, 0, id, word(12)), frame(DATA, FIN, id))
    const other = await taken(second, 2)
    await second.until(() => second.of(other).some(({ flags }) => flags === FIN))
    t.ok(second.text(other).endsWith('request'))
    second.send(frame(DATA, FIN, other, 'answer'))
    t.equal(String(Buffer.concat(await duplex.toArray())), 'answer')
  })

  await t.test('but not once it has read or answered', async (t) => {
    const read = await open(dialer)
    read.duplex.write('request')
    const id = await taken(first, 3)
    first.send(frame(CREDIT, 0, id, word(400)), frame(DATA, FIN, id))
    t.equal((await read.duplex.toArray()).length, 0)
    read.duplex.destroy()
    await new Promise(setImmediate)
    const answered = await open(dialer)
    const next = await taken(first, 4)
    first.send(frame(DATA, 0, next, 'half'), frame(RESET, 0, next, word(5)))
    await new Promise((resolve) => answered.duplex.resume().once('close', resolve))
    t.match(answered.duplex.errored, { code: 'TUNNEL_STREAM_RESET', reset: 5 })
    t.equal(visits(second).length, 2)
  })

  await t.test('and to nobody when all do', async (t) => {
    const { duplex } = await open(dialer)
    first.send(frame(RESET, 0, await taken(first, 5), word(5)))
    second.send(frame(RESET, 0, await taken(second, 3), word(5)))
    await new Promise((resolve) => duplex.resume().once('close', resolve))
    t.match(duplex.errored, { code: 'TUNNEL_STREAM_RESET' })
    t.same(
      [...server.registry.tunnels()].map(({ active }) => active),
      [0, 0],
      'nothing is counted twice'
    )
  })
})

t.test('the least busy tunnel is taken, a full one never', async (t) => {
  const { server, dialer } = await started(t, { limits: { visitors: 3 } })
  const agents = [await tunnelled(server), await tunnelled(server)]
  const pipes = []
  for (let time = 0; time < 6; time++) pipes.push(await open(dialer))
  for (const agent of agents) await agent.until(() => visits(agent).length === 3)
  await t.rejects(open(dialer), /no tunnel can take a connection/)
  pipes[0]?.destroy('client-gone')
  await new Promise(setImmediate)
  t.ok(await open(dialer))
  agents[1]?.socket.destroy()
  await server.until(() => server.tunnelIds().length === 1)
  await t.rejects(open(dialer), /no tunnel/)
})

t.test('an agent that comes back', async (t) => {
  const { server, pass, dialer } = await started(t)
  const offers = [{ Labels: { app: 'web' } }, { Labels: { app: 'web' } }, { Labels: { app: 'web' }, Metadata: 'm' }]
  const connect = async (clientId: string, cookie: string, token = TOKEN) => {
    const agent = await RawAgent.connect(server)
    const extra = { Authtoken: token, Cookie: cookie, HeartbeatInterval: 200e9 }
    const auth = await agent.call(AUTH, { ClientId: clientId, Extra: extra })
    const ids = []
    for (const offer of offers) ids.push((await agent.call(LABELLED, offer)).Id)
    return { agent, id: String(auth.ClientId), cookie: String((auth.Extra as { Cookie: string }).Cookie), ids }
  }
  const former = await connect('', '')
  t.equal(new Set(former.ids).size, 3)
  const { duplex } = await open(dialer)
  const latter = await connect(former.id, former.cookie)
  t.equal(latter.id, former.id)
  t.same(latter.ids, former.ids, 'equal offers get their ids again, one for one')
  t.same(server.tunnelIds(), former.ids, 'each stands once')
  t.equal(server.registry.session(former.id), server.sessions()[1])
  const again = await open(dialer)
  await latter.agent.until(() => visits(latter.agent).length === 1)
  t.notOk(duplex.destroyed, 'what the former connection carries goes on')
  pass(15_000)
  t.notOk(former.agent.closed)
  pass(20_000)
  await former.agent.untilClosed()
  t.same(server.tunnelIds(), former.ids, 'its end takes nothing away')
  again.destroy('client-gone')
  const thief = await connect(former.id, 'a guess')
  t.not(thief.id, former.id)
  t.equal(new Set([...thief.ids, ...former.ids]).size, 6)
})

t.test('commands', async (t) => {
  const { server, pass } = await started(t)
  const agent = await RawAgent.session(server, TOKEN, { RestartUnsupportedError: 'not here' })
  const [session] = server.sessions()
  if (session === undefined) throw new Error('no session')
  const asked = async (count: number) => {
    await agent.until(() => agent.frames.filter(({ flags }) => (flags & SYN) !== 0).length === count)
    return agent.frames.filter(({ flags }) => (flags & SYN) !== 0)[count - 1]
  }
  const stop = session.command('stop')
  const first = await asked(1)
  t.same(first?.body, Buffer.concat([word(STOP), Buffer.from('{}')]), 'type and request in one frame')
  agent.send(frame(DATA, FIN, first?.id ?? 0, '{}'))
  t.equal(await stop, undefined)
  const update = session.command('update', '9.9.9')
  const second = await asked(2)
  t.equal(String(second?.body.subarray(4)), '{"Version":"9.9.9","PermitMajorVersion":false}')
  agent.send(frame(DATA, 0, second?.id ?? 0, '{"Error": "I would rather not"}'))
  t.equal(await update, 'I would rather not')
  t.equal(await session.command('restart'), 'not here')
  const silent = session.command('stop')
  await asked(3)
  pass(5100)
  t.equal(await silent, 'the agent did not answer')
  const lost = session.command('stop')
  agent.socket.destroy()
  t.equal(await lost, 'the agent did not answer')
})

t.test('a tunnel that is ended from here', async (t) => {
  const { server, dialer } = await started(t)
  const agent = await tunnelled(server)
  const { duplex } = await open(dialer)
  const [id = ''] = server.tunnelIds()
  t.ok(server.sessions()[0]?.endTunnel(id, 'the domain was deleted'))
  t.notOk(server.sessions()[0]?.endTunnel(id, 'again'))
  await once(duplex, 'close')
  await agent.until(() => agent.frames.some(({ body }) => body.length > 4 && body.readUInt32BE(0) === 9))
  const told = agent.frames.find(({ body }) => body.length > 4 && body.readUInt32BE(0) === 9)
  t.same(JSON.parse(String(told?.body.subarray(4))), { Id: id, Message: 'the domain was deleted', ErrorCode: '' })
  t.same(server.tunnelIds(), [])
  t.same(await agent.call(UNBIND, { Id: id }), { Error: '', Extra: null }, 'an unknown id is no error')
})

t.test('endpoints', async (t) => {
  const { server } = await started(t, { limits: { tunnels: 4 } })
  const agent = await RawAgent.session(server, TOKEN)
  const bind = (Proto: string, Opts: object, rest: object = {}) => agent.call(BIND, { Proto, Opts, ...rest })
  const asked = { Domain: 'App.Example.com', LocalUrlScheme: 'http', Compression: null, TrafficPolicy: '{}' }
  const answer = await bind('https', asked)
  t.match(answer, { Id: /^tn_/, URL: 'https://app.example.com', Proto: 'https', Error: '', Extra: { Token: /./ } })
  t.same(answer.Opts, asked, 'options come back as they were sent')
  t.equal((answer.Extra as { TunnelID: string }).TunnelID, answer.Id)
  t.match(await bind('https', { URL: 'https://go.example.com' }), { URL: 'https://go.example.com' })
  t.match(await bind('http', { Subdomain: 'mine' }), { URL: 'http://mine.sluice.test' })
  const refused: [proto: string, options: object, rest: object, why: RegExp][] = [
    ['ssh', {}, {}, /"ssh" are not offered/],
    ['https', { BasicAuth: { credentials: [{ username: 'a' }] } }, {}, /the option BasicAuth is not offered/],
    ['https', { MutualTLSCA: { mutual_tls_ca: 'x' } }, {}, /MutualTLSCA/],
    ['tcp', { IPRestriction: { allow_cidrs: ['10.0.0.0/8'] } }, {}, /IPRestriction/],
    ['https', { Surprise: true }, {}, /surprise/],
    ['https', {}, { ForwardsProto: 'spdy' }, /"spdy" towards the agent/],
    ['https', {}, { Extra: { Bindings: ['internal'] } }, /binding "internal"/],
    ['https', { Domain: '*.example.com' }, {}, /is no host name/],
    ['https', { Domain: 'a b\n' }, {}, /"a b\?" is no host name/],
    ['tcp', { Addr: 'no-port' }, {}, /is no host:port/],
    ['tcp', { ProxyProto: 3 }, {}, /ProxyProto/]
  ]
  for (const [proto, options, rest, why] of refused) t.match(await bind(proto, options, rest), { Error: why, Id: '' })
  t.match(await agent.call(10, { TunnelId: answer.Id, Metadata: 'new' }), { Error: '' })
  t.equal([...server.registry.tunnels()][0]?.metadata, 'new')
  t.match(await agent.call(10, { TunnelId: 'tn_none' }), { Error: /no such tunnel/ })
  t.match(await agent.call(77, {}), { Error: /type 77/ })
  t.match(await bind('tcp', { ProxyProto: 1 }), { URL: /^tcp:\/\/127\.0\.0\.1:\d+$/ })
  t.match(await bind('https', {}), { Error: /may have 4 tunnels/ })
  const wish = [...server.endpoints.values()].find(({ proto }) => proto === 'tcp')
  if (wish === undefined) throw new Error('not open')
  await open(wish.dialer)
  await agent.until(() => visits(agent).length === 1)
  t.match(String(visits(agent)[0]?.body), /"EdgeType":"0".*}PROXY TCP4 203\.0\.113\.9 203\.0\.113\.1 51234 443\r\n$/)
})

t.test('what a tunnel keeps of its agent is bounded, and refused by its name', async (t) => {
  const { server } = await started(t)
  const agent = await RawAgent.session(server, TOKEN)
  const text = (length: number) => 'x'.repeat(length)
  const bind = (Extra: object, rest: object = {}) => agent.call(BIND, { Proto: 'https', Opts: {}, Extra, ...rest })
  t.match(await bind({ Metadata: text(4097) }), { Error: 'Metadata is longer than 4096 bytes', Id: '' })
  t.match(await bind({ Metadata: 'ü'.repeat(2049) }), { Error: /^Metadata/ }, 'bytes count')
  t.match(await bind({ Name: text(256) }), { Error: /^Name/ })
  t.match(await bind({ Description: text(256) }), { Error: /^Description/ })
  t.match(await bind({}, { ForwardsTo: text(4097) }), { Error: /^ForwardsTo/ })
  t.match(await bind({}, { Opts: { TrafficPolicy: text(131_073) } }), { Error: /^TrafficPolicy/ })
  const labelled = (rest: object) => agent.call(LABELLED, { Labels: { app: 'web' }, ...rest })
  t.match(await labelled({ Metadata: text(4097) }), { Error: /^Metadata/, Id: '' })
  t.match(await labelled({ ForwardsTo: text(4097) }), { Error: /^ForwardsTo/ })
  const many = Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`k${i}`, text(4000)]))
  t.match(await labelled({ Labels: many }), { Error: /labels are longer/ })
  t.same(server.tunnelIds(), [], 'and nothing is kept of them')
  const whole = { Metadata: text(4096), Name: text(255), Description: text(255) }
  const { Id } = await bind(whole, { ForwardsTo: text(4096) })
  t.match(await agent.call(10, { TunnelId: Id, Metadata: text(4097) }), { Error: /^Metadata/ })
  t.equal([...server.registry.tunnels()][0]?.metadata, whole.Metadata, 'a refused change changes nothing')
})

t.test('policies of an agent are bounded, and those that are refused are paused for longer and longer', async (t) => {
  const clock = new ManualClock()
  const { server } = await started(t, { clock, tokens: { [TOKEN]: [], other: [] } })
  const agent = await RawAgent.session(server, TOKEN)
  const other = await RawAgent.session(server, 'other')
  const bind = async (from: RawAgent, Domain: string, policy?: string) => {
    const Opts = { Domain, ...(policy === undefined ? {} : { TrafficPolicy: policy }) }
    return String((await from.call(BIND, { Proto: 'https', Opts })).Error)
  }
  t.equal(await bind(agent, 'a.example.com'), '')
  const refused = async () => t.match(await bind(agent, 'a.example.com', '{}'), /already served/)
  for (let time = 0; time < 20; time++) await refused()
  for (const pause of [1, 2, 4]) {
    await refused()
    t.match(await bind(agent, 'b.example.com', '{}'), new RegExp(`try again in ${pause} s`))
    t.match(await bind(other, 'a.example.com', '{}'), /already served/, 'another credential is not held up')
    clock.advance(pause * 1_000 - 1)
    t.match(await bind(agent, 'b.example.com', '{}'), /try again in 1 s/)
    t.equal(await bind(agent, `without-${pause}.example.com`), '', 'nor is an endpoint without a policy')
    clock.advance(1)
  }
  t.equal(await bind(agent, 'b.example.com', '{}'), '')
  await refused()
  await refused()

  const large = `on_http_request: [] #`.padEnd(131_072, 'x')
  const answers: string[] = []
  for (let time = 0; time < 8; time++) answers.push(await bind(agent, `large-${time}.example.com`, large))
  t.equal(answers.filter((why) => why === '').length, 4, 'half a megabyte at a time')
  t.match(await bind(agent, 'without.example.com'), /try again in \d+ s/, 'each endpoint counts')
  t.equal(await bind(other, 'without.example.com'), '')
  t.ok(answers.slice(4).every((why) => /try again in \d+ s/.test(why)))
})

t.test('who takes the place of an agent of its credential waits until that one has ended or is heard of', async (t) => {
  const { server, pass } = await started(t)
  const beats = { HeartbeatInterval: 1e9, HeartbeatTolerance: 9e9 }
  const request = { Proto: 'https', Opts: { Domain: 'a.example.com' } }
  const dead = await RawAgent.session(server, TOKEN, beats)
  t.match(await dead.call(BIND, request), { Error: '' })
  const next = await RawAgent.session(server, TOKEN, { HeartbeatInterval: 60e9 })
  const taking = next.call(BIND, request)
  pass(9_000)
  t.equal(server.listener.open, 2)
  pass(2_000)
  await dead.untilClosed()
  t.match(await taking, { Error: '' })
  t.equal(server.tunnelIds().length, 1)
  const third = await RawAgent.session(server, TOKEN, beats)
  const refused = third.call(BIND, request)
  await third.call(8, {})
  next.send(frame(DATA, 0, 3, word(9)))
  t.match(await refused, { Error: /already served/ }, 'by one that lives')
  t.match(await next.call(BIND, request), { Error: /already served/ }, 'the session that serves it is not waited for')
})

t.test(
  'a URL is shared by tunnels that all say so; those of one credential with the same policy are one endpoint',
  async (t) => {
    const { server } = await started(t, { tokens: { [TOKEN]: [], other: [] } })
    const first = await RawAgent.session(server, TOKEN)
    const second = await RawAgent.session(server, TOKEN)
    const foreign = await RawAgent.session(server, 'other')
    const request = { Proto: 'https', Opts: { Domain: 'a.example.com' }, Extra: { PoolingEnabled: true } }
    const one = await first.call(BIND, request)
    t.match(await second.call(BIND, request), { Error: '' })
    t.match(await foreign.call(BIND, { ...request, Extra: {} }), { Error: /already served/ })
    t.match(await second.call(BIND, { ...request, Extra: {} }), { Error: /already served/ })
    const beside = await foreign.call(BIND, request)
    t.match(beside, { Error: '', URL: 'https://a.example.com' })
    await foreign.call(2, { Id: beside.Id })
    const opts = { Domain: 'a.example.com', TrafficPolicy: '{}' }
    const other = await second.call(BIND, { ...request, Opts: opts })
    t.match(other, { Error: '' })
    await second.call(2, { Id: other.Id })
    first.socket.destroy()
    await server.until(() => server.tunnelIds().length === 1)
    t.ok(server.endpoints.has('https://a.example.com'), 'the other one keeps it open')
    t.not(one.Id, server.tunnelIds()[0])
    const token = (one.Extra as { Token: string }).Token
    const stolen = await foreign.call(BIND, {
      Proto: 'https',
      Opts: { Domain: 'b.example.com' },
      Extra: { Token: token }
    })
    t.not(stolen.Id, one.Id, 'a token is worth nothing to another credential')
    second.socket.destroy()
    await server.until(() => server.tunnelIds().length === 1)
    t.same([...server.endpoints.keys()], ['https://b.example.com'])
  }
)
