import { randomBytes } from 'node:crypto'
import { get, type IncomingMessage, request } from 'node:http'
import t, { type Test } from 'tap'
import { account, visit } from '../../../helpers/account.js'
import { type Engine, engines } from '../../../helpers/sluice.js'
import { answerOf } from '../agent-suite.js'
import { ourAgent } from '../our-agent.js'
import { CREDIT, DATA, type Frame, frame, RawAgent, SYN, word } from '../raw-agent.js'
import { Upstream } from '../upstream.js'
import { type Product, startProduct } from './product.js'

const GOOD = 'good.example.com'
const BAD = 'bad.example.com'
const LABELLED = 7
const WINDOW = 262_144
const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n'

interface Stand extends Product {
  readonly token: string
  /** An agent of the bad site. */
  bad(): Promise<RawAgent>
  /** Visits the good site until the work is done: everyone must be served. */
  during(t: Test, work: () => Promise<void>): Promise<void>
}

/** A good site and a bad one, each behind its tunnel. */
async function stand(t: Test, engine: Engine): Promise<Stand> {
  const product = await startProduct(t, { engine, options: { TIMEOUTS_RESPONSE: '300ms' } })
  const { token } = await product.credential()
  await product.site(GOOD, { app: 'good' })
  await product.site(BAD, { app: 'bad' })
  const upstream = await Upstream.start(t)
  const good = await ourAgent.start(product.agents, token, { labels: { app: 'good' }, target: upstream.port })
  t.teardown(() => good.close())
  return {
    ...product,
    token,
    async bad() {
      const agent = await RawAgent.session(product.agents, token)
      t.teardown(() => agent.socket.destroy())
      const { Error: refused } = await agent.call(LABELLED, { Labels: { app: 'bad' } })
      if (refused !== '') throw new Error(String(refused))
      return agent
    },
    async during(t, work) {
      let over = false
      const statuses: number[] = []
      const visits = (async () => {
        while (!over || statuses.length < 3) statuses.push((await visit(product.sluice, GOOD)).status)
      })()
      try {
        await work()
      } finally {
        over = true
        await visits
      }
      t.ok(
        statuses.every((status) => status === 200),
        `${statuses.length} others were served`
      )
      await product.until('/tunnels', (json) => (json.tunnels as unknown[]).length === 1)
    }
  }
}

/** The visitors' streams that an agent was given. */
const visits = (agent: RawAgent): Frame[] =>
  agent.frames.filter(({ type, flags, body }) => type === DATA && (flags & SYN) !== 0 && body.readUInt32BE(0) === 3)

async function visited(agent: RawAgent): Promise<number> {
  await agent.until(() => visits(agent).length > 0)
  return visits(agent)[0]?.id as number
}

for (const engine of engines) {
  t.test(`${engine}: a hostile agent loses its own session and nobody else's`, async (t) => {
    const { sluice, bad, during } = await stand(t, engine)
    const toBad = () => visit(sluice, BAD)

    await t.test('garbage in mid-answer', (t) =>
      during(t, async () => {
        const agent = await bad()
        const answer = toBad()
        await visited(agent)
        agent.socket.write(Buffer.concat([Buffer.from([9, 9, 9, 0x99]), randomBytes(100_000)]))
        await agent.untilClosed()
        t.equal((await answer).status, 502)
      })
    )

    await t.test('10,000 streams', (t) =>
      during(t, async () => {
        const agent = await bad()
        agent.send(...Array.from({ length: 10_000 }, () => frame(DATA, SYN, agent.nextId(), word(LABELLED))))
        await agent.untilClosed()
      })
    )

    await t.test('one that stalls', (t) =>
      during(t, async () => {
        const agent = await bad()
        const answers = await Promise.all([toBad(), toBad(), toBad()])
        t.same(
          answers.map(({ status }) => status),
          [504, 504, 504],
          'its visitors are told'
        )
        agent.socket.destroy()
      })
    )

    await t.test('one that stalls in the middle of an answer, and goes', (t) =>
      during(t, async () => {
        const agent = await bad()
        const sent = get({ host: '127.0.0.1', port: sluice.port, headers: { host: BAD }, agent: false })
        agent.send(frame(DATA, 0, await visited(agent), `${ANSWER}half`))
        const answer: IncomingMessage = await answerOf(sent)
        const broken = new Promise((resolve) =>
          answer
            .resume()
            .on('error', () => undefined)
            .once('close', resolve)
        )
        agent.socket.destroy()
        await broken
        t.notOk(answer.complete, 'half an answer does not look whole')
      })
    )

    await t.test('one that never reads', (t) =>
      during(t, async () => {
        const agent = await bad()
        agent.socket.pause()
        const uploads = Array.from({ length: 20 }, () => {
          const sent = request({
            host: '127.0.0.1',
            port: sluice.port,
            method: 'PUT',
            headers: { host: BAD },
            agent: false
          })
          sent.on('error', () => undefined)
          sent.end(Buffer.alloc(2_000_000))
          return new Promise((resolve) => sent.once('close', resolve))
        })
        for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate)
        agent.socket.destroy()
        await Promise.all(uploads)
      })
    )

    await t.test('one that lies about windows', (t) =>
      during(t, async () => {
        const agent = await bad()
        const lied = toBad()
        const id = await visited(agent)
        agent.send(frame(CREDIT, 0, id, word(0x7fff_ffff)), frame(DATA, 0, id, Buffer.alloc(WINDOW + 1, 'x')))
        t.equal((await lied).status, 502)
        t.match(await agent.call(LABELLED, { Labels: { other: 'one' } }), { Error: '' }, 'only the stream is lost')
        agent.socket.destroy()
      })
    )
    t.same((await account(sluice)('/tunnel_sessions')).json.tunnel_sessions.length, 1)
  })
}
