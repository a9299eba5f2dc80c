import { connect } from 'node:net'
import t from 'tap'
import { readGuard } from '../../../src/capabilities/guard/conditions.js'
import { writeGuards } from '../../../src/capabilities/guard/write-guards.js'
import type { ChangedDecisions } from '../../../src/control/changed-decisions.js'
import type { EndedGuard } from '../../../src/control/guard-note.js'
import { TrafficRates } from '../../../src/telemetry/traffic-rates.js'
import { DENY as DENY_TEXT, open } from '../../control/account.js'
import { create } from '../../helpers/account.js'
import { ManualClock } from '../../helpers/clock.js'
import { until } from '../../helpers/until.js'
import { freePort } from '../../proxy/free-port.js'
import { Lines } from '../../store/opened.js'
import { DENY, GUARD, guarded } from './guarded.js'

/** Seconds of traffic after which a fault must be undone. */
const SOON = 9

t.test('connections to a TCP edge are judged, too', async (t) => {
  const { sluice, ask, traffic, backend, write, ended } = await guarded(t)
  const port = await freePort()
  const edge = await create(sluice, '/edges/tcp', {
    hostports: [`localhost:${port}`],
    backend: { backend_id: backend.id }
  })
  /** One connection, which ends once something has come. */
  const one = () =>
    new Promise<void>((resolve) => {
      const socket = connect({ host: '127.0.0.1', port }, () => socket.write('GET / HTTP/1.0\r\n\r\n'))
      socket.on('error', () => undefined).on('data', () => socket.end())
      socket.once('close', () => resolve())
    })
  await traffic(10, 10, one)
  const id = await write('PATCH', `/edges/tcp/${edge.id}`, {
    traffic_policy: { value: 'on_tcp_connect: [{ actions: [{ type: deny }] }]' }
  })
  await traffic(SOON, 10, one)
  t.match(await ended(id), { state: 'broken', reason: /^refusal-rate: / })
  t.equal((await ask(`/edges/tcp/${edge.id}`)).json.traffic_policy, null)
})

t.test('an internal edge is judged by the requests that are led to it', async (t) => {
  const { sluice, backend, route, traffic, write, ended, visit } = await guarded(t)
  const inner = await create(sluice, '/edges/https', { hostports: ['inner.internal:443'] })
  const path = `/edges/https/${inner.id}/routes`
  const made = await create(sluice, path, { match: '/', backend: { backend_id: backend.id } })
  const lead = 'on_http_request: [{ actions: [{ type: forward-internal, config: { url: "https://inner.internal" } }] }]'
  await write('PATCH', route, { traffic_policy: { value: lead } })
  t.equal(await visit(), 200)
  await traffic(10)
  const id = await write('PATCH', `${path}/${made.id}`, { traffic_policy: DENY })
  t.equal(await visit(), 403)
  await traffic(SOON)
  t.match(await ended(id), { state: 'broken', reason: /^refusal-rate: / })
  t.equal(await visit(), 200)
})

t.test('a member guards what a member may write', async (t) => {
  const { sluice, ask, route, traffic, revision, visit } = await guarded(t)
  const bot = await create(sluice, '/bot_users', { name: 'deployer' })
  const key = (await create(sluice, '/api_keys', { owner_id: bot.id })).token
  await traffic(10)
  const headers = { guard: GUARD }
  const answer = await ask(route, { method: 'PATCH', body: { traffic_policy: DENY }, headers, key })
  t.equal(answer.status, 200)
  const id = Number(answer.headers['service-revision'])
  await traffic(SOON)
  await until(async () => (await revision(id)).guard.state === 'broken')
  t.match(await revision(id), { principal: { id: bot.id } })
  t.equal(await visit(), 200)
})

t.test('a share of changed decisions breaks a guard where policies are compared', async (t) => {
  const ended: EndedGuard[] = []
  const counts = new Map<number, { judged: number; changed: number }>()
  const changedDecisions: ChangedDecisions = {
    begin: () => undefined,
    since: (revision) => counts.get(revision),
    end: () => undefined
  }
  const [clock, traffic] = [new ManualClock(), new TrafficRates()]
  const guards = writeGuards({
    clock,
    log: new Lines(),
    traffic,
    changedDecisions,
    ended: (end) => void ended.push(end)
  })
  const account = await open(t, { clock, guards })
  const { edge, route } = await account.site('a.test')
  const guard = readGuard('changed-decisions=5%; bake=10s')
  const path = { id: route, edge_id: edge }
  const written = await account.update('https_edge_route', path, { traffic_policy: { value: DENY_TEXT } }, { guard })
  counts.set(written.committed, { judged: 1_000, changed: 300 })
  account.clock.advance(1_000)
  await until(() => ended.length === 1)
  t.match(ended, [
    { state: 'broken', revision: written.committed, reason: /30% of 1000 requests are decided otherwise/ }
  ])
  t.equal((await account.get('https_edge_route', path)).traffic_policy, null)
  const harmless = await account.update('https_edge_route', path, { description: 'one' }, { guard })
  counts.set(harmless.committed, { judged: 1_000, changed: 10 })
  account.clock.advance(10_000)
  await until(() => ended.length === 2)
  t.match(ended[1], { state: 'passed', reason: null })
})
