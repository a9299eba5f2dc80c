import type { Test as TapTest } from 'tap'
import { ClaimConflict } from '../../src/store/errors.js'
import { KyselyStore } from '../../src/store/kysely-store.js'
import type { Position, Store } from '../../src/store/store.js'
import type { Database } from '../../src/store/tables.js'
import type { ManualClock } from '../helpers/clock.js'
import { boardSuite } from './board-suite.js'
import { deadLetterSuite } from './dead-letter-suite.js'
import { endedSuite } from './ended-suite.js'
import { loginSessionSuite } from './login-session-suite.js'
import { manySuite } from './many-suite.js'
import { type Opened, operation, over, put } from './opened.js'
import { outboxSuite } from './outbox-suite.js'

/** What every store does, whatever it stands on. `database` holds nothing but its schema; it is closed in the end. */
export async function storeSuite(t: TapTest, database: Database, isolated: boolean): Promise<void> {
  const fresh = async (): Promise<Opened> => {
    for (const table of [
      'records',
      'revisions',
      'tombstones',
      'processes',
      'outbox',
      'deliveries',
      'dead_letters',
      'leases',
      'ended_sessions',
      'login_sessions'
    ] as const) {
      await database.writes.deleteFrom(table).execute()
    }
    await database.writes.updateTable('meta').set({ revision: 0, sequence: 0, history_from: 0 }).execute()
    return over(database)
  }
  records(t, fresh)
  manySuite(t, fresh)
  references(t, fresh)
  claims(t, fresh)
  transactions(t, fresh)
  history(t, fresh)
  paging(t, fresh)
  outboxSuite(t, fresh)
  deadLetterSuite(t, fresh)
  boardSuite(t, fresh)
  endedSuite(t, fresh)
  loginSessionSuite(t, fresh)
  if (isolated) isolation(t, fresh)
  closing(t, async () => {
    const { store, ...rest } = await fresh()
    const parts = { log: rest.log, clock: rest.clock, onCommit: () => undefined, onClose: () => Promise.resolve() }
    return { ...rest, store: new KyselyStore(database, parts) }
  })
}

type Fresh = () => Promise<Opened>

