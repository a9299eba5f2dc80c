import t from 'tap'
import { account, visit } from '../helpers/account.js'
import { startPostgres } from '../store/postgres-server.js'
import { ourAgent } from '../tunnel/our-agent.js'
import { Upstream } from '../tunnel/upstream.js'
import { startProduct } from './product.js'

const HOST = 'app.example.com'
const LABELS = { app: 'web' }
const server = await startPostgres(t)

t.test('two processes on one store: a credential of both, tunnels of each', async (t) => {
  const options = { STORE: await server.database() }
  const here = await startProduct(t, { options })
  const there = await startProduct(t, { options })
  const { id, token } = await here.credential()
  await here.site(HOST, LABELS)
  const upstream = await Upstream.start(t)
  const agent = await ourAgent.start(there.agents, token, { labels: LABELS, target: upstream.port })
  t.teardown(() => agent.close())
  await until(async () => (await visit(there.sluice, HOST)).status === 200)
  t.equal((await visit(here.sluice, HOST)).status, 503, 'a process uses the tunnels of its own agents')
  const both = await ourAgent.start(here.agents, token, { labels: LABELS, target: upstream.port })
  t.teardown(() => both.close())
  t.equal((await visit(here.sluice, HOST)).body, 'hello from /')
  const before = performance.now()
  t.equal((await account(here.sluice)(`/credentials/${id}`, { method: 'DELETE' })).status, 204)
  t.match(await both.stopped, /the credential was deleted/)
  t.match(await agent.stopped, /the credential was deleted/, 'the other process has heard of it')
  t.ok(performance.now() - before < 2000)
  await until(async () => (await visit(there.sluice, HOST)).status === 503)
})

async function until(done: () => Promise<boolean>): Promise<void> {
  while (!(await done())) await new Promise((resolve) => setImmediate(resolve))
}
