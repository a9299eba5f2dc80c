import t from 'tap'
import { PathTable, type Route } from '../../src/runtime/http-edges.js'
import { random as seeded, whole } from '../features/rate-limit/limiter/support/random.js'

const route = (match: 'exact' | 'prefix', path: string): Route => ({
  id: `${match} ${path}`,
  edge: 'e',
  match,
  path,
  name: { own: undefined, path },
  upstream: undefined,
  modules: null
})

t.test('an exact path goes before the longest prefix, and a prefix ends on a segment border', async (t) => {
  const table = PathTable.of([
    route('prefix', '/'),
    route('prefix', '/api'),
    route('prefix', '/api/v1/'),
    route('exact', '/api/v1'),
    route('exact', '/')
  ])
  const cases: [path: string, found: string][] = [
    ['/', 'exact /'],
    ['/x', 'prefix /'],
    ['/api', 'prefix /api'],
    ['/api/', 'prefix /api'],
    ['/apix', 'prefix /'],
    ['/api/v1', 'exact /api/v1'],
    ['/api/v1/', 'prefix /api/v1/'],
    ['/api/v1/users/7', 'prefix /api/v1/'],
    ['/api/v10', 'prefix /api']
  ]
  for (const [path, found] of cases) t.equal(table.find(path)?.id, found, path)
})

t.test('a table without a root finds nothing elsewhere', async (t) => {
  const table = PathTable.of([route('prefix', '/api')])
  t.equal(table.find('/other'), undefined)
  t.equal(table.find('*'), undefined)
  t.equal(PathTable.of([]).find('/'), undefined)
})

t.test('a table that is changed leaves the one before as it was', async (t) => {
  const before = PathTable.of([route('prefix', '/'), route('exact', '/a')])
  const after = before.with([route('prefix', '/b')], [route('exact', '/a')])
  t.equal(before.find('/a')?.id, 'exact /a')
  t.equal(before.find('/b')?.id, 'prefix /')
  t.equal(after.find('/a')?.id, 'prefix /')
  t.equal(after.find('/b')?.id, 'prefix /b')
  const taken = after.with([{ ...route('prefix', '/b'), id: 'another' }], [])
  t.equal(taken.with([], [route('prefix', '/b')]).find('/b')?.id, 'another', 'what another route has taken stays')
})

t.test('what a table finds follows from its routes, in whatever order they came and went', async (t) => {
  const random = seeded(20_261_122)
  const paths = ['/', '/a', '/a/', '/a/b', '/a/b/', '/b']
  let table = PathTable.empty
  const held = new Map<string, Route>()
  for (let step = 0; step < 600; step++) {
    const id = `r${whole(random, 0, 9)}`
    const former = held.get(id)
    held.delete(id)
    const path = paths[whole(random, 0, paths.length - 1)] as string
    const next = { ...route(random() < 0.5 ? 'exact' : 'prefix', path), id }
    const put = random() < 0.6
    if (put) held.set(id, next)
    table = table.with(put ? [next] : [], former === undefined ? [] : [former])
    const fresh = PathTable.of([...held.values()].sort(() => random() - 0.5))
    for (const asked of ['/', '/a', '/a/', '/a/x', '/a/b', '/a/b/', '/a/b/c', '/b', '/c']) {
      if (table.find(asked) === fresh.find(asked)) continue
      t.fail(`step ${step}: ${asked} is ${table.find(asked)?.id} and at a fresh start ${fresh.find(asked)?.id}`)
      return
    }
  }
  t.pass()
})
