import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { LiveSession } from '../../../../src/control/cluster/live-sources.js'
import { systemClock } from '../../../../src/lib/clock.js'
import { newId } from '../../../../src/lib/id.js'
import { openStore } from '../../../../src/store/open-store.js'
import type { Store } from '../../../../src/store/store.js'
import { SluiceProcess } from '../../../cli/process.js'
import { account, visit } from '../../../helpers/account.js'
import { until } from '../../../helpers/until.js'
import { startPostgres } from '../../../store/postgres-server.js'
import type { Offer, RunningAgent } from '../agent-suite.js'
import { ourAgent } from '../our-agent.js'
import { Upstream } from '../upstream.js'
import { type Product, startProduct } from './product.js'

const HOST = 'app.example.com'
const LABELS = { app: 'web' }
const LISTS = ['tunnel_sessions', 'tunnels', 'endpoints'] as const
const server = await startPostgres(t)

/** Two processes on a store of their own, and a credential that both know. */
async function pair(t: Test) {
  const address = await server.database()
  const options = { STORE: address, API_RATE_LIMIT: 'off' }
  const here = await startProduct(t, { options })
  const there = await startProduct(t, { options })
  const credential = await here.credential()
  const agent = async (at: Product, offer: Offer): Promise<RunningAgent> => {
    const running = await ourAgent.start(at.agents, credential.token, offer)
    t.teardown(() => running.close())
    return running
  }
  return { address, here, there, credential, agent }
}

/** The store beside the processes. */
async function beside(t: Test, address: string, clock = systemClock): Promise<Store> {
  const nothing = () => undefined
  const log = { info: nothing, warn: nothing }
  const store = await openStore(address, { log, clock, onRevision: nothing })
  t.teardown(() => store.close())
  return store
}

/** A session as another process publishes it. */
function entryOf(id: string) {
  const session: LiveSession = {
    id,
    startedAt: Date.now(),
    agentVersion: '1',
    credential: newId('cr', Date.now()),
    ip: '192.0.2.1',
    metadata: '',
    os: 'linux',
    region: 'global',
    transport: 'ngrok/2'
  }
  return { kind: 'session', id, rank: id, body: JSON.stringify(session) }
}

async function ids({ sluice }: Product, list: string): Promise<string[]> {
  return (await account(sluice)(`/${list}`)).json[list].map(({ id }: { id: string }) => id)
}

/** Kills a process that has an agent; resolves with how long another one has shown it. Milliseconds. */
async function killed(t: Test) {
  const { address, here, credential } = await pair(t)
  const data = t.testdir()
  const words = ['start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', '--agents', '127.0.0.1:0', '--data', data]
  const env = { SLUICE_API_KEY: 'a-key-for-tests-0123456789', SLUICE_STORE: address, SLUICE_LIMITER_BUDGET: '64MiB' }
  const other = new SluiceProcess(t, words, { cwd: data, env })
  const port = Number((await other.logged('agents may connect')).port)
  const ca = await readFile(join(data, 'agents', 'ca.pem'), 'utf8')
  const place = { port, address: `localhost:${port}`, ca }
  const agent = await ourAgent.start(place, credential.token, { endpoint: 'https', at: HOST, target: 9 })
  t.teardown(() => agent.close())
  const counts = async () => String(await Promise.all(LISTS.map(async (list) => (await ids(here, list)).length)))
  await until(async () => (await counts()) === '1,1,1')
  other.child.kill('SIGKILL')
  const before = performance.now()
  await other.ended()
  const forgotten = async () => {
    while ((await counts()) !== '0,0,0') await new Promise((resolve) => setTimeout(resolve, 100))
    return performance.now() - before
  }
  return { forgotten: forgotten() }
}

// Everything else happens while the agents of the dead are still shown.
const dead = await killed(t)