function records(t: TapTest, fresh: Fresh): void {
  t.test('a record comes back as it was written', async (t) => {
    const { store, clock } = await fresh()
    const body = {
      text: 'ä 𝄞 \0 \ud800 "\\',
      zero: -0,
      list: [null, true, 1.5, {}],
      z: 1,
      a: 2,
      ['__proto__']: { polluted: true }
    }
    const sealed = new Uint8Array(256).map((_, index) => index)
    const { value: inserted, revision } = await store.transact(operation(), (transaction) =>
      transaction.insert({ kind: 'edge', id: 'e1', body, sealed })
    )
    const read = await store.get('edge', 'e1')
    t.same(read, inserted)
    t.equal(JSON.stringify(read?.body), JSON.stringify(body), 'keys in their order, odd text intact')
    t.same(read?.sealed, sealed)
    t.equal(read?.revision, revision)
    t.equal(read?.createdAt, clock.wall())
    t.equal(await store.get('route', 'e1'), undefined, 'an id belongs to its kind')
  })

  t.test('an update leaves what it does not name', async (t) => {
    const { store, clock } = await fresh()
    const sealed = new Uint8Array([1, 2, 3])
    await store.transact(operation(), (transaction) =>
      transaction.insert({ kind: 'edge', id: 'e1', body: 1, sealed, createdAt: 77 })
    )
    clock.advance(1000)
    const first = await store.transact(operation(), (transaction) => transaction.update('edge', 'e1', { body: 2 }))
    t.match(first.value, { body: 2, revision: 2, createdAt: 77, sequence: 1 })
    t.same(first.value.sealed, sealed)
    await store.transact(operation(), (transaction) => transaction.update('edge', 'e1', { sealed: null }))
    t.match(await store.get('edge', 'e1'), { body: 2, sealed: null, revision: 3 })
  })

  t.test('the same key twice, and a key that is not there, are refused', async (t) => {
    const { store } = await fresh()
    await put(store, 'edge', 'e1', 'first')
    await t.rejects(put(store, 'edge', 'e1', 'second'), { code: 'STORE_EXISTS' })
    await t.rejects(
      store.transact(operation(), (transaction) => transaction.update('edge', 'no', { body: 1 })),
      {
        code: 'STORE_MISSING'
      }
    )
    await t.rejects(
      store.transact(operation(), (transaction) => transaction.delete('edge', 'no')),
      {
        code: 'STORE_MISSING'
      }
    )
    await t.rejects(put(store, 'edge', 'a\0b'), { code: 'STORE_FAILED' }, 'an id that would be cut')
    t.match(await store.get('edge', 'e1'), { body: 'first' })
    t.equal(await store.revision(), 1)
  })

  t.test('many at once, and ids that no record can have', async (t) => {
    const { store } = await fresh()
    const many = Array.from({ length: 1203 }, (_, index) => ({ kind: 'edge', id: `e${index}`, body: index }))
    await store.transact(operation(), (transaction) => transaction.insertMany(many))
    await put(store, 'route', 'e5', 'route')
    const keys = [...many, { kind: 'route', id: 'e5' }, { kind: 'route', id: 'gone' }, { kind: 'edge', id: 'x\0' }]
    const found = await store.getMany(keys)
    t.equal(found.length, 1204)
    t.same(new Set(found.map((record) => record.sequence)).size, 1204)
    for (const id of ['e1\0', '\0', '\ud800', '', 'e1; drop table records', '%']) {
      t.equal(await store.get('edge', id), undefined)
      t.same(await store.referencesTo('edge', id), [])
      t.equal(await store.list('edge', { limit: 1, before: id }), undefined)
    }
    const twice = [many[0], { kind: 'edge', id: 'new', body: 1 }] as typeof many
    await t.rejects(
      store.transact(operation(), async (transaction) => {
        await t.rejects(transaction.insertMany(twice), { code: 'STORE_EXISTS' })
      }),
      { code: 'STORE_FAILED' },
      'an insert of which half is in cannot be committed by work that looks away'
    )
    t.equal(await store.get('edge', 'new'), undefined)
  })

  t.test('the reports of processes', async (t) => {
    const { store, clock } = await fresh()
    const first = await store.reportProcess({ id: 'b', appliedRevision: 3, lastError: null, divergedAt: null })
    t.same(first, { known: false, calls: 0 })
    await store.reportProcess({ id: 'a', appliedRevision: 2, lastError: 'port busy\0', divergedAt: null })
    const before = clock.wall()
    clock.advance(5000)
    const second = await store.reportProcess({ id: 'b', appliedRevision: 4, lastError: null, divergedAt: null })
    t.same(second, { known: true, calls: 0 })
    t.same(await store.processes(), [
      { id: 'a', appliedRevision: 2, lastError: 'port busy\u{fffd}', divergedAt: null, seenAt: before },
      { id: 'b', appliedRevision: 4, lastError: null, divergedAt: null, seenAt: before + 5000 }
    ])
    await store.forgetProcesses([
      { id: 'a', seenAt: before },
      { id: 'b', seenAt: before }
    ])
    t.same(
      (await store.processes()).map(({ id }) => id),
      ['b']
    )
    t.equal(await store.revision(), 0, 'a report is no revision')
  })
}

