import type { Test as TapTest } from 'tap'
import type { Opened } from './opened.js'

const session = (id: string, begun: number, ends = begun + 100) => ({ id, begun, ends })

/** What every store knows of sessions that were ended. */
export function endedSuite(t: TapTest, fresh: () => Promise<Opened>): void {
  t.test(
    'ended sessions are told once, in the order of their commits, and to who begins anew all of them',
    async (t) => {
      const { endedSessions } = (await fresh()).store
      t.same(await endedSessions.since(0), { sessions: [], number: 0, before: 0 })
      await endedSessions.add([session('a', 1), session('b', 2)])
      const first = await endedSessions.since(0)
      t.same(first.sessions.map(({ id }) => id).sort(), ['a', 'b'])
      t.same(await endedSessions.since(first.number), { sessions: [], number: first.number, before: 0 })
      await Promise.all(['c', 'd', 'e', 'a'].map((id) => endedSessions.add([session(id, id === 'a' ? 1 : 10)])))
      const second = await endedSessions.since(first.number)
      t.same(second.sessions.map(({ id }) => id).sort(), ['c', 'd', 'e'], 'what was known is not told again')
      t.same(
        (await endedSessions.since(0)).sessions.find(({ id }) => id === 'a'),
        session('a', 1)
      )
      await endedSessions.add([session('a', 5), session('b', 1)])
      const raised = await endedSessions.since(second.number)
      t.same(raised.sessions, [session('a', 5)], 'a later moment is told, an earlier one is not')
    }
  )

  t.test('what has ended by itself is forgotten; of too many the oldest become one moment', async (t) => {
    const { endedSessions } = (await fresh()).store
    await endedSessions.forget(0, 3)
    await endedSessions.add([1, 2, 3, 4, 5, 6].map((begun) => session(`s${begun}`, begun)))
    await endedSessions.forget(103, 3)
    const { number, ...found } = await endedSessions.since(0)
    t.same(found.sessions.map(({ id }) => id).sort(), ['s4', 's5', 's6'], 's1 and s2 were past, s3 was folded')
    t.equal(found.before, 4)
    t.same(await endedSessions.since(number), { sessions: [], number, before: 4 })
    await endedSessions.forget(1_000, 3)
    t.match(await endedSessions.since(0), { sessions: [], before: 4 }, 'the moment stays')
  })
}
