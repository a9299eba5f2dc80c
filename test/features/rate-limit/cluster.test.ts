import t, { type Test } from 'tap'
import { ClusterLimits, clusterLimits, limitRules } from '../../../src/features/rate-limit/leases/cluster-limits.js'
import { LimiterTable } from '../../../src/features/rate-limit/limiter/table.js'
import { actions } from '../../../src/features/registry.js'
import type { LimitLedger } from '../../../src/lib/limit-ledger.js'
import { confinedActions } from '../../../src/policy/action.js'
import { compilePolicy } from '../../../src/policy/compile.js'
import { provide } from '../../../src/policy/services.js'
import { makeFlow } from '../../helpers/flow.js'
import { until } from '../../helpers/until.js'
import { headersOf, Kit, outcomeOf } from '../kit.js'
import { MemoryLedger } from './leases/memory-ledger.js'

const config = (more: object = {}) => ({
  name: 'all',
  algorithm: 'sliding_window',
  capacity: 5,
  rate: '60s',
  bucket_key: ['conn.client_ip'],
  scope: 'cluster',
  ...more
})

/** Goes on by itself, because waits end by it, and further when a test moves it. */
class Time {
  ahead = 0
  monotonic = () => performance.now() + this.ahead
  wall = () => 1_700_000_000_000 + this.monotonic()
}

/** A ledger that can be out of reach. */
class Reachable implements LimitLedger {
  away = false
  calls = 0
  readonly #ledger: MemoryLedger

  constructor(ledger: MemoryLedger) {
    this.#ledger = ledger
  }

  async exchange(call: Parameters<LimitLedger['exchange']>[0]) {
    this.calls++
    this.#reach()
    return await this.#ledger.exchange(call)
  }

  async clear(id: string) {
    this.#reach()
    await this.#ledger.clear(id)
  }

  async leave(member: string) {
    this.#reach()
    await this.#ledger.leave(member)
  }

  sweep = () => this.#ledger.sweep()
  listen = (recalled: (id: string, cleared: boolean) => void) => this.#ledger.listen(recalled)
  close = () => this.#ledger.close()

  #reach(): void {
    if (this.away) throw new Error('out of reach')
  }
}

interface Process {
  readonly limits: ClusterLimits
  readonly ledger: Reachable
  readonly kit: Kit
  ask(action: ReturnType<Kit['waiting']>, clientAddress?: string): Promise<string>
}

/** Processes on one ledger, which have one clock. */
function processes(t: Test, count: number): { time: Time; ledger: MemoryLedger; all: Process[] } {
  const time = new Time()
  const ledger = new MemoryLedger(() => time.wall())
  const all = Array.from({ length: count }, (_, i) => {
    const reachable = new Reachable(ledger)
    const limits = new ClusterLimits({ ledger: reachable, clock: time, secret: Buffer.alloc(32, 1), member: `m${i}` })
    t.teardown(() => limits.close())
    const kit = new Kit('none', { more: [provide(clusterLimits, limits)] })
    const ask = async (action: ReturnType<Kit['waiting']>, clientAddress = '192.0.2.1') =>
      outcomeOf(await action(makeFlow({ clientAddress })))
    return { limits, ledger: reachable, kit, ask }
  })
  return { time, ledger, all }
}

/** Time goes on until each process has said what it has used. */
async function reported(time: Time, all: readonly Process[]): Promise<void> {
  time.ahead += 1_100
  for (const { limits } of all) {
    const { calls } = limits.member
    await until(() => limits.member.calls > calls)
  }
}

const LIMITED = '429 RATE_LIMITED'
const limited = (kit: Kit, more: object = {}) => kit.waiting([['rate-limit', config(more)]])

t.test('processes admit together what one would', async (t) => {
  const { time, all } = processes(t, 3)
  const runs = all.map(({ kit, ask }) => {
    const run = limited(kit)
    return (client?: string) => ask(run, client)
  })
  const outcomes: string[] = []
  for (let i = 0; i < 7; i++) outcomes.push((await runs[i % 3]?.()) ?? '')
  t.same(outcomes, [...Array(5).fill('goes on'), LIMITED, LIMITED])
  t.equal(await runs[0]?.('192.0.2.2'), 'goes on', 'another key has a bucket of its own')
  const [first] = all as [Process]
  const verdict = await limited(first.kit)(makeFlow({ clientAddress: '192.0.2.1' }))
  t.match(headersOf(verdict), { 'retry-after': /^6[01]$/ })
  await reported(time, all)
  time.ahead += 60_100
  t.equal(await runs[1]?.(), 'goes on')
  t.same(
    all.map(({ kit }) => kit.counts.admitted),
    [3, 3, 1]
  )
})

