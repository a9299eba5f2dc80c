import type { Test as TapTest } from 'tap'
import type { BoardEntry } from '../../src/store/board.js'
import type { Store } from '../../src/store/store.js'
import type { Opened } from './opened.js'

const ALL = { except: ['nobody'] }

function entry(id: string, rank = id, body = '{}'): BoardEntry {
  return { kind: 'agent', id, rank, body }
}

/** What the board of every store does. */
export function boardSuite(t: TapTest, fresh: () => Promise<Opened>): void {
  t.test('entries are listed down their ranks, byte by byte, and go when they are dropped', async (t) => {
    const { store } = await fresh()
    const { board } = store
    await report(store, 'one', 'two')
    const odd = '"\\u0000 \\ud800 ä"'
    await board.publish('one', { put: [entry('a'), entry('B'), entry('c', 'ä', odd), entry('d', '~')], drop: [] })
    await board.publish('two', { put: [{ ...entry('a', 'Z'), kind: 'other' }, entry('a', '_')], drop: [] })
    const ranks = async (page = {}, of = ALL) =>
      (await board.list('agent', { limit: 9, ...page }, of)).map(({ rank }) => rank)
    t.same(await ranks(), ['ä', '~', 'a', '_', 'B'])
    t.same(await ranks({ limit: 2 }), ['ä', '~'])
    t.same(await ranks({ below: 'a' }), ['_', 'B'])
    t.same(await ranks({}, { except: ['one'] }), ['_'])
    t.same(await board.get('agent', 'c', ALL), [{ ...entry('c', 'ä', odd), process: 'one' }])
    t.equal((await board.get('agent', 'a', ALL)).length, 2, 'one id in two processes')
    t.same(await board.get('agent', 'a\0', ALL), [])
    const put = [entry('a', 'b', '1'), entry('e')]
    await board.publish('one', { put, drop: [entry('B'), entry('c'), entry('never')] })
    t.same(await ranks({}, { except: ['two'] }), ['~', 'e', 'b'])
    t.match(await board.get('agent', 'a', { except: ['two'] }), [{ rank: 'b', body: '1' }])
    await board.clear('one')
    t.same(await ranks(), ['_'])
  })

  t.test('many entries at once', async (t) => {
    const { store } = await fresh()
    await report(store, 'one')
    const many = Array.from({ length: 1201 }, (_, index) => entry(String(index).padStart(4, '0')))
    await store.board.publish('one', { put: many, drop: [] })
    const listed = await store.board.list('agent', { limit: 2000 }, ALL)
    t.same(
      listed.map(({ id }) => id),
      many.map(({ id }) => id).reverse()
    )
    await store.board.publish('one', { put: [], drop: many.slice(1) })
    t.equal((await store.board.list('agent', { limit: 2000 }, ALL)).length, 1)
  })

  t.test('what is on the board of a process goes with its report', async (t) => {
    const { store, clock } = await fresh()
    const { board } = store
    await t.rejects(board.publish('one', { put: [entry('a')], drop: [] }), { code: 'STORE_FAILED' })
    await report(store, 'one')
    const before = clock.wall()
    await board.publish('one', { put: [entry('a')], drop: [] })
    t.ok(await board.call({ id: 'c1', process: 'one', from: 'two', body: '1' }))
    clock.advance(5000)
    await report(store, 'two')
    await board.publish('two', { put: [entry('b')], drop: [] })
    const listed = async (...except: string[]) => (await board.list('agent', { limit: 9 }, { except })).length
    t.same([await listed(), await listed('one'), await listed('one', 'two')], [2, 1, 0])
    await store.forgetProcesses([
      { id: 'one', seenAt: before },
      { id: 'two', seenAt: before }
    ])
    t.equal(await listed(), 1, 'who has reported since stays')
    t.equal(await board.answerTo('c1'), undefined, 'nor will anybody answer')
    t.same(await store.reportProcess({ id: 'one', appliedRevision: 1, lastError: null, divergedAt: null }), {
      known: false,
      calls: 0
    })
  })

  t.test('a call waits for its process, and the answer for who asked', async (t) => {
    const { store } = await fresh()
    const { board } = store
    t.equal(await board.call({ id: 'c0', process: 'one', from: 'two', body: '0' }), false, 'nobody is there')
    await report(store, 'one', 'two')
    const heard: string[] = []
    const unlisten = ['one', 'two'].map((process) => board.listen(process, () => void heard.push(process)))
    const call = { id: 'c1', process: 'one', from: 'two', body: '"\\u0000"' }
    t.ok(await board.call(call))
    t.ok(heard.includes('one'))
    t.same(await board.waiting('one'), [call])
    t.same(await board.waiting('two'), [])
    t.equal(await board.answerTo('c1'), null)
    t.same(await store.reportProcess({ id: 'one', appliedRevision: 1, lastError: null, divergedAt: null }), {
      known: true,
      calls: 1
    })
    await board.answer(call, '"yes"')
    t.ok(heard.includes('two'))
    t.same(await board.waiting('one'), [])
    t.equal(await board.answerTo('c1'), '"yes"')
    await board.withdraw('c1')
    t.equal(await board.answerTo('c1'), undefined)
    await board.answer(call, '"late"')
    t.equal(await board.answerTo('c1'), undefined)
    for (const end of unlisten) end()
    const before = heard.length
    await board.call({ ...call, id: 'c2' })
    t.equal(heard.length, before)
  })
}

async function report(store: Store, ...ids: string[]): Promise<void> {
  for (const id of ids) await store.reportProcess({ id, appliedRevision: 1, lastError: null, divergedAt: null })
}
