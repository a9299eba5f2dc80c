import t from 'tap'
import { presentModule } from '../../src/resources/present.js'
import { readCreate, readModule } from '../../src/resources/read.js'
import { tlsEdge, tlsEdges } from '../../src/resources/tls-edges.js'
import { context, created, idOf, options, problemsOf } from './bench.js'

const EDGE = { hostports: ['db.example.com:443'], backend: { backend_id: idOf('bkdsc') } }
const CA = idOf('ca')

/** The units of an edge with this body, by their keys without the id. */
async function unitsOf(body: Readonly<Record<string, unknown>>) {
  const { record } = await created(tlsEdge, body)
  const found = tlsEdges.units({ record, revision: 1 })
  const known = new Set(tlsEdges.keys(record.id))
  for (const [key] of found) t.ok(known.has(key), `${key} is dropped with the record`)
  return Object.fromEntries(found.map(([key, unit]) => [key.split(':')[0], unit]))
}

t.test('it has twenty operations, with these modules', async (t) => {
  t.same(tlsEdge.modules, ['backend', 'mutual_tls', 'ip_restriction', 'tls_termination', 'traffic_policy'])
  t.equal(tlsEdge.operations.length + 3 * tlsEdge.modules.length, 20)
})

t.test('its hosts are those of TLS listeners, and its connections those of a TCP edge without ports', async (t) => {
  const policy = { value: 'on_tcp_connect: []' }
  const { edge, tcp_edge, policy: unit } = await unitsOf({ ...EDGE, traffic_policy: policy })
  t.match(edge, { kind: 'edge', hosts: [{ host: 'db.example.com', port: 443 }], passthrough: true })
  t.match(tcp_edge, { ports: [], upstream: `upstream:${idOf('bkdsc')}`, name: 'db.example.com' })
  t.match(unit, { carrier: 'tcp', text: policy.value, source: /^\/edges\/tls\/edgtls_\w+\/traffic_policy$/ })
})

t.test('TLS ends here where the termination says so, or clients are asked for certificates', async (t) => {
  const clients = { certificate_authority_ids: [CA] }
  const cases: readonly (readonly [object, object | undefined])[] = [
    [{}, undefined],
    [{ tls_termination: {} }, { min_version: '1.2' }],
    [{ tls_termination: { terminate_at: 'edge', min_version: '1.3' } }, { min_version: '1.3' }],
    [{ tls_termination: { enabled: false } }, undefined],
    [{ tls_termination: { terminate_at: 'upstream' } }, undefined],
    [{ tls_termination: { terminate_at: 'agent' } }, undefined],
    [{ mutual_tls: clients }, { min_version: '1.2', authorities: [CA] }],
    [{ mutual_tls: { ...clients, enabled: false } }, undefined],
    [
      { mutual_tls: clients, tls_termination: { enabled: false, min_version: '1.3' } },
      { min_version: '1.2', authorities: [CA] }
    ],
    [
      { mutual_tls: clients, tls_termination: { min_version: '1.3' } },
      { min_version: '1.3', authorities: [CA] }
    ],
    [{ mutual_tls: { ...clients, enabled: false }, tls_termination: {} }, { min_version: '1.2' }]
  ]
  for (const [body, expected] of cases) {
    const { tcp_edge } = await unitsOf({ ...EDGE, ...body })
    const { modules } = tcp_edge as unknown as { readonly modules: Readonly<Record<string, unknown>> }
    t.same(modules.tls_termination, expected, JSON.stringify(body))
    t.notOk('mutual_tls' in modules)
  }
})

t.test('what could have no effect is refused', async (t) => {
  const codes = (body: object) => problemsOf(readCreate(tlsEdge, { ...EDGE, ...body }, options))
  const clients = { certificate_authority_ids: [CA] }
  for (const terminate_at of ['upstream', 'agent']) {
    const tls_termination = { terminate_at }
    t.same(codes({ tls_termination, mutual_tls: clients }), ['mutual_tls CONFLICTING_FIELDS'])
    t.same(codes({ tls_termination, mutual_tls: { ...clients, enabled: false } }), [])
    t.same(codes({ tls_termination: { terminate_at, min_version: '1.3' } }), [
      'tls_termination.min_version FIELD_INVALID'
    ])
    t.same(codes({ tls_termination: { terminate_at, min_version: null } }), [])
  }
  t.same(codes({ tls_termination: { terminate_at: 'client' } }), ['tls_termination.terminate_at FIELD_INVALID'])
  for (const version of ['1.0', '1.1', '1.4']) {
    t.same(codes({ tls_termination: { min_version: version } }), ['tls_termination.min_version FIELD_INVALID'])
  }
  t.same(codes({ mutual_tls: { certificate_authority_ids: [] } }), [
    'mutual_tls.certificate_authority_ids FIELD_INVALID'
  ])
  t.same(codes({ hostports: ['db.internal:443'] }), ['hostports[0] FIELD_INVALID'])
  t.same(codes({ hostports: ['db.example.com'] }), ['hostports[0] FIELD_INVALID'])
  t.same(codes({ backend: { backend_id: idOf('bkdhr') } }), ['backend.backend_id REF_INVALID'])
  t.same(codes({ compression: {} }), ['compression FIELD_UNKNOWN'])
  const { record } = await created(tlsEdge, { ...EDGE, tls_termination: { terminate_at: 'upstream' } })
  t.same(problemsOf(readModule(tlsEdge, record, 'mutual_tls', clients, options)), [' CONFLICTING_FIELDS'])
})

t.test('the lowest version is shown only where TLS ends at the edge', async (t) => {
  const shown = async (tls_termination: object) => {
    const { record } = await created(tlsEdge, { ...EDGE, tls_termination })
    return presentModule(tlsEdge, record, 'tls_termination', context)
  }
  t.same(await shown({}), { enabled: true, terminate_at: 'edge', min_version: '1.2' })
  t.same(await shown({ terminate_at: 'upstream' }), { enabled: true, terminate_at: 'upstream', min_version: null })
})
