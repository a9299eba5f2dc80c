import type { Test as TapTest } from 'tap'
import type { KeptClaim, KeyedUpdate, RecordKey } from '../../src/store/records.js'
import type { Store, StoreTransaction } from '../../src/store/store.js'
import { type Opened, operation } from './opened.js'

/** More than one statement takes. */
const COUNT = 620
const key = (n: number, kind = n % 3 === 0 ? 'route' : 'edge'): RecordKey => ({ kind, id: `r${n}` })
const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => from + n)

/** The writes of many records at once, which do what those of one record do. */
interface Writes {
  update(tx: StoreTransaction, updates: readonly KeyedUpdate[]): Promise<void>
  remove(tx: StoreTransaction, keys: readonly RecordKey[]): Promise<void>
  release(tx: StoreTransaction, claims: readonly KeptClaim[]): Promise<void>
  clear(tx: StoreTransaction, keys: readonly RecordKey[]): Promise<void>
}

const oneByOne: Writes = {
  async update(tx, updates) {
    for (const { kind, id, ...update } of updates) await tx.update(kind, id, update)
  },
  async remove(tx, keys) {
    for (const { kind, id } of keys) await tx.delete(kind, id)
  },
  async release(tx, claims) {
    for (const { keeper, space, value } of claims) await tx.release(keeper, space, value)
  },
  async clear(tx, keys) {
    for (const from of keys) await tx.replaceReferences(from, [])
  }
}

const together: Writes = {
  update: (tx, updates) => tx.updateMany(updates),
  remove: (tx, keys) => tx.deleteMany(keys),
  release: (tx, claims) => tx.releaseMany(claims),
  clear: (tx, keys) => tx.clearReferences(keys)
}

const byText = (a: unknown, b: unknown) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)

/** Records with references and claims, of which most are changed and some are deleted. */
async function written(store: Store, writes: Writes) {
  const claim = (n: number): KeptClaim => ({ keeper: key(n), space: n % 2 === 0 ? 'host' : 'name', value: `v\0${n}` })
  await store.transact(operation(), async (tx) => {
    await tx.insertMany(numbers(0, COUNT).map((n) => ({ ...key(n), body: n, sealed: Uint8Array.of(n % 256) })))
    await tx.addReferences(numbers(0, COUNT).map((n) => ({ from: key(n), field: 'to', to: key((n + 1) % COUNT) })))
    await tx.claimMany(numbers(0, COUNT).map(claim))
  })
  await store.transact(operation(), async (tx) => {
    const changed = numbers(0, COUNT - 20)
    await writes.release(tx, [...changed.slice(5).map(claim), { ...claim(1), keeper: key(2) }])
    await writes.clear(
      tx,
      changed.slice(10).map((n) => key(n))
    )
    await writes.update(
      tx,
      changed.map((n) => ({ ...key(n), body: { text: `"\ud800 ${n}` }, sealed: n % 4 === 0 ? null : Uint8Array.of(7) }))
    )
    await writes.remove(
      tx,
      numbers(COUNT - 300, COUNT).map((n) => key(n))
    )
  })
  // A deleted record stays a place in the list, also when one of its key came again and went.
  await store.transact(operation(), (tx) => tx.insert({ ...key(COUNT - 1), body: 'again' }))
  await store.transact(operation(), (tx) => writes.remove(tx, [key(COUNT - 1)]))
  const { changes } = await store.changesAfter(0)
  return {
    records: await store.wholeRecords({ after: undefined, limit: 10_000 }),
    changes: changes.map((change) => change).sort(byText),
    page: (await store.list('edge', { limit: 5, before: key(COUNT - 1, 'edge').id }))?.records,
    named: (
      await store.referencesToAny(
        'edge',
        numbers(0, COUNT).map((n) => `r${n}`)
      )
    ).sort(byText)
  }
}

export function manySuite(t: TapTest, fresh: () => Promise<Opened>): void {
  t.test('writes of many records do what those of one do', async (t) => {
    const expected = await written((await fresh()).store, oneByOne)
    const { store } = await fresh()
    const found = await written(store, together)
    t.ok(found.records.length > 300)
    t.ok(found.named.length > 0 && found.page?.length === 5)
    t.same(found, expected)
    const each = await Promise.all(numbers(0, COUNT).map((n) => store.referencesTo('edge', `r${n}`)))
    t.same(found.named, each.flat().sort(byText))
    t.same(await store.referencesToAny('edge', ['\0', 'r1', 'r1']), await store.referencesTo('edge', 'r1'))
  })

  t.test('of many records that one is missing, nothing is kept', async (t) => {
    const { store } = await fresh()
    await store.transact(operation(), (tx) => tx.insertMany(numbers(0, 300).map((n) => ({ ...key(n), body: n }))))
    const absent = { kind: 'edge', id: 'absent' }
    const update = (one: RecordKey) => ({ ...one, body: 'new', sealed: null })
    for (const work of [
      (tx: StoreTransaction) => tx.updateMany([...numbers(0, 300).map((n) => key(n)), absent].map(update)),
      (tx: StoreTransaction) => tx.deleteMany([...numbers(0, 300).map((n) => key(n)), absent])
    ]) {
      await t.rejects(store.transact(operation(), work), { code: 'STORE_MISSING', message: 'there is no edge absent' })
    }
    await t.rejects(
      store.transact(operation(), async (tx) => {
        await t.rejects(tx.deleteMany([key(1), absent]), { code: 'STORE_MISSING' })
      }),
      { code: 'STORE_FAILED' },
      'a deletion of which half is done cannot be committed by work that looks away'
    )
    t.equal(await store.revision(), 1)
    t.match(await store.get('edge', 'r1'), { body: 1, revision: 1 })
    t.match(await store.transact(operation(), (tx) => tx.updateMany([])), { committed: false })
  })
}
