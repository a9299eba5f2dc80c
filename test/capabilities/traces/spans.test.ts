import t from 'tap'
import { spansOf } from '../../../src/capabilities/traces/spans.js'
import type { TracedExchange, TracedTry } from '../../../src/capabilities/traces/traced-exchange.js'

const tried: TracedTry = {
  spanId: '00f067aa0ba902b8',
  begun: 1_700_000_000_001,
  ended: 1_700_000_000_002.5,
  backend: 'bkds_1',
  name: 'orders',
  server: 'https://[2001:db8::1]',
  method: 'POST',
  target: '/shop.Orders/Place?key=hidden',
  status: 200,
  failure: undefined
}

const exchange: TracedExchange = {
  traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
  spanId: '00f067aa0ba902b7',
  parentSpanId: '',
  traceState: '',
  begun: 1_700_000_000_000,
  ended: 1_700_000_000_003,
  method: 'POST',
  scheme: 'https',
  host: 'app.example',
  port: undefined,
  path: '/shop.Orders/Place',
  query: undefined,
  ownPath: false,
  version: '2',
  userAgent: undefined,
  clientAddress: '192.0.2.1',
  peerAddress: '192.0.2.1',
  peerPort: 40_000,
  route: undefined,
  routeId: undefined,
  routeName: undefined,
  edge: undefined,
  site: undefined,
  listener: 'listen',
  revision: 1,
  requestId: 'id',
  status: 200,
  code: undefined,
  failure: undefined,
  rule: undefined,
  action: undefined,
  bytesIn: 1,
  bytesOut: 2,
  grpcStatus: undefined,
  isGrpc: false,
  tries: [tried],
  events: [],
  eventsDropped: 0
}

function read(more: Partial<TracedExchange>) {
  return spansOf({ ...exchange, ...more }).map(({ attributes, ...span }) => ({
    ...span,
    attributes: Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
  }))
}

t.test('calls of gRPC, whose faults are those of the server or of the client', async (t) => {
  const call = (grpcStatus: number) => read({ isGrpc: true, grpcStatus })
  const [served, asked] = call(0)
  t.match(served?.attributes, {
    'rpc.system': 'grpc',
    'rpc.service': 'shop.Orders',
    'rpc.method': 'Place',
    'rpc.grpc.status_code': '0'
  })
  t.notOk(served?.status ?? asked?.status)
  const [missing, missingThere] = call(5)
  t.equal(missing?.status, undefined, 'NOT_FOUND is no fault of the server')
  t.match(missingThere, { status: { code: 2 }, attributes: { 'error.type': '5', 'rpc.grpc.status_code': '5' } })
  t.match(call(13)[0], { status: { code: 2 }, attributes: { 'error.type': '13' } })
})

t.test('an upstream is named by its URL, or by its tunnels', async (t) => {
  t.match(read({})[1]?.attributes, {
    'url.full': 'https://[2001:db8::1]/shop.Orders/Place?key=[redacted]',
    'server.address': '2001:db8::1',
    'server.port': '443'
  })
  t.match(read({ tries: [{ ...tried, server: 'http://a.example:81', target: '/' }] })[1]?.attributes, {
    'url.full': 'http://a.example:81/',
    'server.address': 'a.example',
    'server.port': '81'
  })
  const [, tunnel] = read({ tries: [{ ...tried, server: 'tunnels app=web', target: '/' }] })
  t.match(tunnel?.attributes, { 'url.full': 'https://app.example/', 'server.address': 'tunnels app=web' })
  t.notOk('server.port' in (tunnel?.attributes ?? {}))
})

t.test('site, route and backend are named beside their ids, and long names are cut', async (t) => {
  const served = {
    edge: 'edghts_1',
    site: 'app.example',
    routeId: 'edghtsrt_1',
    routeName: `app.example/${'x'.repeat(5_000)}`
  }
  const [server, client] = read(served)
  t.match(server?.attributes, { 'sluice.edge': 'edghts_1', 'sluice.site': 'app.example', 'sluice.route': 'edghtsrt_1' })
  t.equal(String(server?.attributes['sluice.route_name']).length, 1_025)
  t.match(client?.attributes, { 'sluice.backend': 'bkds_1', 'sluice.backend_name': 'orders' })
  const [unserved, unanswered] = read({ tries: [{ ...tried, backend: '', name: '' }] })
  for (const name of ['sluice.site', 'sluice.route_name']) t.notOk(name in (unserved?.attributes ?? {}), name)
  t.notOk('sluice.backend' in (unanswered?.attributes ?? {}))
})

t.test('an answer that breaks off is an error of the upstream, a client that leaves is none', async (t) => {
  const broken = read({ failure: 'upstream-gone' })
  t.ok(broken.every(({ status, attributes }) => status?.code === 2 && attributes['error.type'] === 'upstream-gone'))
  const left = read({ failure: 'client-gone' })
  t.ok(left.every(({ status }) => status === undefined))
  const given = read({ failure: 'client-gone', status: 0, tries: [{ ...tried, status: undefined }] })
  t.match(given[1], { status: { code: 2 }, attributes: { 'error.type': 'client-gone' } })
  t.notOk('http.response.status_code' in (given[0]?.attributes ?? {}))
})

t.test('times are nanoseconds, and long texts are cut', async (t) => {
  const [server, client] = read({ path: `/${'x'.repeat(5_000)}`, eventsDropped: 3 })
  t.match(server, {
    startTimeUnixNano: '1700000000000000000',
    endTimeUnixNano: '1700000000003000000',
    droppedEventsCount: 3
  })
  t.match(client, { startTimeUnixNano: '1700000000001000000', endTimeUnixNano: '1700000000002500000' })
  t.equal(String(server?.attributes['url.path']).length, 1_025)
})
