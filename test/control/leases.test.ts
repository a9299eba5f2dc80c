import t from 'tap'
import { Leases } from '../../src/control/cluster/leases.js'
import type { Store } from '../../src/store/store.js'
import { ManualClock } from '../helpers/clock.js'
import { opened } from '../store/opened.js'

const EXPIRY = 20_000
const leasesOf = (store: Store, clock: ManualClock, holder: string) =>
  new Leases({ store: store.outbox, clock, holder, expiry: EXPIRY })

t.test('one process holds a lease; another takes it over when the first is silent', async (t) => {
  const { store } = await opened(t, ':memory:')
  const clock = new ManualClock()
  const [a, b] = [leasesOf(store, clock, 'a'), leasesOf(store, clock, 'b')]
  t.equal(await a.hold('certificates'), true)
  for (let seconds = 0; seconds < 120; seconds++) {
    clock.advance(1_000)
    t.same([await a.hold('certificates'), await b.hold('certificates')], [true, false])
  }
  let taken = 0
  while (!(await b.hold('certificates'))) {
    clock.advance(1_000)
    taken++
  }
  t.ok(taken >= 15 && taken <= 26, `after ${taken} s of silence`)
  t.equal(a.holds('certificates'), false, 'the silent process does not rely on it any more')
  t.equal(await a.hold('certificates'), false, 'and finds out when it asks')
  await b.release()
  t.equal(await a.hold('certificates'), true, 'given back, it is free at once')
})

t.test('a lease is renewed four times while it lasts, not at each question', async (t) => {
  const { store } = await opened(t, ':memory:')
  const clock = new ManualClock()
  const leases = leasesOf(store, clock, 'a')
  const numbers = new Set<number | undefined>()
  for (let seconds = 0; seconds < 40; seconds++) {
    t.equal(await leases.hold('certificates'), true)
    numbers.add((await store.outbox.leases())[0]?.number)
    clock.advance(1_000)
  }
  t.equal(numbers.size, 8)
})

t.test('several leases are shared out, and only those of a silent process change hands', async (t) => {
  const { store } = await opened(t, ':memory:')
  const clock = new ManualClock()
  const [a, b, c] = [leasesOf(store, clock, 'a'), leasesOf(store, clock, 'b'), leasesOf(store, clock, 'c')]
  t.same(await a.renew(['one', 'two']), ['one', 'two'])
  t.same(await b.renew(['two', 'three']), ['three'])
  t.same(await c.renew(['one', 'two', 'three']), [])
  for (let seconds = 0; seconds <= EXPIRY / 1_000; seconds++) {
    clock.advance(1_000)
    t.same(await b.renew(['three']), [], 'nothing new')
  }
  t.same([a.holds('one'), b.holds('three')], [false, true])
  t.same(await c.renew(['one', 'two', 'three']), ['one', 'two'])
  t.same(await a.renew(['one', 'two']), [], 'they are those of another process now')
  await c.release()
  t.same(await a.renew(['one']), ['one'])
  t.same(await b.renew(['two']), ['two'])
})
