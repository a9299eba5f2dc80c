import type { Test as TapTest } from 'tap'
import type { DeliveryReport } from '../../src/store/outbox.js'
import type { Store } from '../../src/store/store.js'
import { type Opened, operation } from './opened.js'

/** What the outbox of every store does. */
export function outboxSuite(t: TapTest, fresh: () => Promise<Opened>): void {
  t.test('what is posted waits in order once its cause is committed, and only then', async (t) => {
    const { store } = await fresh()
    const { outbox } = store
    await post(store, 'a', '1', '2')
    await post(store, 'b', '3')
    await post(store, 'a', '"\\u0000 \\ud800 ä"')
    await t.rejects(
      store.transact(operation(), async (transaction) => {
        await transaction.insert({ kind: 'edge', id: 'lost', body: 1 })
        await transaction.post([{ destination: 'a', body: 'lost' }])
        throw new Error('no')
      }),
      { message: 'no' }
    )
    const abandoned = await store.transact(operation(), (transaction) =>
      transaction.post([{ destination: 'a', body: 'nothing changed' }])
    )
    t.equal(abandoned.committed, false, 'an event without a change is none')
    t.same(await outbox.next('a', 9), [
      { revision: 1, position: 0, body: '1' },
      { revision: 1, position: 1, body: '2' },
      { revision: 3, position: 0, body: '"\\u0000 \\ud800 ä"' }
    ])
    t.same(await outbox.next('a', 1), [{ revision: 1, position: 0, body: '1' }])
    t.same(await outbox.next('c', 9), [])
    const all = await outbox.postedAfter(0)
    t.same([[...all.destinations].sort(), all.revision], [['a', 'b'], 3])
    t.same(await outbox.postedAfter(2), { destinations: ['a'], revision: 3 })
    t.same(await outbox.postedAfter(3), { destinations: [], revision: 3 })
    const kept = await store.transact(operation(), async (transaction) => {
      await transaction.post([{ destination: 'c', body: 'a command' }])
      transaction.revise()
    })
    t.match(kept, { committed: true, revision: 4 }, 'unless it says so')
    t.same(await outbox.next('c', 9), [{ revision: 4, position: 0, body: 'a command' }])
  })

  t.test('what was delivered goes, up to its place, together with the report', async (t) => {
    const { store } = await fresh()
    const { outbox } = store
    await post(store, 'a', '1', '2')
    await post(store, 'a', '3', '4')
    await post(store, 'b', '5')
    const report = reportOf('a', { delivered: 3, lastError: 'broken \0 text', lastFailureAt: 5 })
    await outbox.delivered({ revision: 2, position: 0 }, report)
    t.same(
      (await outbox.next('a', 9)).map(({ body }) => body),
      ['4']
    )
    t.equal(await outbox.count('a'), 1)
    t.equal(await outbox.count('b'), 1)
    t.same(await outbox.reports(), [{ ...report, lastError: 'broken \u{fffd} text' }])
    await outbox.report(reportOf('a', { failures: 2 }))
    t.same(await outbox.reports(), [reportOf('a', { failures: 2 })], 'the latest counts')
    await store.transact(operation(), async (transaction) => {
      await transaction.insert({ kind: 'edge', id: 'x', body: 1 })
      await transaction.withdraw('a')
    })
    t.same([await outbox.count('a'), await outbox.count('b'), await outbox.reports()], [0, 1, []])
  })

  t.test('a lease has one holder; who stands still loses it to the first who saw that', async (t) => {
    const { outbox } = (await fresh()).store
    t.equal(await outbox.take('d', 'one', undefined), true)
    t.equal(await outbox.take('d', 'two', undefined), false)
    const seen = (await outbox.leases())[0]?.number
    t.same(await outbox.renew('one'), ['d'])
    t.equal(await outbox.take('d', 'two', seen), false, 'it has shown life since')
    const [lease] = await outbox.leases()
    const takers = await Promise.all([outbox.take('d', 'two', lease?.number), outbox.take('d', 'three', lease?.number)])
    t.same(takers.filter((won) => won).length, 1)
    t.same(await outbox.renew('one'), [], 'the former holder hears of it')
    const holder = takers[0] ? 'two' : 'three'
    t.match(await outbox.leases(), [{ destination: 'd', holder }])
    await outbox.release('one')
    t.equal((await outbox.leases()).length, 1)
    await outbox.release(holder)
    t.same(await outbox.leases(), [])
  })

  t.test('the account has one id for ever', async (t) => {
    const { outbox } = (await fresh()).store
    const first = await outbox.account('ac_1')
    t.equal(await outbox.account('ac_2'), first)
  })
}

function reportOf(destination: string, more: Partial<DeliveryReport>): DeliveryReport {
  const nothing = { delivered: 0, waiting: 0, failures: 0, lastError: null, lastFailureAt: null, lastSuccessAt: null }
  return { destination, ...nothing, ...more }
}

async function post(store: Store, destination: string, ...bodies: string[]): Promise<void> {
  await store.transact(operation(), async (transaction) => {
    await transaction.insert({ kind: 'edge', id: operation(), body: 1 })
    await transaction.post(bodies.map((body) => ({ destination, body })))
  })
}
