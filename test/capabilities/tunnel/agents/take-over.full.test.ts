import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { asker } from '../../../api/asking.js'
import { SluiceProcess } from '../../../cli/process.js'
import { until } from '../../../helpers/until.js'
import { freePort } from '../../../proxy/free-port.js'
import { answerOf, body } from '../agent-suite.js'
import { sdkAgent } from '../sdk-agent.js'
import { Upstream } from '../upstream.js'

const KEY = 'a-key-for-tests-0123456789'
const HOSTS = { ours: 'ours.example.com', sdk: 'sdk.example.com', own: 'own.example.com', long: 'long.example.com' }
const POLICY = 'on_http_response: [{ actions: [{ type: add-headers, config: { headers: { x-own: "yes" } } }] }]'

// An exit before the last test must not look like success.
t.plan(1)

t.test('agents go to the process that takes over one by one, and their visitors lose nothing', async (t) => {
  const data = t.testdir()
  const [traffic, api, agents] = [await freePort(), await freePort(), await freePort()]
  const started = (...more: string[]) => {
    const words = ['start', '--listen', `127.0.0.1:${traffic}`, '--api', `127.0.0.1:${api}`, ...more]
    return new SluiceProcess(t, [...words, '--agents', `127.0.0.1:${agents}`, '--data', data], {
      cwd: data,
      env: {
        SLUICE_API_KEY: KEY,
        SLUICE_LIMITER_BUDGET: '64MiB',
        SLUICE_TIMEOUTS_DRAIN: '20s',
        SLUICE_ACCESS_LOG: 'off'
      }
    })
  }
  const first = started()
  await first.logged('listening')
  const ask = asker('127.0.0.1', api)
  const create = async (path: string, record: object) => {
    const answer = await ask(path, { method: 'POST', body: record, key: KEY })
    if (answer.status !== 201) throw new Error(`POST ${path} gave ${answer.status}: ${answer.text}`)
    return answer.json
  }
  const { token } = await create('/credentials', {})
  for (const app of ['ours', 'sdk', 'long'] as const) {
    const backend = await create('/backends/tunnel_group', { labels: { app } })
    const edge = await create('/edges/https', { hostports: [`${HOSTS[app]}:443`] })
    await create(`/edges/https/${edge.id}/routes`, { match: '/', backend: { backend_id: backend.id } })
  }
  const upstream = await Upstream.start(t)
  const ca = join(data, 'agents', 'ca.pem')
  const forward = `http://127.0.0.1:${upstream.port}`
  for (const app of ['ours', 'long']) {
    const words = [
      'agent',
      '--server',
      `127.0.0.1:${agents}`,
      '--ca',
      ca,
      '--label',
      `app=${app}`,
      '--forward',
      forward
    ]
    const agent = new SluiceProcess(t, words, { cwd: data, env: { SLUICE_TOKEN: token } })
    await agent.told(`app=${app} ->`)
  }
  const place = { port: agents, address: `localhost:${agents}`, ca: await readFile(ca, 'utf8') }
  const offers = [{ labels: { app: 'sdk' } }, { endpoint: 'https', at: HOSTS.own, policy: POLICY }] as const
  for (const offer of offers) {
    const agent = await sdkAgent.start(place, token, { ...offer, target: upstream.port })
    t.teardown(() => void agent.close().catch(() => undefined))
  }
  const tunnels = async () => {
    const { json } = await ask('/tunnels', { key: KEY })
    return (json.tunnels as { readonly id: string }[] | undefined)?.map(({ id }) => id).sort() ?? []
  }
  const before = await tunnels()
  t.equal(before.length, 4)

  const events = await visit(traffic, HOSTS.long, '/events')
  const seen = body(events)
  const visitors = [HOSTS.ours, HOSTS.sdk, HOSTS.own].map((host) => new Visitor(traffic, host))
  const second = started('--take-over')
  const told = await second.told('reads its options')
  const pid = Number(/process (\d+)/.exec(told)?.[1])
  t.teardown(() => process.kill(pid, 'SIGTERM'))
  await second.told('serves; the old one exits')
  const busy = before.length - 1
  await until(async () => (await tunnels()).length >= busy)
  t.equal((await tunnels()).length, busy, 'the one with a visitor stays where it is')
  const [late] = await Promise.all([
    visit(traffic, HOSTS.long, '/late'),
    ...visitors.map((visitor) => visitor.more(20))
  ])
  t.equal(await body(late), 'hello from /late', 'and takes others meanwhile')
  t.equal(first.child.exitCode, null)
  upstream.emit('next event')
  t.equal(await seen, 'data: 1\n\ndata: 2\n\n', 'a visit that had begun before goes on to its end')
  if (first.child.exitCode === null) await once(first.child, 'exit')
  await until(async () => (await tunnels()).length === before.length)
  t.same(await tunnels(), before, 'all agents have come with the ids that they had')
  await Promise.all(visitors.map((visitor) => visitor.more(20)))
  for (const visitor of visitors) t.same(await visitor.end(), [], visitor.host)
  t.equal((await visit(traffic, HOSTS.own)).headers['x-own'], 'yes', 'its policy is the one that the agent has sent')
})

// Threads of the SDK outlive their sessions and would hold the process.
t.teardown(() => process.exit())

async function visit(port: number, host: string, path = '/'): Promise<IncomingMessage> {
  return await answerOf(get({ host: '127.0.0.1', port, path, headers: { host }, agent: false }))
}

/** Comes again and again, each time on a connection of its own. */
class Visitor {
  readonly host: string
  #visits = 0
  #going = true
  readonly #wrong: string[] = []
  readonly #done: Promise<void>

  constructor(port: number, host: string) {
    this.host = host
    this.#done = this.#come(port)
  }

  /** Resolves after so many further visits. */
  async more(visits: number): Promise<void> {
    const wanted = this.#visits + visits
    await until(() => this.#visits >= wanted)
  }

  /** What went wrong. */
  async end(): Promise<readonly string[]> {
    this.#going = false
    await this.#done
    return this.#wrong
  }

  async #come(port: number): Promise<void> {
    while (this.#going) {
      try {
        const answer = await visit(port, this.host, '/again')
        const text = `${answer.statusCode} ${await body(answer)}`
        if (text !== '200 hello from /again') this.#wrong.push(text)
      } catch (error) {
        this.#wrong.push(String(error))
      }
      this.#visits++
    }
  }
}