function references(t: TapTest, fresh: Fresh): void {
  t.test('references: order, both directions, deletion', async (t) => {
    const { store } = await fresh()
    const from = { kind: 'restriction', id: 'r' }
    const to = (id: string) => ({ kind: 'policy', id })
    await store.transact(operation(), async (transaction) => {
      await transaction.insert({ ...from, body: 0 })
      await transaction.insert({ ...to('p1'), body: 0 })
      await transaction.replaceReferences(from, [
        { field: 'policies', to: to('p2') },
        { field: 'policies', to: to('p1') },
        { field: 'policies', to: to('p2') },
        { field: 'owner', to: to('p1') }
      ])
    })
    const outgoing = await store.referencesFrom('restriction', 'r')
    t.same(
      outgoing.map(({ field, position, to: { id } }) => [field, position, id]),
      [
        ['owner', 0, 'p1'],
        ['policies', 0, 'p2'],
        ['policies', 1, 'p1'],
        ['policies', 2, 'p2']
      ]
    )
    t.equal((await store.referencesTo('policy', 'p1')).length, 2)
    t.equal((await store.referencesTo('policy', 'p1', 1)).length, 1)
    t.same((await store.referencesTo('policy', 'p1'))[0]?.from, from)
    t.same(await store.referencesTo('restriction', 'p1'), [])

    await store.transact(operation(), (transaction) => transaction.delete('policy', 'p1'))
    t.equal((await store.referencesTo('policy', 'p1')).length, 2, 'references to a record outlive it')
    await store.transact(operation(), async (transaction) => {
      await transaction.replaceReferences(from, [{ field: 'policies', to: to('p9') }])
    })
    t.same(await store.referencesTo('policy', 'p1'), [])
    await store.transact(operation(), (transaction) => transaction.delete('restriction', 'r'))
    t.same(await store.referencesTo('policy', 'p9'), [], 'references of a record go with it')
  })
}

function claims(t: TapTest, fresh: Fresh): void {
  t.test('a value has one keeper', async (t) => {
    const { store } = await fresh()
    const a = { kind: 'edge', id: 'a' }
    const b = { kind: 'edge', id: 'b' }
    await put(store, 'edge', 'b')
    await store.transact(operation(), async (transaction) => {
      await transaction.insert({ ...a, body: 0 })
      for (const value of ['x', 'x\0', 'x\0y', '\ud800', '\ud801', '"x"', '']) await transaction.claim(a, 'host', value)
      await transaction.claim(a, 'host', 'x')
    })
    t.same((await store.claimsOf('edge', 'a')).map(({ value }) => value).sort(), [
      '',
      '"x"',
      'x',
      'x\0',
      'x\0y',
      '\ud800',
      '\ud801'
    ])
    const conflict = await store
      .transact(operation(), (transaction) => transaction.claim(b, 'host', 'x\0'))
      .catch((error: unknown) => error)
    t.ok(conflict instanceof ClaimConflict)
    t.match(conflict, { code: 'STORE_CLAIMED', keeper: a, claim: { space: 'host', value: 'x\0' } })

    await store.transact(operation(), async (transaction) => {
      await t.rejects(transaction.claim(b, 'host', 'x'), { code: 'STORE_CLAIMED' })
      await transaction.claim(b, 'other space', 'x')
      await transaction.release(b, 'host', 'x')
      await transaction.update('edge', 'b', { body: 'went on' })
    })
    t.match(await store.get('edge', 'b'), { body: 'went on' }, 'a conflict leaves the transaction usable')
    t.same(await store.keeperOf('host', 'x'), a, 'only its keeper gives a value back')

    await store.transact(operation(), async (transaction) => {
      await transaction.release(a, 'host', 'x')
      await transaction.claim(b, 'host', 'x')
      await transaction.delete('edge', 'a')
    })
    t.same(await store.keeperOf('host', 'x'), b)
    t.equal(await store.keeperOf('host', 'x\0'), undefined, 'the claims of a record go with it')
    await t.rejects(
      store.transact(operation(), (transaction) => transaction.claim(a, 'host', 'y')),
      { code: 'STORE_FAILED' },
      'nobody claims who does not exist'
    )
  })
}

