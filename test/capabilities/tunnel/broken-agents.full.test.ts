import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { labelDialer } from '../../../src/capabilities/tunnel/server/dialer.js'
import type { ClientTransport } from '../../../src/transport/contract.js'
import { httpProxyBack } from '../../../src/transport/http-proxy/client.js'
import { nodeServerTransport } from '../../../src/transport/http-proxy/server.js'
import { codecBack } from '../../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../../src/transport/http1/server.js'
import { fixture } from '../../helpers/files.js'
import { type Bench, bench, GET, type Make } from '../../transport/suite/harness.js'
import { AgentServer, TOKEN } from './agent-server.js'
import { DATA, FIN, frame, GOAWAY, RawAgent, RESET, SYN, word } from './raw-agent.js'

const LABELLED = 7
const PROXY = 3
const [REFUSED, CANCELLED] = [5, 6]
const IDLE = 300
const UPGRADE =
  'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n'
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'

const server = await AgentServer.start(t)
const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')
const h2 = { cert: at('upstream.crt'), key: at('upstream.key') }

/** One visitor's stream as an agent has it. */
interface Visit {
  /** Of its agent alone. */
  readonly name: string
  readonly agent: RawAgent
  readonly id: number
  readonly bench: Bench
  say(text: string): void
}

/** How an agent lets its visitor down. */
const WAYS: Ways = {
  'resets the stream': ({ agent, id }) => agent.send(frame(RESET, 0, id, word(CANCELLED))),
  'turns the stream away too late': ({ agent, id }) => agent.send(frame(RESET, 0, id, word(REFUSED))),
  'ends the stream and resets it in one piece': ({ agent, id }) =>
    agent.send(frame(DATA, FIN, id), frame(RESET, 0, id, word(CANCELLED))),
  'says goodbye': ({ agent }) => agent.send(frame(GOAWAY, 0, 0, Buffer.concat([word(0), word(0)]))),
  'ends its connection': ({ agent }) => agent.socket.end(),
  dies: ({ agent }) => agent.socket.destroy(),
  'is cut off': ({ agent }) => {
    for (const socket of server.sockets) if (socket.remotePort === agent.socket.localPort) socket.resetAndDestroy()
  },
  'breaks in the middle of a frame': ({ agent, id }) => {
    agent.send(frame(DATA, 0, id, 'x'.repeat(100)).subarray(0, 8))
    agent.socket.end()
  },
  'breaks the protocol': ({ agent }) => agent.send(Buffer.alloc(64, 0xff)),
  'loses its rights': ({ name }) =>
    server.listener.end(({ facts }) => facts.metadata === name, 'the credential was deleted'),
  'falls silent': async ({ bench: { clock, until, sent } }) => {
    const looking = setInterval(() => clock.advance(IDLE + 1), 60)
    await until(() => sent.length > 0)
    clearInterval(looking)
  }
}
/** An end in good order: what it means depends on the framing. */
const EARLY_END = ({ agent, id }: Visit) => agent.send(frame(DATA, FIN, id))

const BEFORE_THE_HEAD: Readonly<Record<string, string>> = {
  'before the first byte': '',
  'in the status line': 'HTTP/1.1 20',
  'in the head': 'HTTP/1.1 200 OK\r\nContent-Le',
  'after an interim answer': 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
}
/** Heads and the first half of the bodies that they promise. */
const FRAMED: Readonly<Record<string, string>> = {
  'a length': 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome',
  'a length of HTTP/1.0': 'HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\nsome',
  'a chunk': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nsome',
  'chunks without the last': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n',
  'the last chunk': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\n',
  trailers: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\nX-Sum: 1\r\n',
  'events in chunks':
    'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nc\r\ndata: some\n\n\r\n'
}
/** Whole at an end of the stream: nothing else can tell where they end (RFC 9112 6.3). */
const UNTIL_END: Readonly<Record<string, string>> = {
  'a body of HTTP/1.1 until the end': 'HTTP/1.1 200 OK\r\n\r\nsome',
  'a body of HTTP/1.0 until the end': 'HTTP/1.0 200 OK\r\n\r\nsome',
  'events until the end': 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: some\n\n'
}

