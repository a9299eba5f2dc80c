import t from 'tap'
import { BLOCK, type RateRecord, type RateScope, sumOf, TrafficRates } from '../../src/telemetry/traffic-rates.js'

const SECOND = 1_000
const ONE: RateRecord = {
  route: 'route',
  edge: 'edge',
  inner: undefined,
  host: 'a.test',
  inside: false,
  revision: 1,
  outcome: 'served',
  at: 0
}
const NEVER = Number.POSITIVE_INFINITY

function scope(given: Partial<Record<'routes' | 'edges' | 'hosts', readonly string[]>>): RateScope {
  const { routes = [], edges = [], hosts = [] } = given
  return { all: false, routes: new Set(routes), edges: new Set(edges), hosts: new Set(hosts) }
}

const ALL: RateScope = { ...scope({}), all: true }

t.test('what was counted is known by route and edge, for five minutes', async (t) => {
  const rates = new TrafficRates()
  for (let second = 0; second < 60; second++) {
    rates.count({ ...ONE, at: second * SECOND, outcome: second % 2 === 0 ? 'failed' : 'refused' })
    rates.count({ ...ONE, at: second * SECOND, route: 'other', outcome: 'client-error' })
    rates.count({ ...ONE, at: second * SECOND, route: undefined, edge: undefined, outcome: 'refused' })
  }
  const at = 60 * SECOND
  const route = rates.before(scope({ routes: ['route'] }), at, NEVER)
  t.equal(route.length, 60 / BLOCK)
  t.same(sumOf(route), { requests: 60, failed: 30, refused: 30, clientErrors: 30 })
  t.match(sumOf(rates.before(scope({ edges: ['edge'] }), at, NEVER)), { requests: 120, clientErrors: 90 })
  t.match(sumOf(rates.before(ALL, at, NEVER)), { requests: 120 }, 'hosts that no edge has are nothing to compare with')
  t.same(rates.before(scope({ routes: ['none'] }), at, NEVER), [])
  t.equal(sumOf(rates.before(ALL, 5 * 60 * SECOND + 20 * SECOND, NEVER)).requests, 70, 'the oldest are forgotten')
})

t.test('what a revision serves is not what was before it', async (t) => {
  const rates = new TrafficRates()
  for (let second = 0; second < 20; second++) {
    rates.count({
      ...ONE,
      at: second * SECOND,
      revision: second < 10 ? 1 : 2,
      outcome: second < 10 ? 'served' : 'refused'
    })
  }
  t.match(sumOf(rates.before(ALL, 20 * SECOND, 2)), { requests: 10, refused: 0 })
  t.match(sumOf(rates.before(ALL, 20 * SECOND, 3)), { requests: 20, refused: 10 })
  rates.forget(scope({ routes: ['route'], edges: ['edge'] }), 10 * SECOND, { from: 2, to: 3 })
  rates.count({ ...ONE, at: 20 * SECOND, revision: 2, outcome: 'refused' })
  rates.count({ ...ONE, at: 20 * SECOND, revision: 3 })
  t.match(
    sumOf(rates.before(ALL, 21 * SECOND, NEVER)),
    { requests: 11, refused: 0 },
    'its last requests count for nothing'
  )
})

t.test('a watch counts by seconds what its revision serves of what it touches', async (t) => {
  const rates = new TrafficRates()
  const begun = 7_300
  const watch = rates.watch(scope({ routes: ['route'], edges: ['gone'], hosts: ['b.test', '*.c.test'] }), 5, begun)
  const count = (second: number, more: Partial<RateRecord>) =>
    rates.count({ ...ONE, revision: 5, at: begun + second * SECOND, ...more })
  count(0, { revision: 4, outcome: 'failed' })
  count(0, {})
  count(1, { route: 'other', inner: ['inner', 'route'] })
  count(1, { route: 'other' })
  count(3, { route: undefined, edge: 'gone', outcome: 'refused' })
  count(3, { route: undefined, edge: undefined, host: 'b.test', outcome: 'refused' })
  count(3, { route: undefined, edge: undefined, host: 'x.c.test', outcome: 'refused' })
  count(3, { route: undefined, edge: undefined, host: 'c.test', outcome: 'refused' })
  count(3, { revision: 6, outcome: 'failed' })
  t.same(
    watch.seconds().map(({ requests }) => requests),
    [1, 1, 4]
  )
  t.same(watch.total(), { requests: 6, failed: 1, refused: 3, clientErrors: 3 })
  for (let second = 4; second < 100; second++) count(second, {})
  t.equal(watch.seconds().length, 60, 'the last minute')
  t.equal(watch.total().requests, 102)
  watch.end()
  count(100, {})
  t.equal(watch.total().requests, 102)
  const all = rates.watch(ALL, 1, 0)
  count(0, { inside: true })
  count(0, { edge: undefined })
  count(0, { route: undefined })
  t.equal(all.total().requests, 1, 'what policies ask is no traffic of clients')
})