function transactions(t: TapTest, fresh: Fresh): void {
  t.test('failed, abandoned and empty work leaves nothing', async (t) => {
    const { store } = await fresh()
    const kept = { kind: 'edge', id: 'kept' }
    await put(store, 'edge', 'kept', 'as it was')
    const everything = async (end: () => void, transaction: Parameters<Parameters<Store['transact']>[1]>[0]) => {
      await transaction.update('edge', 'kept', { body: 'changed' })
      await transaction.insert({ kind: 'edge', id: 'new', body: 0 })
      await transaction.replaceReferences(kept, [{ field: 'f', to: kept }])
      await transaction.claim(kept, 'host', 'x')
      t.match(await transaction.get('edge', 'kept'), { body: 'changed' }, 'its own reads see what it wrote')
      t.equal(await transaction.revision(), 2)
      await transaction.delete('edge', 'kept')
      end()
      return 'result'
    }
    const failure = new Error('mine')
    const failing = store.transact(operation(), (transaction) =>
      everything(() => {
        throw failure
      }, transaction)
    )
    t.equal(await failing.catch((error: unknown) => error), failure, 'what the work throws is what the caller gets')
    const dry = await store.transact(operation(), (transaction) => everything(() => transaction.abandon(), transaction))
    t.same(dry, { value: 'result', committed: false, revision: 2, previous: 1 })
    t.match(await store.transact(operation(), (transaction) => transaction.get('edge', 'kept')), { committed: false })

    t.match(await store.get('edge', 'kept'), { body: 'as it was', revision: 1 })
    t.equal(await store.get('edge', 'new'), undefined)
    t.equal(await store.keeperOf('host', 'x'), undefined)
    t.same(await store.referencesTo('edge', 'kept'), [])
    t.equal((await store.changesAfter(0)).changes.length, 1)
    t.equal(await put(store, 'edge', 'next'), 2, 'the revision was not used up')
    t.equal((await store.get('edge', 'next'))?.sequence, 2)
  })

  t.test('revisions count commits in their order', async (t) => {
    const { store } = await fresh()
    const done: number[] = []
    const writes = Array.from({ length: 20 }, async (_, index) => {
      const write = store.transact(operation(), async (transaction) => {
        await transaction.insert({ kind: 'edge', id: `e${index}`, body: index })
        if (index % 4 === 3) throw new Error('no')
      })
      const outcome = await write.catch(() => undefined)
      if (outcome === undefined) return
      t.equal(outcome.previous, outcome.revision - 1)
      done.push(outcome.revision)
    })
    await Promise.all(writes)
    t.same(
      done,
      Array.from({ length: 15 }, (_, index) => index + 1)
    )
    const feed = await store.changesAfter(0)
    t.same(
      feed.changes.map(({ revision }) => revision),
      done
    )
    t.equal(feed.revision, 15)
  })

  t.test('a handle ends with its work', async (t) => {
    const { store } = await fresh()
    const { value: kept } = await store.transact(operation(), async (transaction) => {
      await transaction.insert({ kind: 'edge', id: 'a', body: 0 })
      return transaction
    })
    await t.rejects(kept.insert({ kind: 'edge', id: 'late', body: 0 }), { code: 'STORE_CLOSED' })
    await t.rejects(kept.get('edge', 'a'), { code: 'STORE_CLOSED' })
    t.equal(await store.get('edge', 'late'), undefined)
  })

  t.test('an operation id serves once', async (t) => {
    const { store } = await fresh()
    const id = operation()
    await store.transact(id, (transaction) => transaction.insert({ kind: 'edge', id: 'a', body: 0 }))
    const again = store.transact(id, (transaction) => transaction.insert({ kind: 'edge', id: 'b', body: 0 }))
    await t.rejects(again, { code: 'STORE_FAILED' })
    t.equal(await store.get('edge', 'b'), undefined)
  })
}

