import t from 'tap'
import { EndedSessions, type EndedStore } from '../../../src/features/login/ended-sessions.js'
import { ManualClock } from '../../helpers/clock.js'
import { opened } from '../../store/opened.js'

const MINUTE = 60_000

t.test('a logout counts here at once and is written when the store is there again', async (t) => {
  const clock = new ManualClock(1_000_000)
  const { endedSessions } = (await opened(t, ':memory:')).store
  let down = true
  const broken = () => (down ? Promise.reject(new Error('the store is out of reach')) : undefined)
  const store: EndedStore = {
    add: async (sessions) => (await broken()) ?? (await endedSessions.add(sessions)),
    since: (number) => endedSessions.since(number),
    forget: (now, most) => endedSessions.forget(now, most)
  }
  const [here, there] = [new EndedSessions(clock), new EndedSessions(clock)]
  await here.attach(store)
  await there.attach(store)
  const one = { id: 'one', begun: clock.wall(), ends: clock.wall() + MINUTE }
  here.end(one)
  await t.rejects(here.keep(), { message: 'the store is out of reach' })
  await t.rejects(here.follow(), { message: 'the store is out of reach' })
  t.equal(here.has(one), true)
  await there.follow()
  t.equal(there.has(one), false)
  down = false
  await Promise.all([here.follow(), here.follow()])
  await there.follow()
  t.equal(there.has(one), true)

  clock.advance(2 * MINUTE)
  await there.forget()
  t.equal(there.has(one), true, 'its cookies are good until then by the clock of another process')
  clock.advance(1)
  await there.forget()
  t.equal(there.has(one), false, 'it has ended by itself')
  t.same((await endedSessions.since(0)).sessions, [])
})

t.test('a clock that is ahead for a while forgets no logout', async (t) => {
  const clock = new ManualClock(1_000_000)
  const { endedSessions } = (await opened(t, ':memory:')).store
  const ended = new EndedSessions(clock)
  await ended.attach(endedSessions)
  const one = { id: 'one', begun: clock.wall(), ends: clock.wall() + MINUTE }
  ended.end(one)
  const now = clock.wall()
  clock.setWall(now + 1_000 * MINUTE)
  await ended.forget()
  clock.setWall(now)
  t.equal(ended.has(one), true, 'its cookies are good again')
  t.equal((await endedSessions.since(0)).sessions.length, 1)
  clock.advance(2 * MINUTE + 1)
  await ended.forget()
  t.equal(ended.has(one), false)
})

t.test('while nobody knows what was ended, older sessions count as ended, and newer ones do not', async (t) => {
  const clock = new ManualClock(1_000_000)
  const { endedSessions } = (await opened(t, ':memory:')).store
  const session = (id: string, begun: number) => ({ id, begun, ends: 1_000_000 + MINUTE })
  const [out, still] = [session('out', 999_999), session('still', 999_999)]
  await endedSessions.add([out])
  let blind = true
  const ended = new EndedSessions(clock)
  await ended.attach({
    add: (sessions) => (blind ? Promise.reject(new Error('out of reach')) : endedSessions.add(sessions)),
    since: async (number) =>
      blind ? { sessions: [], number: 0, before: 0, blind: true } : await endedSessions.since(number),
    forget: (now, most) => endedSessions.forget(now, most)
  })
  clock.advance(10)
  await ended.follow()
  const fresh = session('fresh', 1_000_005)
  t.same(
    [out, still, fresh].map((one) => ended.has(one)),
    [true, true, false]
  )
  ended.end(still)
  blind = false
  await ended.follow()
  t.same(
    [out, still, fresh].map((one) => ended.has(one)),
    [true, true, false],
    'a logout meanwhile is kept'
  )
  t.same((await endedSessions.since(0)).sessions.map(({ id }) => id).sort(), ['out', 'still'])
  t.equal(ended.has(session('other', 999_999)), false, 'who was not logged out is in again')
})

t.test('a store that is an older one now learns again what it lacks', async (t) => {
  const clock = new ManualClock(1_000_000)
  const [present, backup] = [(await opened(t, ':memory:')).store, (await opened(t, ':memory:')).store]
  let store: EndedStore = present.endedSessions
  const ended = new EndedSessions(clock)
  await ended.attach({
    add: (sessions) => store.add(sessions),
    since: (number) => store.since(number),
    forget: (now, most) => store.forget(now, most)
  })
  const session = (id: string) => ({ id, begun: clock.wall(), ends: clock.wall() + MINUTE })
  for (const id of ['a', 'b']) {
    ended.end(session(id))
    await ended.keep()
  }
  await ended.follow()
  store = backup.endedSessions
  await backup.endedSessions.add([session('of another process')])
  await ended.follow()
  t.equal(ended.has(session('of another process')), true)
  await ended.follow()
  t.same((await backup.endedSessions.since(0)).sessions.map(({ id }) => id).sort(), ['a', 'b', 'of another process'])
})

