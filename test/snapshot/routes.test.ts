import t from 'tap'
import { type CompiledEdge, findEdge, PathTable, type Route } from '../../src/snapshot/routes.js'

const route = (match: 'exact' | 'prefix', path: string): Route => ({
  id: `${match} ${path}`,
  edge: 'e',
  match,
  path,
  upstream: undefined,
  modules: null
})

t.test('an exact path goes before the longest prefix, and a prefix ends on a segment border', async (t) => {
  const table = new PathTable([
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
  const table = new PathTable([route('prefix', '/api')])
  t.equal(table.find('/other'), undefined)
  t.equal(table.find('*'), undefined)
  t.equal(new PathTable([]).find('/'), undefined)
})

t.test('the exact host goes before the longest wildcard, and that before every host', async (t) => {
  const edge = (id: string): CompiledEdge => ({ id, hosts: [], routes: new PathTable([]), connectPolicy: undefined })
  const hosts = new Map(
    ['a.example.com', '*.example.com', '*.b.example.com', '*'].map((host) => [host, edge(host)] as const)
  )
  const cases: [host: string, found: string][] = [
    ['a.example.com', 'a.example.com'],
    ['c.example.com', '*.example.com'],
    ['x.b.example.com', '*.b.example.com'],
    ['y.x.b.example.com', '*.b.example.com'],
    ['b.example.com', '*.example.com'],
    ['example.com', '*'],
    ['evilexample.com', '*']
  ]
  for (const [host, found] of cases) t.equal(findEdge(hosts, host)?.id, found, host)
})
