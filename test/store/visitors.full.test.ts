import t, { type Test } from 'tap'
import { opened } from './opened.js'
import { startPostgres } from './postgres-server.js'

const DAY = 86_400_000

async function suite(t: Test, address: string): Promise<void> {
  const { store } = await opened(t, address)
  const { visitors, endedSessions } = store
  const entry = (n: number, user: string, begun: number) => ({
    visitor: { id: `au_${n}`, provider: 'oidc', issuer: 'https://x', user, name: `N${n}`, email: '' },
    visit: {
      id: `as_${'aZ0B'[n]}`,
      session: `s${n}`,
      names: [`user ${user}`, `sid ${n}`] as const,
      owner: 'r1',
      url: 'https://app.example.com',
      address: '127.0.0.1',
      agent: '',
      begun,
      ends: begun + DAY
    }
  })
  await visitors.add({ begun: [entry(0, 'ann', 1_000), entry(1, 'ann', 2_000)], active: [] })
  await visitors.add({
    begun: [entry(2, 'bob', 3_000)],
    active: [
      { session: 's0', at: 9_000 },
      { session: 'x', at: 1 }
    ]
  })
  await visitors.add({ begun: [entry(2, 'bob', 3_000)], active: [] })
  t.match(await visitors.visitors({ limit: 10 }), [
    { id: 'au_2', user: 'bob' },
    { id: 'au_0', user: 'ann', name: 'N1', created: 1_000, seen: 9_000, login: 2_000 }
  ])
  const ids = async (limit = 10, before?: string) =>
    (await visitors.visits({ limit, before }, 5_000)).map(({ id }) => id)
  t.same(await ids(), ['as_a', 'as_Z', 'as_0'], 'in the order of bytes, newest first')
  t.same(await ids(1, 'as_a'), ['as_Z'])
  t.same(
    (await visitors.visits({ limit: 10 }, 5_000, 'au_2')).map(({ session }) => session),
    ['s2']
  )
  t.match(await visitors.visit('as_a', 5_000), { session: 's0', visitor: 'au_0', byUser: 'user ann', seen: 9_000 })
  t.equal(await visitors.visit('as_a', 1_000 + DAY), undefined, 'expired')
  await endedSessions.add([{ id: 's2', begun: 3_000, ends: DAY }])
  t.same(await ids(), ['as_a', 'as_Z'], 'a logout')
  await endedSessions.add([{ id: 'user ann', begun: 1_500, ends: DAY }])
  t.same(await ids(), ['as_Z'], 'a logout by the provider ends what began before')
  await visitors.forget(3_000 + DAY)
  t.same(await ids(), [])
  t.equal((await visitors.visitors({ limit: 10 })).length, 2, 'users stay a while')
  await visitors.forget(100 * DAY)
  t.same(await visitors.visitors({ limit: 10 }), [])
  await visitors.add({ begun: [entry(3, 'eve', 5_000)], active: [] })
  await visitors.remove('au_3')
  t.same([await visitors.visitors({ limit: 10 }), await ids()], [[], []])
}

t.test('users and sessions of logins in SQLite', async (t) => await suite(t, ':memory:'))

t.test('users and sessions of logins in PostgreSQL', async (t) => {
  const { database } = await startPostgres(t)
  await suite(t, await database())
})