function history(t: TapTest, fresh: Fresh): void {
  t.test('what a revision changed, record by record', async (t) => {
    const { store } = await fresh()
    await put(store, 'edge', 'old')
    await put(store, 'edge', 'again')
    const { revision } = await store.transact('op_named', async (transaction) => {
      await transaction.insert({ kind: 'edge', id: 'brief', body: 0 })
      await transaction.delete('edge', 'brief')
      await transaction.insert({ kind: 'route', id: 'new', body: 0 })
      await transaction.update('route', 'new', { body: 1 })
      await transaction.update('edge', 'old', { body: 1 })
      await transaction.delete('edge', 'old')
      await transaction.delete('edge', 'again')
      await transaction.insert({ kind: 'edge', id: 'again', body: 2 })
      transaction.note({ who: 'ak_1', fields: ['body'] })
    })
    const changes = [
      { revision, kind: 'route', id: 'new', operation: 'insert' },
      { revision, kind: 'edge', id: 'old', operation: 'delete' },
      { revision, kind: 'edge', id: 'again', operation: 'update' }
    ]
    t.same(await store.changesOf(revision), changes)
    const place = { revision, mark: 'op_named' }
    t.same(await store.changesAfter(revision - 1), { complete: true, diverged: false, revision, place, changes })
    t.same(await store.changesAfter(revision), { complete: true, diverged: false, revision, place, changes: [] })
    t.same(await store.placeOf(revision), place)
    t.match(await store.history({ limit: 1 }), [
      { revision, operationId: 'op_named', detail: { who: 'ak_1', fields: ['body'] } }
    ])
    t.same(
      (await store.history({ limit: 9, before: revision })).map((entry) => entry.revision),
      [2, 1]
    )
  })

  t.test('what the history says is amended when it says what is expected, and a part of it is found', async (t) => {
    const { store } = await fresh()
    for (const state of ['open', 'shut', 'open']) {
      await store.transact(operation(), async (transaction) => {
        await transaction.insert({ kind: 'door', id: `${transaction.number}`, body: 0 })
        transaction.note({ door: 'ä "x"', state })
      })
    }
    const numbers = async (after = 0) =>
      (await store.history({ limit: 9, after, noting: '"state":"open"' })).map(({ revision }) => revision)
    t.same(await numbers(), [3, 1])
    t.same(await numbers(1), [3])
    const [from, to] = [
      { door: 'ä "x"', state: 'open' },
      { door: 'ä "x"', state: 'shut' }
    ]
    t.equal(await store.amend(1, from, to), true)
    t.equal(await store.amend(1, from, to), false, 'it says so already')
    t.equal(await store.amend(9, from, to), false, 'there is no such revision')
    t.same(await numbers(), [3])
    t.equal(await store.revision(), 3, 'that is no revision')
    await t.rejects(
      store.transact(operation(), async (transaction) => {
        t.equal(await transaction.amend(3, from, to), true)
        throw new Error('no')
      })
    )
    t.same(await numbers(), [3], 'it is undone with its transaction')
    await store.transact(operation(), async (transaction) => {
      await transaction.update('door', '3', { body: 1 })
      await transaction.amend(3, from, to)
    })
    t.same(await numbers(), [])
    t.match(await store.history({ limit: 9, before: 4, after: 2 }), [{ revision: 3, detail: to }])
  })

  t.test('a revision without changed records still counts', async (t) => {
    const { store } = await fresh()
    await put(store, 'edge', 'a')
    await store.transact(operation(), (transaction) => transaction.claim({ kind: 'edge', id: 'a' }, 'host', 'x'))
    t.match(await store.changesAfter(1), { complete: true, revision: 2, changes: [] })
  })

  t.test('a place of another history is told apart, whatever its number', async (t) => {
    const { store } = await fresh()
    const empty = await store.placeOf(0)
    t.same(empty, { revision: 0, mark: undefined })
    for (const id of ['a', 'b', 'c']) await put(store, 'edge', id)
    const second = await store.placeOf(2)
    t.match(await store.changesAfter(second), { complete: true, diverged: false, changes: [{ id: 'c' }] })
    t.match(await store.changesAfter(empty), { complete: true, diverged: false, revision: 3 })
    const other = { ...second, mark: 'op_of_another_history' }
    t.match(await store.changesAfter(other), { complete: false, diverged: true, revision: 3, changes: { length: 0 } })
    const ahead = { revision: 4, mark: 'op_lost' }
    t.match(await store.changesAfter(empty, { kinds: ['nothing of this kind'] }), {
      complete: true,
      revision: 3,
      changes: { length: 0 }
    })
    t.match(await store.changesAfter(ahead), { complete: false, diverged: true, revision: 3, changes: { length: 0 } })
    t.match(await store.changesAfter(4), { complete: false, diverged: true }, 'a number alone may be too large')
    await store.transact(operation(), async (transaction) => {
      const place = await transaction.placeOf(transaction.previous)
      t.match(await transaction.changesAfter(place), { complete: true, diverged: false, changes: { length: 0 } })
      t.match(await transaction.changesAfter(ahead), { complete: false, diverged: true })
    })
    await store.forgetHistory(3)
    t.match(
      await store.changesAfter(other),
      { complete: true, diverged: false },
      'of what is forgotten the number counts'
    )
    await store.forgetHistory(1000)
    t.match(await store.changesAfter(await store.placeOf(3)), { complete: true, diverged: false, revision: 3 })
    t.match(await store.changesAfter(ahead), { complete: false, diverged: true, revision: 3 })
  })

  t.test('forgotten history says so', async (t) => {
    const { store } = await fresh()
    for (const id of ['a', 'b', 'c']) await put(store, 'edge', id)
    await store.transact(operation(), (transaction) => transaction.delete('edge', 'b'))
    await store.forgetHistory(3)
    t.equal((await store.changesAfter(1)).complete, false)
    t.equal((await store.changesAfter(2)).complete, true)
    t.same(
      (await store.history({ limit: 9 })).map(({ revision }) => revision),
      [4, 3]
    )
    t.ok(await store.list('edge', { limit: 1, before: 'b' }), 'a place deleted since then is still known')
    await store.forgetHistory(1000)
    t.equal((await store.changesAfter(4)).complete, true, 'who is up to date misses nothing')
    t.equal(await store.list('edge', { limit: 1, before: 'b' }), undefined)
    await store.forgetHistory(2)
    t.equal((await store.changesAfter(3)).complete, false, 'what is forgotten stays so')
    t.equal(await put(store, 'edge', 'd'), 5)
  })
}