t.test('two processes on one store: a credential of both, tunnels of each', async (t) => {
  const { here, there, credential, agent } = await pair(t)
  await here.site(HOST, LABELS)
  const upstream = await Upstream.start(t)
  const one = await agent(there, { labels: LABELS, target: upstream.port })
  await until(async () => (await visit(there.sluice, HOST)).status === 200)
  t.equal((await visit(here.sluice, HOST)).status, 503, 'a process uses the tunnels of its own agents')
  const both = await agent(here, { labels: LABELS, target: upstream.port })
  t.equal((await visit(here.sluice, HOST)).body, 'hello from /')
  const before = performance.now()
  t.equal((await account(here.sluice)(`/credentials/${credential.id}`, { method: 'DELETE' })).status, 204)
  t.match(await both.stopped, /the credential was deleted/)
  t.match(await one.stopped, /the credential was deleted/, 'the other process has heard of it')
  t.ok(performance.now() - before < 2000)
  await until(async () => (await visit(there.sluice, HOST)).status === 503)
})

t.test('every process shows the agents of all of them', async (t) => {
  const { here, there, agent } = await pair(t)
  const backend = await here.site(HOST, LABELS)
  const labelled = await agent(there, { labels: LABELS, target: 9 })
  const endpoint = await agent(there, { endpoint: 'https', at: 'x.example.com', target: 9 })
  const own = await agent(here, { labels: { ...LABELS, more: 'yes' }, target: 9 })
  for (const product of [here, there]) {
    await product.until('/tunnel_sessions', ({ tunnel_sessions: all }) => (all as unknown[]).length === 3)
    await product.until('/tunnels', ({ tunnels }) => (tunnels as unknown[]).length === 3)
    await product.until('/endpoints', ({ endpoints }) => (endpoints as unknown[]).length === 2)
  }
  const urls = (product: Product) => new RegExp(`http://127\\.0\\.0\\.1:${product.sluice.apiPort}`, 'g')
  for (const list of LISTS) {
    const shown = async (product: Product) =>
      (await account(product.sluice)(`/${list}`)).text.replaceAll(urls(product), '')
    t.equal(await shown(there), await shown(here), `${list} are the same everywhere`)
    for (const id of await ids(here, list)) {
      const one = await account(here.sluice)(`/${list}/${id}`)
      t.match(one, { status: 200, json: { id } })
    }
  }
  const { json } = await account(here.sluice)(`/tunnels/${labelled.id}`)
  t.match(json, { labels: LABELS, backends: [{ id: backend }], endpoint: null })
  const tunnel = (await account(here.sluice)(`/tunnels/${endpoint.id}`)).json
  const shownEndpoint = (await account(here.sluice)('/endpoints')).json.endpoints.find(
    (one: { source: string }) => one.source === 'agent'
  )
  t.match(shownEndpoint, { url: 'https://x.example.com', tunnel: { id: endpoint.id } })
  t.same(tunnel.endpoint, { id: shownEndpoint.id, uri: shownEndpoint.uri })
  for (const product of [here, there]) {
    const group = (await account(product.sluice)(`/backends/tunnel_group/${backend}`)).json
    t.same(group.tunnels.map(({ id }: { id: string }) => id).sort(), [labelled.id, own.id].sort())
  }

  const seen: string[] = []
  let next: string | null = '/tunnels?limit=1'
  while (next !== null) {
    const page: { tunnels: { id: string }[]; next_page_uri: string | null } = (await account(here.sluice)(next)).json
    seen.push(...page.tunnels.map(({ id }) => id))
    next = page.next_page_uri?.replace(urls(here), '') ?? null
  }
  t.same(seen, await ids(here, 'tunnels'), 'pages neither skip nor repeat')

  await labelled.close()
  await endpoint.close()
  await here.until('/tunnel_sessions', ({ tunnel_sessions: all }) => (all as unknown[]).length === 1)
  await here.until('/tunnels', ({ tunnels }) => (tunnels as unknown[]).length === 1)
  await here.until('/endpoints', ({ endpoints }) => (endpoints as unknown[]).length === 1)
  t.same(await ids(here, 'tunnels'), [own.id])
})