const ALL = { ...FRAMED, ...UNTIL_END }

/** Engines by name; every exchange goes to the agent of that name. */
const engines: Readonly<Record<string, (agent: string) => Make>> = {
  codec: (agent) => (parts) => ({ front: codecServerTransport(parts), back: led(codecBack(parts), agent) }),
  'http-proxy': (agent) => (parts) => ({ front: nodeServerTransport(parts), back: led(httpProxyBack(parts), agent) })
}

function led(back: ClientTransport, agent: string): ClientTransport {
  return {
    forward: (exchange, _direct, options, answered) =>
      back.forward(exchange, labelDialer(server.registry, { agent }, 'http'), options, answered),
    retainUpstreams: (keys) => back.retainUpstreams(keys),
    endUpstream: (key) => back.endUpstream(key),
    close: () => back.close()
  }
}

let count = 0

/** An agent of its own, a visitor that asks, and the stream that the agent was given for it. */
async function visited<C>(t: Test, make: (agent: string) => Make, ask: (made: Bench) => Promise<C>) {
  const name = String(++count)
  const agent = await RawAgent.session(server, TOKEN, { Metadata: name })
  t.teardown(() => agent.socket.destroy())
  await agent.call(LABELLED, { Labels: { agent: name } })
  const made = await bench(t, make(name), { timeouts: { response: IDLE, idle: IDLE } })
  const client = await ask(made)
  const stream = () =>
    agent.frames.find(({ type, flags, body }) => type === DATA && (flags & SYN) !== 0 && body.readUInt32BE(0) === PROXY)
  await agent.until(() => agent.text(stream()?.id ?? 0).includes('\r\n\r\n'))
  const id = stream()?.id as number
  return { name, client, agent, id, bench: made, say: (text: string) => agent.send(frame(DATA, 0, id, text)) }
}

/** A client of HTTP/1.x that asks with these bytes. */
function asked(t: Test, make: (agent: string) => Make, request: string) {
  return visited(t, make, async (made) => {
    const client = await made.client()
    client.send(request)
    return client
  })
}

type Ways = Readonly<Record<string, (visit: Visit) => unknown>>

/** Makes `attempt` with each of `texts` and each way to fail, all at once. */
async function every(
  texts: Readonly<Record<string, string>>,
  ways: (name: string) => Ways,
  attempt: (text: string, fail: (visit: Visit) => unknown, way: string, what: string) => Promise<void>
): Promise<void> {
  const attempts = Object.entries(texts).flatMap(([name, text]) =>
    Object.entries(ways(name)).map(([way, fail]) => attempt(text, fail, way, `${name}: an agent that ${way}`))
  )
  await Promise.all(attempts)
}

const failureOf = (way: string) => (way === 'falls silent' ? 'upstream-timeout' : 'upstream-gone')
const without = (...names: string[]) => Object.fromEntries(Object.entries(WAYS).filter(([way]) => !names.includes(way)))
/** An end of the stream is a break as well, but where it is the framing. */
const waysOf = (framing: string): Ways => (framing in FRAMED ? { ...WAYS, 'ends the stream': EARLY_END } : WAYS)