function paging(t: TapTest, fresh: Fresh): void {
  t.test('newest first, by time and then by sequence', async (t) => {
    const { store, clock } = await fresh()
    const start = clock.wall()
    for (const [id, at] of [
      ['a', 0],
      ['b', 10],
      ['c', 10],
      ['d', 5],
      ['e', 10]
    ] as const) {
      clock.setWall(start + at)
      await put(store, 'edge', id)
    }
    await put(store, 'route', 'other kind')
    const ids = async (limit: number, before?: string | Position) => {
      const page = await store.list('edge', before === undefined ? { limit } : { limit, before })
      return page === undefined ? undefined : [page.records.map(({ id }) => id).join(''), page.more]
    }
    t.same(await ids(9), ['ecbda', false])
    t.same(await ids(2), ['ec', true])
    t.same(await ids(2, 'c'), ['bd', true])
    await store.transact(operation(), (transaction) => transaction.delete('edge', 'b'))
    t.same(await ids(1, 'b'), ['d', true], 'a deleted id keeps its place')
    t.same(await ids(1, 'd'), ['a', false])
    t.same(await ids(9, 'a'), ['', false])
    t.same(await ids(9, { createdAt: start + 10, sequence: 0 }), ['da', false])
    t.equal(await ids(9, 'other kind'), undefined, 'an id of another kind is no place here')
    t.same(
      (await store.transact(operation(), (transaction) => transaction.list('edge', { limit: 1 }))).value?.more,
      true
    )
  })

  t.test('only what refers to a record', async (t) => {
    const { store } = await fresh()
    await store.transact(operation(), async (transaction) => {
      for (let index = 0; index < 9; index++) {
        const route = { kind: 'route', id: `r${index}` }
        await transaction.insert({ ...route, body: 0 })
        const to = { kind: 'edge', id: `e${index % 2}` }
        await transaction.replaceReferences(route, [
          { field: index === 8 ? 'other' : 'edge', to },
          { field: 'x', to }
        ])
      }
    })
    const referring = { field: 'edge', to: { kind: 'edge', id: 'e0' } }
    const first = await store.list('route', { limit: 3, referring })
    t.same([first?.records.map(({ id }) => id), first?.more], [['r6', 'r4', 'r2'], true])
    const rest = await store.list('route', { limit: 3, before: 'r2', referring })
    t.same([rest?.records.map(({ id }) => id), rest?.more], [['r0'], false])
    const odd = { field: 'edge', to: { kind: 'edge', id: '\0' } }
    t.same(await store.list('route', { limit: 3, referring: odd }), { records: [], more: false })
  })

  t.test('pages neither skip nor repeat while others insert and delete', async (t) => {
    const { store, clock } = await fresh()
    const random = generator(11)
    const alive = new Set<string>()
    let made = 0
    const disturb = async () => {
      jump(clock, random)
      await store.transact(operation(), async (transaction) => {
        const victims = [...alive].filter(() => random() < 0.06)
        for (const id of victims) await transaction.delete('edge', id)
        for (const id of victims) alive.delete(id)
        for (let count = Math.floor(random() * 4); count > 0; count--) {
          const id = `e${++made}`
          await transaction.insert({ kind: 'edge', id, body: 0 })
          alive.add(id)
        }
      })
    }
    for (let count = 0; count < 30; count++) await disturb()
    for (let round = 0; round < 8; round++) {
      const throughout = new Set(alive)
      const seen: string[] = []
      const limit = 1 + Math.floor(random() * 6)
      for (let before: string | undefined; ; ) {
        const page = await store.list('edge', before === undefined ? { limit } : { limit, before })
        for (const { id } of page?.records ?? []) seen.push(id)
        before = seen.at(-1)
        if (page?.more !== true) break
        await disturb()
        for (const id of throughout) if (!alive.has(id)) throughout.delete(id)
      }
      t.equal(new Set(seen).size, seen.length, 'no record came twice')
      t.same(
        [...throughout].filter((id) => !seen.includes(id)),
        [],
        'no record that was there throughout is missing'
      )
    }
  })
}