t.test('what was folded is over for everybody who began before', async (t) => {
  const clock = new ManualClock(1_000_000)
  const { endedSessions } = (await opened(t, ':memory:')).store
  const ends = clock.wall() + MINUTE
  await endedSessions.add([1, 2, 3, 4].map((begun) => ({ id: `s${begun}`, begun, ends })))
  const ended = new EndedSessions(clock)
  await ended.attach(endedSessions)
  await endedSessions.forget(0, 2)
  await ended.follow()
  for (const [id, begun, over] of [
    ['s1', 1, true],
    ['other', 2, true],
    ['s3', 3, true],
    ['other', 3, false]
  ] as const)
    t.equal(ended.has({ id, begun }), over, `${id} ${begun}`)
})

t.test('threads that learn of logouts from another one know them all, and tell it theirs', async (t) => {
  const clock = new ManualClock(1_000_000)
  const { endedSessions } = (await opened(t, ':memory:')).store
  const main = new EndedSessions(clock)
  await main.attach(endedSessions)
  const session = (id: string) => ({ id, begun: clock.wall(), ends: clock.wall() + MINUTE })
  main.end(session('before'))
  const threads = [new EndedSessions(clock), new EndedSessions(clock)] as const
  let down = true
  for (const thread of threads) {
    main.onNews((news) => void thread.learn(structuredClone(news)))
    thread.relay(async (sessions) => {
      if (down) throw new Error('the other thread cannot keep it')
      for (const one of sessions) main.end(one)
      await main.keep()
    })
    t.equal(thread.has(session('before')), true)
  }
  threads[0].end(session('own'))
  await t.rejects(threads[0].keep())
  t.equal(threads[0].has(session('own')), true)
  t.equal(threads[1].has(session('own')), false)
  down = false
  await threads[0].keep()
  t.ok([main, ...threads].every((one) => one.has(session('own'))))
  await endedSessions.add([session('of another process')])
  await main.follow()
  t.ok(threads.every((one) => one.has(session('of another process'))))
  const ids = (await endedSessions.since(0)).sessions.map(({ id }) => id)
  t.same(ids.sort(), ['before', 'of another process', 'own'])
  clock.advance(2 * MINUTE + 1)
  await threads[0].forget()
  t.equal(threads[0].has({ ...session('own'), begun: 1_000_000 }), false, 'it has ended by itself')
})

t.test(
  'a name whose moment moves on ends what was begun since, in every thread and process, and never moves back',
  async (t) => {
    const clock = new ManualClock(1_000_000)
    const { endedSessions } = (await opened(t, ':memory:')).store
    const [main, other, thread] = [new EndedSessions(clock), new EndedSessions(clock), new EndedSessions(clock)]
    for (const one of [main, other]) await one.attach(endedSessions)
    main.onNews((news) => void thread.learn(structuredClone(news)))
    thread.relay(async (sessions) => {
      for (const one of sessions) main.end(one)
      await main.keep()
    })
    const moment = (begun: number) => ({ id: 'a name', begun, ends: begun + MINUTE })
    const over = (one: EndedSessions, begun: number) => one.has({ id: `s${begun}`, begun }, ['no name', 'a name'])
    // Both wait: one statement must not write a row twice.
    thread.end(moment(1_000))
    thread.end(moment(2_000))
    await thread.keep()
    await other.follow()
    for (const one of [main, other, thread]) t.same([over(one, 2_000), over(one, 2_001)], [true, false])
    t.equal(other.has({ id: 's1', begun: 1 }), false, 'who has no such name')
    other.end(moment(3_000))
    await other.keep()
    main.end(moment(1_500))
    await main.follow()
    for (const one of [main, other, thread]) t.same([over(one, 3_000), over(one, 3_001)], [true, false])
    t.same((await endedSessions.since(0)).sessions, [moment(3_000)])
  }
)

t.test('a logout is kept when each thread applies it', async (t) => {
  const clock = new ManualClock(1_000_000)
  const main = new EndedSessions(clock)
  await main.attach((await opened(t, ':memory:')).store.endedSessions)
  const unheard: (() => void)[] = []
  const stop = main.onNews(({ sessions }) =>
    sessions.length === 0 ? undefined : new Promise<void>((resolve) => unheard.push(resolve))
  )
  main.end({ id: 'one', begun: clock.wall(), ends: clock.wall() + MINUTE })
  let isKept = false
  const kept = main.keep().then(() => {
    isKept = true
  })
  await main.follow()
  t.equal(isKept, false, 'the store has it, and a thread does not yet')
  for (const hear of unheard) hear()
  await kept
  stop()
  main.end({ id: 'two', begun: clock.wall(), ends: clock.wall() + MINUTE })
  await main.keep()
})