for (const [name, make] of Object.entries(engines)) {
  t.test(`${name}: an agent that fails before it has answered`, async (t) => {
    // Turned away before its first byte, a stream is turned away in time.
    const ways = (when: string) => ({
      ...(BEFORE_THE_HEAD[when] === '' ? without('turns the stream away too late') : WAYS),
      'ends the stream': EARLY_END
    })
    await every(BEFORE_THE_HEAD, ways, async (text, fail, way, what) => {
      const visit = await asked(t, make, GET)
      const { client, bench } = visit
      if (text !== '') visit.say(text)
      if (text.includes('103')) t.equal((await client.answer()).status, 103)
      await fail(visit)
      t.equal((await client.answer()).status, 502, what)
      t.same(bench.failures, [{ failure: failureOf(way), retry: 'never' }], what)
    })
    const { agent, id, client, bench } = await asked(t, make, GET)
    agent.send(frame(RESET, 0, id, word(REFUSED)))
    t.equal((await client.answer()).status, 502)
    t.same(
      bench.failures,
      [{ failure: 'dial-refused', retry: 'safe' }],
      'who turns a stream away unread was not reached'
    )
  })

  t.test(`${name}: half an answer of an agent never looks whole`, async (t) => {
    await every(ALL, waysOf, async (text, fail, way, what) => {
      const visit = await asked(t, make, GET)
      const { client, bench } = visit
      visit.say(text)
      await client.until('some')
      await fail(visit)
      await client.untilEnd()
      t.notMatch(client.text, /0\r\n(X-Sum: 1\r\n)?\r\n$/, what)
      await t.rejects(client.answer(), /no complete answer/)
      await bench.until(() => bench.sent.length === 1)
      t.equal(bench.sent[0]?.failure, failureOf(way), what)
    })
  })

  t.test(`${name}: a client that reads until the end is reset`, async (t) => {
    const open = Object.fromEntries(Object.entries(ALL).filter(([, text]) => !text.includes('Length')))
    await every(open, waysOf, async (text, fail, _way, what) => {
      const visit = await asked(t, make, 'GET / HTTP/1.0\r\nHost: a\r\n\r\n')
      visit.say(text)
      await visit.client.until('some')
      await fail(visit)
      await visit.client.closed
      t.equal(visit.client.error, 'ECONNRESET', what)
    })
  })

  t.test(`${name}: a stream of HTTP/2 is reset`, async (t) => {
    const multiplexed = (agent: string): Make => {
      return (parts) => ({ ...make(agent)(parts), h2 })
    }
    await every(ALL, waysOf, async (text, fail, _way, what) => {
      const visit = await visited(t, multiplexed, async (made) => made.session().request({ ':path': '/' }))
      const { client } = visit
      client.on('error', () => undefined)
      visit.say(text)
      await once(client, 'data')
      const closed = new Promise((resolve) => client.once('close', resolve))
      await fail(visit)
      await closed
      t.not(client.rstCode, 0, what)
    })
  })

  t.test(`${name}: a body until the end is whole when the agent ends the stream`, async (t) => {
    for (const [framing, text] of Object.entries(UNTIL_END)) {
      const visit = await asked(t, make, GET)
      visit.say(text)
      await visit.client.until('some')
      EARLY_END(visit)
      t.match((await visit.client.answer()).body, /some/, framing)
    }
  })

  t.test(`${name}: a WebSocket that breaks is reset, and one that ends is ended`, async (t) => {
    // Nobody waits for a message of a WebSocket; the silence of a whole agent is noticed by its heartbeat.
    const ways = without('falls silent')
    await every(
      { 'a WebSocket': SWITCHED },
      () => ways,
      async (text, fail, _way, what) => {
        const visit = await asked(t, make, UPGRADE)
        const { client, agent, id } = visit
        visit.say(`${text}hello`)
        await client.until('hello')
        client.send('more')
        await agent.until(() => agent.text(id).endsWith('more'))
        await fail(visit)
        await client.closed
        t.equal(client.error, 'ECONNRESET', what)
      }
    )
    const visit = await asked(t, make, UPGRADE)
    const { client, agent, id } = visit
    visit.say(`${SWITCHED}bye`)
    await client.until('bye')
    EARLY_END(visit)
    await client.untilEnd()
    t.equal(client.error, undefined)
    client.send('still')
    await agent.until(() => agent.text(id).endsWith('still'))
  })

  t.test(`${name}: an agent that fails in the middle of an upload`, async (t) => {
    // No answer is due before the request is complete.
    const ways = { ...without('falls silent', 'turns the stream away too late'), 'ends the stream': EARLY_END }
    const framings = { 'a length': 'Content-Length: 100', chunks: 'Transfer-Encoding: chunked' }
    await every(
      framings,
      () => ways,
      async (framing, fail, _way, what) => {
        const visit = await asked(t, make, `POST / HTTP/1.1\r\nHost: a\r\n${framing}\r\n\r\n3\r\nabc\r\n`)
        const { client, agent, id } = visit
        await agent.until(() => agent.text(id).includes('abc'))
        await fail(visit)
        t.equal((await client.answer()).status, 502, what)
      }
    )
  })
}
