import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../src/lib/clock.js'
import { codeOf } from '../../src/lib/errors.js'
import { Sealer, sealKey } from '../../src/lib/seal.js'
import { openCopy } from '../../src/store/copy/copied-store.js'
import { type CopyPlace, copiesOf, readCopy, setCopyAside } from '../../src/store/copy/copy-file.js'
import { CopyKeeper, clearCopies } from '../../src/store/copy/copy-keeper.js'
import { openStore } from '../../src/store/open-store.js'
import type { WholeRecord } from '../../src/store/records.js'
import type { Place, Store } from '../../src/store/store.js'
import { until } from '../helpers/until.js'
import { folder, Lines, operation } from './opened.js'

const seal = new Sealer(sealKey(randomBytes(32)))
const clock = systemClock

/** A store with a keeper of its copy, which follows each write as the control plane does. */
async function kept(t: Test) {
  const path = await folder(t)
  const log = new Lines()
  const store = await openStore(join(path, 'a.db'), { log, clock, onRevision: () => undefined })
  t.teardown(() => store.close())
  const at: CopyPlace = { path: join(path, 'a.copy'), store: 'a.db', seal }
  let applied: Place = { revision: 0, mark: undefined }
  const keeper = new CopyKeeper({ at, store, account: () => 'ac_1', applied: () => applied, clock, log })
  t.teardown(() => keeper.stop())
  const write = async (work: Parameters<Store['transact']>[1]) => {
    const mark = operation()
    const { revision } = await store.transact(mark, work)
    applied = { revision, mark }
    keeper.soon()
  }
  return { store, at, log, keeper, write, revision: () => applied.revision }
}

async function everything(store: Store): Promise<WholeRecord[]> {
  return await store.wholeRecords({ after: undefined, limit: 100_000 })
}

/** The revision of the copy, if there is one. */
async function revisionOf(at: CopyPlace): Promise<number | undefined> {
  try {
    for await (const part of readCopy(at)) if ('end' in part) return part.end.place.revision
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
  }
  return undefined
}

/** Numbers below a bound, the same in each run. */
function randoms(): (below: number) => number {
  let state = 7
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((state / 2 ** 31) * below)
  }
}

const marker = (n: number) => ({ marker: n, text: 'ü\u0000"'.repeat(3) })

t.test('a copy holds all that the store holds, and answers as the store does', async (t) => {
  const { store, at, write, revision } = await kept(t)
  await write(async (tx) => {
    for (let n = 0; n < 350; n++) {
      const key = { kind: n % 3 === 0 ? 'route' : 'edge', id: `r${n}` }
      await tx.insert({ ...key, body: marker(n), sealed: n % 5 === 0 ? Buffer.from([n % 256, 0, 255]) : null })
      await tx.replaceReferences(key, [{ field: 'edge', to: { kind: 'edge', id: 'r1' } }])
      await tx.claim(key, 'name', `name\u0000${n}`)
    }
    tx.note({ by: 'test' })
  })
  await until(async () => (await revisionOf(at)) === revision())
  const { store: copy, place } = await openCopy(at, { log: new Lines(), clock })
  t.teardown(() => copy.close())
  t.same(place, await store.placeOf(revision()))
  t.same(await everything(copy), await everything(store))
  t.same(await copy.history({ limit: 5 }), await store.history({ limit: 5 }))
  t.equal(await copy.outbox.account('other'), 'ac_1')
  t.same(await copy.keeperOf('name', 'name\u00007'), { kind: 'edge', id: 'r7' })
  const page = { limit: 20, referring: { field: 'edge', to: { kind: 'edge', id: 'r1' } } }
  t.same(await copy.list('route', page), await store.list('route', page))
  const feed = await store.changesAfter(place)
  t.same([feed.complete, feed.diverged, feed.changes], [true, false, []], 'the store can be followed from it')
})

