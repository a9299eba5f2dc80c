import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { get, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { BindRules, type Labels } from '../../../src/capabilities/tunnel/server/authority.js'
import { labelDialer } from '../../../src/capabilities/tunnel/server/dialer.js'
import { AgentServer, type AgentServerSetup, open, TOKEN, ZONE } from './agent-server.js'
import { Front } from './front.js'
import { hashOf, pattern, startEcho, Upstream } from './upstream.js'

/** Where agents connect. */
export type AgentPlace = Pick<AgentServer, 'port' | 'address' | 'ca'>

/** One kind of agent, as the suite drives it. */
export interface AgentKind {
  readonly name: string
  /** Connects; rejects with an error whose message holds what the server said. */
  start(server: AgentPlace, token: string, offer: Offer): Promise<RunningAgent>
}

export type Offer =
  | { readonly labels: Labels; readonly target: number }
  | {
      readonly endpoint: 'http' | 'https' | 'tcp' | 'tls'
      readonly at?: string
      readonly target: number
      readonly policy?: string
    }

export interface RunningAgent {
  /** Of its tunnel, as the agent knows it. */
  readonly id: string
  readonly url: string
  /** Resolves with what the server said when it ended the tunnel. */
  readonly stopped: Promise<string>
  /** Offers the tunnel no longer and goes. */
  close(): Promise<void>
}

const LABELS = { app: 'web', zone: 'a' }

/** What every agent must do with the server. */
export function runAgentSuite(kind: AgentKind): void {
  const labelled = async (t: Test, setup: AgentServerSetup = {}) => {
    const server = await AgentServer.start(t, setup)
    const upstream = await Upstream.start(t)
    const agent = await kind.start(server, TOKEN, { labels: LABELS, target: upstream.port })
    t.teardown(() => agent.close())
    const front = await Front.start(t, labelDialer(server.registry, { app: 'web' }, 'http'))
    return { server, upstream, agent, front }
  }

  t.test(`${kind.name}: labels, session and tunnel as they are shown`, async (t) => {
    const { server, agent, front } = await labelled(t)
    t.equal(await text(`${front.url}/x?y=1`), 'hello from /x?y=1')
    const [tunnel] = [...server.registry.tunnels()]
    t.same(tunnel?.labels, LABELS)
    t.equal(tunnel?.id, agent.id, 'both know the same id')
    const [session] = server.sessions()
    t.match(session, { grant: { credential: `cr_${TOKEN}` }, facts: { os: /./, userAgent: /\// } })
    t.match(session?.id, /^ts_[0-9A-Za-z]{27}$/)
    t.equal(server.registry.select({ app: 'web', zone: 'a' }).length, 1)
    t.equal(server.registry.select({ app: 'web', zone: 'b' }).length, 0, 'all labels must match')
    await agent.close()
    await server.until(() => server.tunnelIds().length === 0)
    await t.rejects(open(labelDialer(server.registry, LABELS, 'http')), /no tunnel/)
  })

  t.test(`${kind.name}: upload and download keep every byte`, async (t) => {
    const { front } = await labelled(t)
    const size = 5_000_003
    const upload = request(`${front.url}/hash`, { method: 'POST' })
    Readable.from(pattern(size)).pipe(upload)
    t.equal(await body(await answerOf(upload)), hashOf(size))
    const hash = createHash('sha256')
    for await (const chunk of await answerOf(get(`${front.url}/bytes?count=${size * 4}`))) hash.update(chunk as Buffer)
    t.equal(hash.digest('hex'), hashOf(size * 4))
  })

  t.test(`${kind.name}: many requests at once`, async (t) => {
    const { server, front } = await labelled(t)
    const count = 100
    const visits = Array.from({ length: count }, (_, index) => text(`${front.url}/gather?count=${count}&id=${index}`))
    t.same(
      await Promise.all(visits),
      visits.map((_, index) => `gathered ${index}`)
    )
    const [tunnel] = [...server.registry.tunnels()]
    t.ok((tunnel?.active ?? 0) <= count)
  })

  t.test(`${kind.name}: events arrive when they are sent`, async (t) => {
    const { front, upstream } = await labelled(t)
    const answer = await answerOf(get(`${front.url}/events`))
    const events = answer[Symbol.asyncIterator]()
    t.equal(String((await events.next()).value), 'data: 1\n\n')
    upstream.emit('next event')
    t.equal(String((await events.next()).value), 'data: 2\n\n')
    t.ok((await events.next()).done)
  })

  t.test(`${kind.name}: a WebSocket`, async (t) => {
    const { front } = await labelled(t)
    const socket = new WebSocket(`ws://127.0.0.1:${front.port}/socket`)
    await once(socket, 'open')
    for (const size of [1, 70_000, 500_000]) {
      const sent = randomBytes(size)
      socket.send(sent)
      const [received] = (await once(socket, 'message')) as [Buffer]
      t.ok(sent.equals(received), `${size} bytes`)
    }
    socket.close()
    await once(socket, 'close')
  })

  t.test(`${kind.name}: a visitor who leaves is noticed at the upstream`, async (t) => {
    const { server, front, upstream } = await labelled(t)
    const [tunnel] = [...server.registry.tunnels()]
    const visit = get(`${front.url}/endless`)
    const answer = await answerOf(visit)
    answer.on('error', () => undefined)
    await once(answer, 'data')
    const aborted = once(upstream, 'aborted')
    visit.destroy()
    await aborted
    t.equal(tunnel?.active, 0)
    t.equal(await text(front.url), 'hello from /', 'the tunnel goes on')
  })

  t.test(`${kind.name}: an upstream that is not there`, async (t) => {
    const { front, upstream } = await labelled(t)
    upstream.stop()
    t.equal((await answerOf(get(front.url))).statusCode, 502)
  })

  t.test(`${kind.name}: an HTTPS endpoint`, async (t) => {
    const server = await AgentServer.start(t, { tokens: { [TOKEN]: [], other: [] } })
    const upstream = await Upstream.start(t)
    const agent = await kind.start(server, TOKEN, { endpoint: 'https', target: upstream.port })
    t.teardown(() => agent.close())
    t.match(agent.url, new RegExp(`^https://[0-9a-f]{16}\\.${ZONE}$`))
    const wish = server.endpoints.get(agent.url)
    if (wish === undefined) throw new Error('not open')
    const front = await Front.start(t, wish.dialer)
    t.equal(await text(`${front.url}/here`), 'hello from /here')
    const named = await kind.start(server, TOKEN, { endpoint: 'https', at: 'app.example.com', target: upstream.port })
    t.equal(named.url, 'https://app.example.com')
    await t.rejects(
      kind.start(server, 'other', { endpoint: 'https', at: 'app.example.com', target: upstream.port }),
      /already served/
    )
    await named.close()
    await server.until(() => server.tunnelIds().length === 1)
    t.same([...server.endpoints.keys()], [agent.url], 'a closed endpoint is gone')
  })

  t.test(`${kind.name}: a TCP endpoint, half-closed`, async (t) => {
    const server = await AgentServer.start(t)
    const agent = await kind.start(server, TOKEN, { endpoint: 'tcp', target: await startEcho(t) })
    t.teardown(() => agent.close())
    const { port } = new URL(agent.url)
    const socket = connect({ host: '127.0.0.1', port: Number(port), allowHalfOpen: true })
    socket.end('hello ')
    t.equal(String(Buffer.concat(await socket.toArray())), 'hello bye')
    socket.destroy()
  })

  t.test(`${kind.name}: comes back after a broken connection with the ids that it had`, async (t) => {
    const { server, agent, front } = await labelled(t)
    const [first] = server.sessions()
    server.cut()
    await server.until(() => server.tunnelIds().length === 0)
    await server.until(() => server.tunnelIds().length === 1)
    const [second] = server.sessions()
    t.not(second, first)
    t.equal(second?.id, first?.id)
    t.same(server.tunnelIds(), [agent.id])
    t.equal(await text(front.url), 'hello from /')
  })

  t.test(`${kind.name}: comes back to a server that was started anew`, async (t) => {
    const secret = randomBytes(32)
    const { server, agent, upstream } = await labelled(t, { secret })
    const { port } = server
    const [session] = server.sessions()
    await server.stop()
    const next = await AgentServer.start(t, { secret, port })
    await next.until(() => next.tunnelIds().length === 1)
    t.same(next.tunnelIds(), [agent.id])
    t.equal(next.sessions()[0]?.id, session?.id)
    const front = await Front.start(t, labelDialer(next.registry, LABELS, 'http'))
    t.equal(await text(front.url), 'hello from /')
    upstream.stop()
    await agent.close()
  })

  t.test(`${kind.name}: a goodbye makes it come back at once`, async (t) => {
    const { server, agent, front } = await labelled(t)
    server.sessions()[0]?.close('a test')
    await server.until(() => server.tunnelIds().length === 0)
    await server.until(() => server.tunnelIds().length === 1)
    t.same(server.tunnelIds(), [agent.id])
    t.equal(await text(front.url), 'hello from /')
  })

  t.test(`${kind.name}: an HTTPS endpoint comes back under its name`, async (t) => {
    const server = await AgentServer.start(t)
    const upstream = await Upstream.start(t)
    const agent = await kind.start(server, TOKEN, { endpoint: 'https', target: upstream.port })
    // The SDK may be about to connect anew when the test ends, and calls that an error of its close.
    t.teardown(() => agent.close().catch(() => undefined))
    server.cut()
    await server.until(() => server.tunnelIds().length === 0)
    await server.until(() => server.tunnelIds().length === 1)
    t.same(server.tunnelIds(), [agent.id])
    t.same([...server.endpoints.keys()], [agent.url])
  })

  t.test(`${kind.name}: refusals reach the user`, async (t) => {
    const server = await AgentServer.start(t, { tokens: { labels: ['bind:app=*'], names: ['bind:*.example.com'] } })
    const target = 9
    await t.rejects(kind.start(server, 'wrong', { labels: LABELS, target }), /not known here/)
    await t.rejects(kind.start(server, 'labels', { labels: LABELS, target }), /labels are not allowed/)
    await t.rejects(kind.start(server, 'names', { labels: { app: 'web' }, target }), /labels are not allowed/)
    await t.rejects(kind.start(server, 'labels', { endpoint: 'https', target }), /is not allowed/)
    await t.rejects(kind.start(server, 'names', { endpoint: 'tcp', target }), /any port is not allowed/)
    const allowed = await kind.start(server, 'names', { endpoint: 'https', at: 'a.b.example.com', target })
    await allowed.close()
  })

  t.test(`${kind.name}: a revoked credential ends what it opened`, async (t) => {
    const known = { rules: true }
    const server = await AgentServer.start(t, {
      authenticate: async (token) =>
        known.rules ? { credential: token, rules: new BindRules([]) } : { refused: 'revoked' }
    })
    const upstream = await Upstream.start(t)
    const agent = await kind.start(server, TOKEN, { labels: LABELS, target: upstream.port })
    t.teardown(() => agent.close())
    const front = await Front.start(t, labelDialer(server.registry, LABELS, 'http'))
    const open = await answerOf(get(`${front.url}/endless`))
    await once(open, 'data')
    known.rules = false
    open.on('error', () => undefined)
    const broken = new Promise((resolve) => open.once('close', resolve))
    t.equal(
      server.listener.end(({ grant }) => grant.credential === TOKEN, 'the credential was deleted'),
      1
    )
    t.match(await agent.stopped, /the credential was deleted/)
    await broken
    t.notOk(open.complete, 'an answer that was under way does not look whole')
    t.equal(
      server.listener.end(() => true, 'again'),
      0
    )
  })
}

export async function answerOf(visit: ReturnType<typeof get>): Promise<IncomingMessage> {
  const [answer] = (await once(visit, 'response')) as [IncomingMessage]
  return answer
}

export async function body(answer: IncomingMessage): Promise<string> {
  let all = ''
  for await (const chunk of answer) all += String(chunk)
  return all
}

async function text(url: string): Promise<string> {
  return body(await answerOf(get(url)))
}