t.test('what is published and counted is what the ledger says', async (t) => {
  const { time, all } = processes(t, 2)
  const [a, b] = all as [Process, Process]
  const begun = time.monotonic()
  const read = async ({ kit }: Process) => {
    const flow = makeFlow({ clientAddress: '192.0.2.1' })
    await limited(kit, { enforce: false, capacity: 2 })(flow)
    return kit.read('actions.service.rate_limit', flow)
  }
  t.match(await read(a), { limited: false, remaining: 1, bucket_key: '["192.0.2.1"]' })
  t.match(await read(b), { limited: false, remaining: 0 })
  const last = (await read(a)) as { reset_seconds: number }
  const passed = (time.monotonic() - begun) / 1_000
  t.match(last, { limited: true, remaining: 0 })
  t.ok(
    last.reset_seconds <= 61 && last.reset_seconds >= Math.floor(61 - passed),
    `${last.reset_seconds} s, after ${passed} s`
  )
  t.match(a.kit.counts, { admitted: 1, wouldRefuse: 1 })
})

t.test('a bucket that is asked often is decided without a question', async (t) => {
  const { time, all } = processes(t, 1)
  const [{ kit, ledger, limits }] = all as [Process]
  const { policy } = kit.compile({
    on_http_request: [{ actions: [{ type: 'rate-limit', config: config({ capacity: 10_000 }) }] }]
  })
  const run = () => policy?.phases.on_http_request?.run(makeFlow())
  let waited = 0
  for (let i = 0; i < 2_000; i++) {
    time.ahead += 1
    const outcome = run()
    if (outcome instanceof Promise) waited++
    t.equal(await outcome, undefined)
    if (i % 10 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  t.ok(waited < 100, `${waited} of 2000 waited`)
  t.ok(ledger.calls < 200, `${ledger.calls} calls`)
  t.match(limits.statistics(), { failures: 0, refusedAlone: 0, admittedAlone: 0 })
  t.ok(limits.statistics().held > 0)
  await limits.close()
  t.equal(limits.statistics().held, 0, 'what is left is given back')
})

t.test('while the ledger is away each limit does as it says', async (t) => {
  const { time, all } = processes(t, 2)
  const [a, b] = all as [Process, Process]
  const outcome = (process: Process, loss: object, client: string) => process.ask(limited(process.kit, loss), client)
  t.equal(await outcome(a, {}, 'x'), 'goes on')
  t.equal(await outcome(b, {}, 'x'), 'goes on')
  // Both learn their share.
  for (let step = 0; step < 6; step++) {
    time.ahead += 12_000
    await reported(time, all)
  }
  a.ledger.away = true
  t.equal(await outcome(a, { on_store_loss: 'closed' }, 'c'), LIMITED)
  t.equal(await outcome(a, { on_store_loss: 'open' }, 'o'), 'goes on')
  t.equal(await outcome(a, {}, 'l'), LIMITED, 'what the others were granted last is not known')
  t.same(headersOf(await limited(a.kit)(makeFlow({ clientAddress: 'l' }))), { 'retry-after': '1' })
  for (let step = 0; step < 7; step++) {
    time.ahead += 14_000
    a.kit.clock.now += 14_000
    const before = b.limits.member.calls
    await until(() => b.limits.member.calls > before)
  }
  const alone: string[] = []
  for (let i = 0; i < 4; i++) alone.push(await outcome(a, {}, 'l'))
  t.same(alone, ['goes on', 'goes on', LIMITED, LIMITED], 'half of five, rounded down')
  const other: string[] = []
  for (let i = 0; i < 4; i++) other.push(await outcome(b, {}, 'l'))
  t.same(other, ['goes on', 'goes on', 'goes on', LIMITED], 'the rest')
  t.match(a.limits.statistics(), { admittedAlone: 3, refusedAlone: 5 })
  a.ledger.away = false
  time.ahead += 1_500
  const before = a.limits.member.calls
  await until(() => a.limits.member.calls > before)
  t.equal(await outcome(b, {}, 'l'), LIMITED, 'what was admitted alone counts for the window')
})

t.test('a bucket is looked at and emptied for all processes', async (t) => {
  const { all } = processes(t, 2)
  const table = new LimiterTable({ clock: new Time(), budgetBytes: 16 * 1024 * 1024 })
  const [a, b] = all.map(({ limits }) => limits.window('shown', 60, table.window('shown', 60)))
  if (a === undefined || b === undefined) throw new TypeError('there are two')
  for (let i = 0; i < 3; i++) t.match(await a.take('k', 10), { admitted: true, remaining: 9 - i })
  t.match(await b.take('k', 10, 4), { admitted: true, remaining: 3 })
  t.match(await b.take('k', 10, 4), { admitted: false, remaining: 3 })
  t.match(await a.take('k', 10, 3), { admitted: true, remaining: 0 })
  t.match(await a.take('k', 10, 11), { admitted: false, retryAfterSeconds: 60 })
  t.match(await a.take('k', 10, 0), { admitted: true })
  for (const one of [a, b]) t.match(await one.peek('k', 10), { used: 10, remaining: 0, folded: 0 })
  t.match(await a.peek('other', 10), { used: 0, remaining: 10, resetSeconds: 0, retryAfterSeconds: 0 })
  await b.forget('k')
  for (const one of [a, b]) t.match(await one.peek('k', 10), { used: 0, remaining: 10 })
  t.match(await a.take('k', 10), { admitted: true, remaining: 9 })
  for (const { ledger } of all) ledger.away = true
  await t.rejects(Promise.resolve(a.peek('k', 10)), { name: 'LedgerAway' })
  await t.rejects(a.forget('k'), { name: 'LedgerAway' })
})

t.test('a request that brings a smaller capacity spends nothing of a greater one', async (t) => {
  const { all } = processes(t, 1)
  const table = new LimiterTable({ clock: new Time(), budgetBytes: 16 * 1024 * 1024 })
  const window = (all[0] as Process).limits.window('own', 60, table.window('own', 60))
  for (let i = 0; i < 5; i++) t.match(await window.take('k', 1_000), { admitted: true })
  t.match(await window.take('k', 5), { admitted: false })
  t.match(await window.take('k', 6), { admitted: true })
  t.match(await window.take('k', 6), { admitted: false })
  t.match(await window.take('k', 1_000), { admitted: true })
})

t.test('where there is no ledger, and where the options say cluster', async (t) => {
  const alone = new Kit()
  const run = alone.action('rate-limit', config({ capacity: 1 }))
  t.same(
    [run(makeFlow()), outcomeOf(run(makeFlow()))],
    [undefined, LIMITED],
    'a process that is alone counts by itself'
  )
  t.match(alone.problems('rate-limit', config({ scope: 'server', on_store_loss: 'open' })), [
    /^warning CONFIG_UNUSED .*on_store_loss/
  ])
  const agents = compilePolicy(
    JSON.stringify({ on_http_request: [{ actions: [{ type: 'rate-limit', config: config() }] }] }),
    {
      owner: 'tunnel',
      services: alone.services,
      keep: { keep: (key, make) => make(JSON.stringify(key)) },
      actions: confinedActions(actions, 'agent'),
      unavailable: 'refuse'
    }
  )
  t.match(agents.problems, [{ severity: 'error', path: /scope/, message: /an agent counts by itself/ }])
  const { all } = processes(t, 1)
  const [{ limits }] = all as [Process]
  const byDefault = new Kit('none', {
    more: [provide(clusterLimits, limits), provide(limitRules, { short_windows: false, scope: 'cluster' })]
  })
  const { scope: _, ...without } = config()
  t.equal(outcomeOf(await byDefault.waiting([['rate-limit', without]])(makeFlow())), 'goes on')
  t.equal(limits.statistics().calls > 0, true)
})

t.test('the share of a process that has certainly ended is free at once', async (t) => {
  const time = new Time()
  const ledger = new MemoryLedger(() => time.wall())
  const member = (name: string) => {
    const hasEnded = (other: string) => other === 'killed'
    const parts = { ledger: new Reachable(ledger), clock: time, secret: Buffer.alloc(32, 1) }
    const limits = new ClusterLimits({ ...parts, member: name, hasEnded })
    t.teardown(() => limits.close())
    const table = new LimiterTable({ clock: time, budgetBytes: 16 * 1024 * 1024 })
    return { limits, ledger: parts.ledger, window: limits.window('x', 60, table.window('x', 60)) }
  }
  const [a, killed, cut] = [member('a'), member('killed'), member('cut')]
  for (const one of [a, killed, cut]) await one.window.take('k', 100)
  for (let step = 0; step < 14; step++) {
    time.ahead += 6_000
    for (const { limits } of [a, killed, cut]) {
      const { calls } = limits.member
      await until(() => limits.member.calls > calls)
    }
  }
  killed.ledger.away = true
  cut.ledger.away = true
  for (let step = 0; step < 3; step++) {
    time.ahead += 14_000
    const { calls } = a.limits.member
    await until(() => a.limits.member.calls > calls)
  }
  await until(() => !ledger.members.has('killed'))
  t.ok(ledger.members.has('cut'), 'nobody knows whether it has')
  t.match(await a.window.peek('new', 100), { used: 0, remaining: 100 })
  t.match(await a.window.take('new', 100, 67), { admitted: true })
  t.match(await a.window.take('new', 100, 1), { admitted: false }, 'a third is kept for the one that is cut off')
})

t.test('each request is held to its own capacity, and counts for its cost, over all processes', async (t) => {
  const { all } = processes(t, 2)
  const [a, b] = all as [Process, Process]
  const of = { capacity: "int(getReqHeader('x-most')[0])", cost: "int(getReqHeader('x-cost')[0])" }
  const runs = [a, b].map(({ kit }) => limited(kit, of))
  const ask = async (process: number, most: number, cost: number) =>
    outcomeOf(await runs[process]?.(makeFlow({ headers: ['x-most', String(most), 'x-cost', String(cost)] })))
  t.equal(await ask(0, 10, 4), 'goes on')
  t.equal(await ask(1, 10, 4), 'goes on')
  t.equal(await ask(0, 10, 3), LIMITED)
  t.equal(await ask(1, 10, 2), 'goes on')
  t.equal(await ask(0, 10, 0), 'goes on')
  t.equal(await ask(0, 10, 1), LIMITED)
  t.equal(await ask(0, 12, 2), 'goes on', 'a larger plan has the difference at once')
  t.equal(await ask(1, 12, 1), LIMITED)
})