t.test('a copy that is made while others write is that of one revision', async (t) => {
  const { store, at, write, revision, log } = await kept(t)
  const ids = Array.from({ length: 600 }, (_, n) => `r${n}`)
  await write((tx) => tx.insertMany(ids.map((id) => ({ kind: 'edge', id, body: marker(0) }))))
  const states = new Map<number, WholeRecord[]>()
  const random = randoms()
  const making = () => readdirSync(dirname(at.path)).some((name) => name.includes('.partial-'))
  const file = () => (existsSync(at.path) ? statSync(at.path).ino : 0)
  let copies = 0
  let last = 0
  for (let n = 1; copies < 5; n++) {
    // Records at both ends of the order of keys change together.
    await write(async (tx) => {
      for (const id of [`r${random(600)}`, 'r0', 'r99', `x${random(9)}`]) {
        const there = await tx.get('edge', id)
        if (there === undefined) await tx.insert({ kind: 'edge', id, body: marker(n) })
        else if (id.startsWith('x')) await tx.delete('edge', id)
        else await tx.update('edge', id, { body: marker(n) })
        if (await tx.get('edge', id)) await tx.claim({ kind: 'edge', id }, 'writer', `${id} ${n % 3}`)
      }
    })
    states.set(revision(), await everything(store))
    // Behind a copy the keeper rests for several times as long as it took.
    await until(() => making() || file() !== last)
    if (file() === last) continue
    last = file()
    if (!states.has((await revisionOf(at)) ?? 0)) continue
    copies++
    const { store: copy, place } = await openCopy(at, { log, clock })
    t.same(await everything(copy), states.get(place.revision), `revision ${place.revision}`)
    await copy.close()
  }
})

t.test('what is cut, changed, of another store or under another key does not open', async (t) => {
  const { at, write, revision } = await kept(t)
  await write((tx) => tx.insertMany([1, 2, 3].map((n) => ({ kind: 'edge', id: `r${n}`, body: marker(n) }))))
  await until(async () => (await revisionOf(at)) === revision())
  const whole = await readFile(at.path)
  const path = `${at.path}.changed`
  const opens = async (place: CopyPlace) => {
    try {
      await (await openCopy(place, { log: new Lines(), clock })).store.close()
      return true
    } catch (error) {
      t.match(codeOf(error), /^(COPY_BROKEN|SEAL_BROKEN|SEAL_KEY_UNKNOWN)$/)
      return false
    }
  }
  t.ok(await opens(at))
  t.notOk(await opens({ ...at, store: 'b.db' }))
  t.notOk(await opens({ ...at, seal: new Sealer(sealKey(randomBytes(32))) }))
  const random = randoms()
  for (let n = 0; n < 150; n++) {
    const place = random(whole.length)
    const changed = Buffer.from(whole)
    changed[place] = (changed[place] ?? 0) ^ (1 + random(255))
    await writeFile(path, changed)
    if (await opens({ ...at, path })) t.fail(`it opened with another byte at ${place}`)
  }
  for (let n = 0; n < 60; n++) {
    const length = random(whole.length)
    await writeFile(path, whole.subarray(0, length))
    if (await opens({ ...at, path })) t.fail(`it opened with ${length} bytes of ${whole.length}`)
  }
})

t.test('secrets and bodies stand in the copy sealed alone', async (t) => {
  const { at, write, revision } = await kept(t)
  await write((tx) => tx.insert({ kind: 'edge', id: 'r', body: { text: 'a-text-to-look-for' } }))
  await until(async () => (await revisionOf(at)) === revision())
  t.notOk((await readFile(at.path)).includes('a-text-to-look-for'))
})

