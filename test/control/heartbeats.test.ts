import t from 'tap'
import type { AppliedRevision } from '../../src/control/applied.js'
import { ClusterAgents } from '../../src/control/cluster/agents.js'
import { noLiveSources } from '../../src/control/cluster/live-sources.js'
import { Heartbeats, ProcessReports } from '../../src/control/cluster/membership.js'
import { ManualClock } from '../helpers/clock.js'
import { Lines, opened, type Test } from '../store/opened.js'

const NEVER = 2 ** 30
const SESSION = 'ts_1'
const ENTRY = { kind: 'session', id: SESSION, rank: SESSION, body: JSON.stringify({ id: SESSION, startedAt: 1 }) }

/** A process that lists agents, and another one that has one and is heard of when the test says so. */
async function stand(t: Test) {
  const { store, clock } = await opened(t, ':memory:')
  const log = new Lines()
  const applied = { revision: 1, error: null } as AppliedRevision
  const reports = new ProcessReports({ store, applied, clock, log, every: NEVER })
  t.teardown(() => reports.stop())
  const agents = new ClusterAgents({ store, reports, sources: noLiveSources, clock, log })
  const other = () => store.reportProcess({ id: 'proc_other', appliedRevision: 1, lastError: null, divergedAt: null })
  await other()
  await store.board.publish('proc_other', { put: [ENTRY], drop: [] })
  /** Lets seconds pass with a report in each. */
  const pass = async (seconds: number, others = false) => {
    for (let second = 0; second < seconds; second++) {
      clock.advance(1000)
      if (others) await other()
      reports.soon()
      await reports.stop()
    }
  }
  const shown = async () => (await agents.sessions({ limit: 9 })).map(({ id }) => id)
  const known = async () => (await store.processes()).map(({ id }) => id)
  return { store, clock, reports, agents, other, pass, shown, known, log }
}

t.test('what lives in a process is shown while it gives signs of life, and soon not any more', async (t) => {
  const { agents, other, pass, shown, known, reports, log } = await stand(t)
  await pass(100, true)
  t.same(await shown(), [SESSION])
  await pass(8)
  t.same(await shown(), [SESSION], 'a few reports may be late')
  await pass(2)
  t.same(await shown(), [])
  t.equal(await agents.session(SESSION), undefined)
  t.notOk(await agents.command(SESSION, 'stop'), 'nobody is asked who does not answer')
  t.same(
    (await reports.list()).map(({ id }) => id).sort(),
    ['proc_other', reports.id].sort(),
    'operators still see when it was last heard of'
  )
  await other()
  await pass(1)
  t.same(await shown(), [SESSION], 'it was slow, not gone')
  await pass(70)
  t.same(await known(), [reports.id], 'its report goes, and its entries with it')
  t.same(await shown(), [])
  t.same(log.texts, [])
})

t.test(
  'a process that is gone is shown with the time since, by the clock of the one that answers, and not for ever',
  async (t) => {
    const { clock, reports, other, pass, known } = await stand(t)
    const own = clock.wall()
    const state = async () => (await reports.list()).find(({ id }) => id === 'proc_other')
    // The clock of the other one is years behind.
    clock.setWall(Date.UTC(2020, 0, 1))
    await other()
    clock.setWall(own)
    await pass(1)
    const heard = new Date(clock.wall()).toISOString().replace('.000Z', 'Z')
    t.match(await state(), { goneSince: null, self: false })
    await pass(8)
    t.match(await state(), { goneSince: null }, 'a few reports may be late')
    await pass(2)
    t.match(await state(), { goneSince: heard, seenAt: '2020-01-01T00:00:00Z' })
    t.match(
      (await reports.list()).find(({ self }) => self),
      { goneSince: null }
    )
    await pass(60)
    t.same(await known(), [reports.id], 'its report has left the store')
    t.match(await state(), { goneSince: heard }, 'who has watched remembers')
    await other()
    await pass(1)
    t.match(await state(), { goneSince: null }, 'it was stopped for a while, and is back')
    t.equal((await reports.list()).length, 2)
    await pass(70)
    clock.advance(901_000)
    await pass(1)
    t.equal(await state(), undefined, 'after a quarter of an hour nobody has to know')
  }
)

t.test('a process that ends takes its report with it', async (t) => {
  const { reports, pass, known } = await stand(t)
  await pass(1)
  t.same(await known(), ['proc_other', reports.id].sort())
  await reports.leave()
  t.same(await known(), ['proc_other'])
})

t.test('the log says once that the store cannot be told', async (t) => {
  const { store, log, reports, pass } = await stand(t)
  await pass(1)
  await store.close()
  await pass(5)
  t.equal(log.texts.length, 1)
  t.match(log.texts[0], /cannot tell the other processes/)
  await reports.leave()
  t.match(log.texts[1], /its report stays behind/)
})

t.test('the time of another machine means nothing', async (t) => {
  const { clock, pass, shown, known, other } = await stand(t)
  for (const wall of [Date.UTC(2020, 0, 1), Date.UTC(2030, 0, 1)]) {
    const own = clock.wall()
    for (let second = 0; second < 30; second++) {
      clock.setWall(wall + 1000 * second)
      await other()
      clock.setWall(own + 1000 * second)
      await pass(1)
    }
    t.same(await shown(), [SESSION])
    t.equal((await known()).length, 2)
    await pass(10)
    t.same(await shown(), [])
    await other()
    await pass(1)
  }
})

t.test('a store that was out of reach has killed nobody', async (t) => {
  const { clock, pass, shown, known } = await stand(t)
  await pass(5, true)
  clock.advance(600_000)
  t.same(await shown(), [SESSION], 'nobody has looked')
  await pass(1)
  t.same(await shown(), [SESSION], 'who comes back first waits for the others')
  await pass(2, true)
  t.same(await shown(), [SESSION])
  t.equal((await known()).length, 2)
})

t.test('a process that has just begun to watch gives everybody their time', async (t) => {
  const clock = new ManualClock()
  const signs = new Heartbeats(clock)
  signs.look([{ id: 'a', seenAt: 1 }])
  t.same(signs.silentFor(0), [])
  clock.advance(1500)
  signs.look([
    { id: 'a', seenAt: 1 },
    { id: 'b', seenAt: 2 }
  ])
  t.same(signs.silentFor(1499), [{ id: 'a', seenAt: 1 }])
  t.same(signs.silentFor(1500), [])
  clock.advance(1000)
  signs.look([{ id: 'b', seenAt: 1 }])
  t.same(signs.silentFor(0), [], 'another time is a sign of life, an earlier one too')
})
