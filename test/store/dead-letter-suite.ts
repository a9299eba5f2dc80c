import type { Test as TapTest } from 'tap'
import type { DeadLetterBounds, DeliveryReport, NewDeadLetter } from '../../src/store/outbox.js'
import type { Store } from '../../src/store/store.js'
import { type Opened, operation } from './opened.js'

const ROOMY: DeadLetterBounds = { letters: 100, bytes: 100_000 }

/** What the dead letters of every store do. */
export function deadLetterSuite(t: TapTest, fresh: () => Promise<Opened>): void {
  t.test('an event goes from the outbox to the list, once, together with the report', async (t) => {
    const { store } = await fresh()
    await post(store, 'a', '"1"', '"ü"', '"3"')
    const report = reportOf('a', { delivered: 7, lastError: 'the receiver answered 422' })
    const letter = letterOf(1, 1, '"ü"')
    const twice = await Promise.all([
      store.deadLetters.add(letter, report, ROOMY),
      store.deadLetters.add(letter, report, ROOMY)
    ])
    t.same(
      twice.filter((counts) => counts !== undefined),
      [{ destination: 'a', letters: 1, dropped: 0 }],
      'of two at once one finds it'
    )
    t.equal(await store.deadLetters.add(letter, reportOf('a', {}), ROOMY), undefined)
    t.same(await store.outbox.reports(), [report])
    t.same(
      (await store.outbox.next('a', 9)).map(({ body }) => body),
      ['"1"', '"3"']
    )
    const { destination: _, place: __, body, ...shown } = letter
    t.same(await store.deadLetters.list('a', { limit: 9 }), [{ ...shown, number: 1, size: 4, reason: 'no \u{fffd}' }])
    t.match(await store.deadLetters.get('a', 1), { number: 1, body })
    t.equal(await store.deadLetters.get('a', 2), undefined)
    t.equal(await store.deadLetters.get('b', 1), undefined)
  })

  t.test('pages go from the newest to the oldest, also behind one that is gone', async (t) => {
    const { store } = await fresh()
    await fill(store, 'a', 5)
    await fill(store, 'b', 1)
    const numbers = async (before?: number) => {
      const page = { limit: 2, ...(before === undefined ? {} : { before }) }
      return (await store.deadLetters.list('a', page)).map(({ number }) => number)
    }
    t.same(await numbers(), [5, 4])
    t.equal(await store.deadLetters.drop('a', 4), 1)
    t.equal(await store.deadLetters.drop('a', 4), 0)
    t.same(await numbers(4), [3, 2])
    t.same(await numbers(2), [1])
    t.equal(await store.deadLetters.drop('a'), 4)
    t.same(await numbers(), [])
    await fill(store, 'a', 1)
    t.same(await numbers(), [6], 'a number is never used twice')
    t.same(byName(await store.deadLetters.counts()), [
      { destination: 'a', letters: 1, dropped: 0 },
      { destination: 'b', letters: 1, dropped: 0 }
    ])
  })

  t.test('beyond either bound the oldest go and are counted; the newest stays whatever its size', async (t) => {
    const { store } = await fresh()
    t.same(await fill(store, 'a', 5, { letters: 3, bytes: 100_000 }), { destination: 'a', letters: 3, dropped: 2 })
    t.same(await fill(store, 'b', 5, { letters: 9, bytes: 33 }, 'x'.repeat(8)), {
      destination: 'b',
      letters: 3,
      dropped: 2
    })
    t.same(await fill(store, 'b', 1, { letters: 9, bytes: 5 }, 'y'.repeat(50)), {
      destination: 'b',
      letters: 1,
      dropped: 5
    })
    t.equal((await store.deadLetters.list('a', { limit: 9 })).at(-1)?.number, 3)
  })

  t.test(
    'given back they wait again, the oldest first and behind what waits, in a revision of their own',
    async (t) => {
      const { store } = await fresh()
      await fill(store, 'a', 3)
      await fill(store, 'b', 1)
      await post(store, 'a', '"waits"')
      const before = await store.revision()
      const one = await store.transact(operation(), (tx) => tx.redeliver('a', 2))
      t.match(one, { value: 1, committed: true, revision: before + 1 })
      const none = await store.transact(operation(), (tx) => tx.redeliver('a', 2))
      t.match(none, { value: 0, committed: false })
      t.match(await store.outbox.postedAfter(before), { destinations: ['a'], revision: before + 1 })
      const rest = await store.transact(operation(), async (tx) => {
        await tx.insert({ kind: 'edge', id: operation(), body: 1 })
        await tx.post([{ destination: 'a', body: '"new"' }])
        return await tx.redeliver('a')
      })
      t.equal(rest.value, 2)
      t.same(
        (await store.outbox.next('a', 9)).map(({ body }) => body),
        ['"waits"', '"a2"', '"new"', '"a1"', '"a3"']
      )
      t.same(
        byName(await store.deadLetters.counts()).map(({ letters }) => letters),
        [0, 1]
      )
    }
  )

  t.test('those of a destination that is deleted go with it', async (t) => {
    const { store } = await fresh()
    await fill(store, 'a', 2)
    await fill(store, 'b', 1)
    await store.transact(operation(), async (transaction) => {
      await transaction.insert({ kind: 'edge', id: operation(), body: 1 })
      await transaction.withdraw('a')
    })
    t.same(await store.deadLetters.list('a', { limit: 9 }), [])
    t.same(await store.deadLetters.counts(), [{ destination: 'b', letters: 1, dropped: 0 }])
    t.equal(await store.deadLetters.add(letterOf(1, 0, '"late"'), reportOf('a', {}), ROOMY), undefined)
    t.same(
      (await store.outbox.reports()).map(({ destination }) => destination),
      ['b'],
      'a delivery that was under way leaves nothing behind'
    )
  })
}

const byName = <T extends { readonly destination: string }>(list: readonly T[]) =>
  [...list].sort((a, b) => (a.destination < b.destination ? -1 : 1))

function letterOf(revision: number, position: number, body: string, destination = 'a'): NewDeadLetter {
  return {
    destination,
    place: { revision, position },
    at: 5,
    eventId: 'ev_1',
    eventType: 'x.v0',
    eventTimestamp: null,
    attempts: 5,
    reason: 'no \0',
    body
  }
}

function reportOf(destination: string, more: Partial<DeliveryReport>): DeliveryReport {
  const nothing = { delivered: 0, waiting: 0, failures: 0, lastError: null, lastFailureAt: null, lastSuccessAt: null }
  return { destination, ...nothing, ...more }
}

/** As many dead letters, each through the outbox. Answers the last counts. */
async function fill(store: Store, destination: string, count: number, bounds = ROOMY, text = destination) {
  let counts: unknown
  for (let n = 1; n <= count; n++) {
    const body = JSON.stringify(`${text}${n}`)
    const revision = await post(store, destination, body)
    counts = await store.deadLetters.add(letterOf(revision, 0, body, destination), reportOf(destination, {}), bounds)
  }
  return counts
}

async function post(store: Store, destination: string, ...bodies: string[]): Promise<number> {
  const { revision } = await store.transact(operation(), async (transaction) => {
    await transaction.insert({ kind: 'edge', id: operation(), body: 1 })
    await transaction.post(bodies.map((body) => ({ destination, body })))
  })
  return revision
}
