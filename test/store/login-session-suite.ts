import type { Test as TapTest } from 'tap'
import type { Opened } from './opened.js'

const ROOM = { rows: 3, bytes: 100 }
const ENDS = 10_000_000
const lease = (id: string, number: number, holder: string, at = 1_000) => ({ id, number, holder, at, ends: ENDS })
const generation = (id: string, number: number, sealed: string, more: object = {}) => {
  return { id, number, sealed, ends: ENDS, at: 1_000, needed: false, holder: '', last: true, ...more }
}

/** What every store keeps of sessions of visitors. */
export function loginSessionSuite(t: TapTest, fresh: () => Promise<Opened>): void {
  t.test('one of all who ask at once makes the next generation of a session; the others get it', async (t) => {
    const { loginSessions } = (await fresh()).store
    const holders = ['a', 'b', 'c', 'd', 'e', 'f']
    const answers = await Promise.all(holders.map((holder) => loginSessions.claim(lease('s', 0, holder))))
    t.same(answers.filter((answer) => answer === 'claimed').length, 1)
    t.same(answers.filter((answer) => answer === 'busy').length, 5)
    const holder = holders[answers.indexOf('claimed')] as string
    await loginSessions.save(generation('s', 1, 'tokens', { holder, last: false }), ROOM)
    t.equal(await loginSessions.claim(lease('s', 0, 'late')), 'busy', 'the holder is still at work')
    await loginSessions.save(generation('s', 1, 'all', { holder }), ROOM)
    t.same(await loginSessions.claim(lease('s', 0, 'late')), { number: 1, sealed: 'all' })
    t.equal(await loginSessions.claim(lease('s', 1, 'next')), 'claimed')
    await loginSessions.release({ id: 's', holder: 'next' })
    t.same(await loginSessions.read('s', 0), { number: 1, sealed: 'all' })
    t.equal(await loginSessions.claim(lease('new', 0, 'x')), 'claimed')
    await loginSessions.release({ id: 'new', holder: 'x' })
    t.equal(await loginSessions.read('new', 0), undefined, 'a lease without a result leaves nothing')
  })

  t.test('the lease of a dead holder ends, whoever has the clock that is ahead', async (t) => {
    const { loginSessions } = (await fresh()).store
    t.equal(await loginSessions.claim(lease('s', 0, 'dead', 200_000)), 'claimed')
    for (const at of [140_000, 260_000]) t.equal(await loginSessions.claim(lease('s', 0, 'b', at)), 'busy')
    t.equal(await loginSessions.claim(lease('s', 0, 'b', 290_001)), 'claimed')
    await loginSessions.save(generation('s', 1, 'of b', { holder: 'b' }), ROOM)
    await loginSessions.save(generation('s', 1, 'of the dead', { holder: 'dead' }), ROOM)
    t.same(await loginSessions.read('s', 0), { number: 1, sealed: 'of b' })
  })

  t.test('sessions that cookies cannot hold have a bound; of the others the oldest go', async (t) => {
    const { store } = await fresh()
    const { loginSessions, endedSessions } = store
    const large = (id: string, bytes: number, at: number) => generation(id, 0, 'x'.repeat(bytes), { needed: true, at })
    const there = async (...ids: string[]) =>
      (await Promise.all(ids.map((id) => loginSessions.read(id, 0)))).map((row) => row !== undefined)
    t.equal(await loginSessions.save(large('huge', 101, 1), ROOM), false)
    t.equal(await loginSessions.save(large('a', 60, 1), ROOM), true)
    t.equal(await loginSessions.save(large('b', 20, 2), ROOM), true)
    t.equal(await loginSessions.save(large('c', 10, 3), ROOM), true)
    t.equal(await loginSessions.save(large('d', 1, 4), ROOM), true)
    t.same(await there('huge', 'a', 'b', 'c', 'd'), [false, false, true, true, true], 'too many')
    await loginSessions.read('b', 4_000_000)
    t.equal(await loginSessions.save(large('e', 75, 5_000_000), ROOM), true)
    t.same(await there('b', 'c', 'd', 'e'), [true, false, true, true], 'the one that was read has stayed')
    await endedSessions.add([{ id: 'e', begun: 1, ends: ENDS }])
    t.same(await there('b', 'e'), [true, false], 'a logout leaves nothing')
    for (let i = 0; i < 5; i++)
      await loginSessions.save(generation(`s${i}`, 0, 'x'.repeat(30), { at: 1_000 + i }), ROOM)
    await loginSessions.forget(0, { rows: 4, bytes: 100 })
    t.same(await there('s0', 's1', 's2', 's3', 's4', 'b'), [false, false, true, true, true, true])
    await loginSessions.forget(ENDS + 1, { rows: 4, bytes: 100 })
    t.same(await there('s4', 'b'), [false, false], 'they have ended by themselves')
  })
}