t.test('commands reach an agent through its own process', async (t) => {
  const { here, there, agent } = await pair(t)
  const { id } = await agent(there, { labels: LABELS, target: 9 })
  await here.until('/tunnel_sessions', ({ tunnel_sessions: all }) => (all as unknown[]).length === 1)
  const [session] = await ids(here, 'tunnel_sessions')
  const command = (name: string, id = session) =>
    account(here.sluice)(`/tunnel_sessions/${id}/${name}`, { method: 'POST' })
  const update = await command('update')
  t.equal(update.status, 503, 'our agent does not update itself')
  t.match(update.json.msg, /the agent does not update/)
  t.equal((await command('restart')).status, 204)
  await there.sluice.line(({ msg }) => msg === 'an agent has gone')
  await until(async () => (await ids(there, 'tunnels')).includes(id) && (await ids(here, 'tunnels')).includes(id))
  t.same(await ids(here, 'tunnel_sessions'), [session], 'it came back as who it was')
  t.equal((await command('stop')).status, 204)
  await here.until('/tunnel_sessions', ({ tunnel_sessions: all }) => (all as unknown[]).length === 0)
  t.equal((await command('stop')).status, 404)
  t.equal((await command('stop', newId('ts', Date.now()))).status, 404)
})

t.test('the agents of a process that is gone are gone', async (t) => {
  const { address, here } = await pair(t)
  const store = await beside(t, address)
  const session = { id: newId('ts', Date.now()) }
  const entry = entryOf(session.id)
  await store.reportProcess({ id: 'proc_other', appliedRevision: 0, lastError: null, divergedAt: null })
  await store.board.publish('proc_other', { put: [entry], drop: [] })
  t.same(await ids(here, 'tunnel_sessions'), [session.id])
  const stop = account(here.sluice)(`/tunnel_sessions/${session.id}/stop`, { method: 'POST' })
  await until(async () => (await store.board.waiting('proc_other')).length === 1)
  t.match(await store.board.waiting('proc_other'), [{ body: JSON.stringify({ session: session.id, command: 'stop' }) }])
  // What every process does with the reports of those that have been silent for long.
  await store.forgetProcesses((await store.processes()).filter(({ id }) => id === 'proc_other'))
  const answer = await stop
  t.equal(answer.status, 503)
  t.match(answer.json.msg, /the process that this agent is connected to is gone/)
  t.same(await ids(here, 'tunnel_sessions'), [])
  t.equal((await account(here.sluice)(`/tunnel_sessions/${session.id}`)).status, 404)
})

t.test('a process whose clock is an hour behind or before shows its agents', async (t) => {
  const { address, here } = await pair(t)
  for (const hour of [-3_600_000, 3_600_000]) {
    const clock = { ...systemClock, wall: () => Date.now() + hour }
    const store = await beside(t, address, clock)
    const process = `proc_${hour}`
    const id = newId('ts', Date.now())
    const report = () => store.reportProcess({ id: process, appliedRevision: 0, lastError: null, divergedAt: null })
    await report()
    await store.board.publish(process, { put: [entryOf(id)], drop: [] })
    const self = async () => (await account(here.sluice)('/processes')).json.processes
    const seen = async () => (await self()).find((one: { self: boolean }) => one.self).seen_at
    const first = await seen()
    await until(async () => {
      await report()
      return (await seen()) !== first
    })
    t.ok((await ids(here, 'tunnel_sessions')).includes(id))
    t.ok((await store.processes()).some((one) => one.id === process))
  }
})

t.test('a process that was taken for dead shows its agents again', async (t) => {
  const { address, here, there, agent } = await pair(t)
  const store = await beside(t, address)
  const { id } = await agent(there, { endpoint: 'https', at: HOST, target: 9 })
  const shown = async () => (await ids(here, 'tunnels')).includes(id) && (await ids(here, 'endpoints')).length === 1
  await until(shown)
  // Whoever reports between the two questions is forgotten at the next attempt.
  do await store.forgetProcesses(await store.processes())
  while ((await store.processes()).length > 0)
  t.same(await ids(here, 'tunnels'), [])
  await until(shown)
  t.equal((await account(here.sluice)(`/tunnels/${id}`)).status, 200)
})

t.test('a process that stops takes its agents along', async (t) => {
  const { address, here, there, agent } = await pair(t)
  const store = await beside(t, address)
  await agent(there, { labels: LABELS, target: 9 })
  await here.until('/tunnels', ({ tunnels }) => (tunnels as unknown[]).length === 1)
  await there.sluice.stop()
  t.same(await ids(here, 'tunnels'), [])
  t.same(await store.board.list('session', { limit: 9 }, { except: [] }), [])
})

t.test('the agents of a process that was killed are shown by nobody ten seconds later', async (t) => {
  const took = await dead.forgotten
  t.ok(took > 4000 && took < 11_000, `${Math.round(took)} ms`)
})
