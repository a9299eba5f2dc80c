import t from 'tap'
import { nameInMetadata, UnitNames } from '../../src/runtime/names.js'
import type { Unit } from '../../src/runtime/plan.js'

const units = new Map<string, Unit>([
  [
    'edge:e',
    {
      kind: 'edge',
      id: 'e',
      hosts: [
        { host: 'app.test', port: 443 },
        { host: 'www.app.test', port: 443 }
      ]
    }
  ],
  ['edge:alt', { kind: 'edge', id: 'alt', hosts: [{ host: 'app.test', port: 8443 }] }],
  ['edge:own', { kind: 'edge', id: 'own', hosts: [{ host: 'own.test', port: 443 }], name: 'the shop' }],
  ['edge:default', { kind: 'edge', id: 'default', hosts: 'every' }],
  ['route:api', { kind: 'route', id: 'api', edge: 'e', match: 'prefix', path: '/api', modules: {} }],
  ['route:exact', { kind: 'route', id: 'exact', edge: 'e', match: 'exact', path: '/api', modules: {} }],
  ['route:root', { kind: 'route', id: 'root', edge: 'own', match: 'prefix', path: '/', modules: {} }],
  ['route:named', { kind: 'route', id: 'named', edge: 'e', match: 'prefix', path: '/x', modules: {}, name: 'images' }],
  ['route:default', { kind: 'route', id: 'default', edge: 'default', match: 'prefix', path: '/', modules: {} }],
  ['tcp_edge:db', { kind: 'tcp_edge', id: 'db', ports: [{ host: 'db.test', port: 5432 }], modules: {} }],
  ['upstream:b', { kind: 'upstream', form: 'failover', members: [], name: 'shop' }],
  ['upstream:c', { kind: 'upstream', form: 'failover', members: [] }]
])

t.test('sites are named by their first host, routes by site and path, backends by their own name', async (t) => {
  const names = new UnitNames(() => units)
  t.same(
    ['e', 'alt', 'own', 'default', 'db', 'gone'].map((id) => names.siteOf(id)),
    ['app.test', 'app.test:8443', 'the shop', 'default', 'db.test:5432', undefined]
  )
  t.same(
    ['api', 'exact', 'root', 'named', 'default', 'gone'].map((id) => names.routeOf(id)),
    ['app.test/api/', 'app.test/api', 'the shop/', 'images', 'default', undefined]
  )
  t.same(
    ['b', 'c', 'gone'].map((id) => names.backendOf(id)),
    ['shop', 'c', undefined]
  )
  t.same(
    ['api', 'api.fields', 'e', 'db'].map((owner) => names.ownerOf(owner)),
    ['app.test/api/', 'app.test/api/', 'app.test', 'db.test:5432']
  )
})

t.test('metadata names a record when it is a JSON object with a text that can be shown', async (t) => {
  t.equal(nameInMetadata('{"name": "shop", "team": 7}'), 'shop')
  for (const metadata of [
    '',
    'name: shop',
    '{"name": 7}',
    '{"name": ""}',
    '{',
    '{"name": "a\\nb"}',
    '{"name": "a\\"b"}'
  ])
    t.equal(nameInMetadata(metadata), undefined, metadata)
  t.equal(nameInMetadata(`{"name": "${'x'.repeat(101)}"}`), undefined, 'too long')
})