function jump(clock: ManualClock, random: () => number): void {
  const step = random()
  if (step < 0.2) clock.setWall(clock.wall() - 3)
  else if (step < 0.7) clock.advance(2)
}

function closing(t: TapTest, fresh: Fresh): void {
  t.test('closing waits for the write that runs and refuses what follows', async (t) => {
    const { store } = await fresh()
    let go: () => void = () => undefined
    const wait = new Promise<void>((resolve) => {
      go = resolve
    })
    const write = store.transact(operation(), async (transaction) => {
      await wait
      return await transaction.insert({ kind: 'edge', id: 'a', body: 0 })
    })
    const closed = store.close()
    const late = store.transact(operation(), (transaction) => transaction.insert({ kind: 'edge', id: 'b', body: 0 }))
    const refused = t.rejects(late, { code: 'STORE_CLOSED' })
    go()
    t.match(await write, { committed: true })
    await closed
    await store.close()
    await refused
    await t.rejects(store.get('edge', 'a'), { code: 'STORE_CLOSED' })
    await t.rejects(store.reportProcess({ id: 'a', appliedRevision: 0, lastError: null, divergedAt: null }), {
      code: 'STORE_CLOSED'
    })
  })
}

function isolation(t: TapTest, fresh: Fresh): void {
  t.test('reads beside a transaction neither wait for it nor see it', async (t) => {
    const { store } = await fresh()
    await put(store, 'edge', 'a', 'before')
    await store.transact(operation(), async (transaction) => {
      await transaction.update('edge', 'a', { body: 'after' })
      t.match(await store.get('edge', 'a'), { body: 'before' })
      t.equal(await store.revision(), 1)
    })
    t.match(await store.get('edge', 'a'), { body: 'after' })
  })
}

/** Numbers from 0 to 1 that are the same in each run. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
