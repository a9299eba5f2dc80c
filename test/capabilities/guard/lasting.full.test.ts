import t from 'tap'
import { account, create } from '../../helpers/account.js'
import { ManualClock } from '../../helpers/clock.js'
import { startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { startPostgres } from '../../store/postgres-server.js'
import { DENY, driven, GUARD, guarded, HOST, shop } from './guarded.js'

const SOON = 9

t.test('a guard outlives its process: the next one compares with what was before the write', async (t) => {
  const DATA = t.testdir()
  const clock = new ManualClock()
  const first = await guarded(t, { DATA }, clock)
  await first.traffic(10)
  const id = await first.write('PATCH', first.route, { traffic_policy: DENY })
  await first.traffic(2)
  await first.sluice.stop()
  const sluice = await startSluice(t, { clock, options: { DATA, OUTBOUND_ALLOW_PRIVATE: 'true' } })
  const { traffic, ended, visit, revision } = driven(t, sluice, clock)
  t.equal(await visit(), 403)
  while ((await revision(id)).guard.state === 'baking') await traffic(1)
  t.match(await ended(id), { state: 'broken', reason: /before the write 0% of 500/ })
  t.equal(await visit(), 200)
})

t.test('what has ended is not judged again after a restart, and what was superseded meanwhile neither', async (t) => {
  const DATA = t.testdir()
  const clock = new ManualClock()
  const first = await guarded(t, { DATA }, clock)
  await first.traffic(5)
  const passed = await first.write('PATCH', first.route, { description: 'one' })
  await first.traffic(31)
  await first.ended(passed)
  const id = await first.write('PATCH', first.route, { traffic_policy: DENY })
  await first.ask(`${first.route}/traffic_policy`, { method: 'DELETE' })
  await first.sluice.stop()
  const sluice = await startSluice(t, { clock, options: { DATA, OUTBOUND_ALLOW_PRIVATE: 'true' } })
  const { ended, revision } = driven(t, sluice, clock)
  t.match(await ended(id), { state: 'superseded', by: { id: id + 1 } })
  t.match((await revision(passed)).guard, { state: 'passed' })
})

t.test('of two processes on one store the one that has the traffic reverts, and once', async (t) => {
  const server = await startPostgres(t)
  const options = { STORE: await server.database(), OUTBOUND_ALLOW_PRIVATE: 'true' }
  // Each has a time of its own: the one without traffic stands still.
  const one = await guarded(t, options)
  const clock = new ManualClock()
  const other = driven(t, await startSluice(t, { clock, options }), clock)
  await until(async () => (await other.visit()) === 200)
  await other.traffic(10)
  const id = await one.write('PATCH', one.route, { traffic_policy: DENY })
  await until(async () => (await other.visit()) === 403)
  while ((await one.revision(id)).guard.state === 'baking') await other.traffic(1)
  const guard = await one.ended(id)
  t.match(guard, { state: 'broken', reason: /^refusal-rate/, by: { id: id + 1 } })
  await until(async () => (await one.visit()) === 200 && (await other.visit()) === 200)
  const metrics = await Promise.all([one, other].map(async ({ ask }) => (await ask('/metrics')).text))
  t.same(
    metrics.map((text) => /sluice_guards_total\{outcome="broken"\} (\d)/.exec(text)?.[1]),
    [undefined, '1'],
    'it is counted where it was judged'
  )
  const again = await other.write('PATCH', one.route, { description: 'harmless' })
  await other.traffic(31)
  t.match(await other.ended(again), { state: 'passed' })
  t.equal((await one.revision(again + 1)).error_code, 'ERR_SLUICE_NOT_FOUND', 'no process has written any more')
})

const site = (address: string, more = '') =>
  `sites:\n  ${HOST}: { ${more}routes: { /: shop } }\nbackends:\n  shop: { servers: ["http://${address}"] }\n`

t.test('a site file that breaks gives way to the one before it', async (t) => {
  const upstream = await shop(t)
  const clock = new ManualClock()
  const sluice = await startSluice(t, { clock, options: { OUTBOUND_ALLOW_PRIVATE: 'true' } })
  const ask = account(sluice)
  const { traffic, write, ended, visit, revision } = driven(t, sluice, clock)
  const good = { file: 'sites.yaml', text: site(upstream.address) }
  const bad = {
    file: 'sites.yaml',
    text: site(upstream.address, 'policy: deny.yaml, '),
    files: [{ name: 'deny.yaml', text: DENY.value }]
  }
  t.equal((await ask('/site', { method: 'PUT', body: good })).status, 200)
  await traffic(10)
  const before = (await ask('/site')).json
  const id = await write('PUT', '/site', bad)
  t.equal(await visit(), 403)
  await traffic(SOON)
  const guard = await ended(id)
  t.match(guard, { state: 'broken', by: { id: id + 1 } }, guard.reason)
  t.equal(await visit(), 200)
  // It serves before the write that brought it back has ended, which is what the file is shown by.
  await until(async () => (await ask('/site')).json.digest === before.digest)
  t.equal((await ask('/site')).json.digest, before.digest)
  t.match(await revision(id + 1), { reverts: { id }, reason: /refusal-rate/, updated: 1 })
  const gone = await write('DELETE', '/site', undefined)
  t.equal(await visit(), 404)
  await traffic(SOON)
  t.match(await ended(gone), { state: 'broken' })
  t.equal(await visit(), 200)
  const edge = await create(sluice, '/edges/https', { hostports: ['old.example.com:443'] })
  const remove = [{ resource: 'https_edge', id: edge.id, revision: (await revision(gone + 2)).id }]
  t.match(await ask('/site', { method: 'PUT', body: { ...bad, remove }, headers: { guard: GUARD } }), {
    status: 409,
    json: { error_code: 'ERR_SLUICE_GUARD_IMPOSSIBLE', msg: /removes records/ }
  })
  t.match(await ask(`/revisions/${id}/revert`, { method: 'POST' }), {
    status: 409,
    json: { error_code: 'ERR_SLUICE_REVERT_CONFLICT', msg: /another site file has been applied since/ }
  })
})