t.test('a copy is replaced by what has come of it alone, and the three last are kept', async (t) => {
  const { at, write, revision } = await kept(t)
  for (let n = 1; n <= 4; n++) {
    await write(async (tx) => await tx.insert({ kind: 'edge', id: `e${n}`, body: marker(n) }))
    await until(async () => (await revisionOf(at)) === revision())
  }
  const paths = copiesOf(at.path)
  const revisions = await Promise.all(paths.map((path) => revisionOf({ ...at, path })))
  t.same(revisions, [4, 3, 2])
  t.same(
    readdirSync(dirname(at.path)).filter((name) => name.startsWith('a.copy')),
    ['a.copy', 'a.copy.1', 'a.copy.2']
  )
  const before = await Promise.all(paths.map((path) => readFile(path)))

  const others = {
    'an empty one': { revisions: 0, account: 'ac_1', reason: 'is at revision 0, before the copy' },
    'an older one': { revisions: 3, account: 'ac_1', reason: 'is at revision 3, before the copy' },
    'one of another account': { revisions: 9, account: 'ac_2', reason: 'another one than that of the copy' },
    'one with another past': { revisions: 9, account: 'ac_1', reason: 'revision 4 of the store is another one' }
  }
  for (const [what, { revisions: count, account, reason }] of Object.entries(others)) {
    const log = new Lines()
    const store = await openStore(':memory:', { log, clock, onRevision: () => undefined })
    let applied: Place = { revision: 0, mark: undefined }
    for (let n = 0; n < count; n++) {
      const mark = operation()
      const committed = await store.transact(
        mark,
        async (tx) => await tx.insert({ kind: 'edge', id: `x${n}`, body: {} })
      )
      applied = { revision: committed.revision, mark }
    }
    const keeper = new CopyKeeper({ at, store, account: () => account, applied: () => applied, clock, log })
    keeper.soon()
    await until(() => log.texts.some((text) => text.includes('stays as it is')))
    t.match(log.texts.at(-1), new RegExp(`"copied":4,"reason":".*${reason}`), what)
    await keeper.stop()
    await store.close()
    t.same(await Promise.all(paths.map((path) => readFile(path))), before, what)
  }

  await t.resolves(clearCopies(join(dirname(at.path), 'not', 'yet', 'a.copy'), false), 'there is nothing to clear')
  await setCopyAside(at.path)
  t.same(await Promise.all(paths.map((path) => revisionOf({ ...at, path }))), [undefined, 4, 3])
})

t.test('a write waits for no copy, and many share one', async (t) => {
  const { at, store, write, revision } = await kept(t)
  let copies = 0
  const pages = store.wholeRecords.bind(store)
  Object.assign(store, {
    wholeRecords: async (request: Parameters<Store['wholeRecords']>[0]) => {
      if ('limit' in request && request.after === undefined) copies++
      return await pages(request)
    }
  })
  for (let n = 0; n < 50; n++) await write((tx) => tx.insert({ kind: 'edge', id: `r${n}`, body: {} }))
  await until(async () => (await revisionOf(at)) === revision())
  t.ok(copies < 25, `${copies} copies of 50 revisions`)
})

/** Of a piece, in milliseconds. */
const LONGEST = 20
/** The processor time of this thread so far, in nanoseconds: what other programs take of the processor does not count. */
const THREAD = `/proc/self/task/${process.pid}/schedstat`

t.test('a copy of many records holds up the loop for no long piece', { skip: !existsSync(THREAD) }, async (t) => {
  const { store, at, keeper, write, revision } = await kept(t)
  await write((tx) =>
    tx.insertMany(
      Array.from({ length: 20_000 }, (_, n) => ({ kind: 'edge', id: `r${n}`, body: { text: 'x'.repeat(800) } }))
    )
  )
  await keeper.stop()
  const place = await store.placeOf(revision())
  const spent = () => Number(readFileSync(THREAD, 'utf8').split(' ')[0]) / 1e6
  // A piece that is long is so each time; a collection of garbage, or a core that is shared, is not.
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 5 && least >= LONGEST; round++) {
    await rm(at.path, { force: true })
    const log = new Lines()
    const again = new CopyKeeper({ at, store, account: () => 'ac_1', applied: () => place, clock, log })
    let [last, longest, measuring] = [spent(), 0, true]
    const turn = () => {
      const now = spent()
      longest = Math.max(longest, now - last)
      last = now
      if (measuring) setImmediate(turn)
    }
    setImmediate(turn)
    again.soon()
    await until(() => existsSync(at.path))
    measuring = false
    await again.stop()
    t.equal(await revisionOf(at), revision())
    least = Math.min(least, longest)
  }
  t.ok(least < LONGEST, `the longest piece took ${least} ms`)
})
