import t from 'tap'
import { Metrics } from '../../src/telemetry/metrics.js'
import { CountedElsewhere } from '../../src/telemetry/relayed-traffic.js'
import { SharedSeriesMemory } from '../../src/telemetry/series-memory.js'
import { TrafficRates } from '../../src/telemetry/traffic-rates.js'

/** The metrics of a thread, which `elsewhere` reads as another thread would: from the memory that messages bring. */
function counting(elsewhere: CountedElsewhere, hasUnit: (key: string) => boolean = () => true) {
  const thread = { requests: 0 }
  const memory = new SharedSeriesMemory((series) => elsewhere.begins(thread, structuredClone(series)))
  return { thread, metrics: new Metrics({ has: hasUnit }, new TrafficRates(), memory) }
}

t.test('the numbers of several threads add up, with those of the one that shows them', async (t) => {
  const shown = new Metrics()
  const elsewhere = new CountedElsewhere(shown)
  const [one, other] = [counting(elsewhere), counting(elsewhere)]
  for (const { metrics } of [one, other, { metrics: shown }]) {
    metrics.connections.inc()
    metrics.ended('e', 200, 3, 2)
    metrics.transferred(10, 100)
    metrics.routeEnded('r', 3)
    metrics.meter.count(200, 3, 10, 100)
    metrics.retried()
  }
  other.metrics.ended('e', 503, 3, undefined)
  elsewhere.read()
  const text = await shown.registry.metrics()
  for (const line of [
    'sluice_connections 3',
    'sluice_requests_total{site="e",status="200"} 3',
    'sluice_requests_total{site="e",status="503"} 1',
    'sluice_request_duration_seconds_bucket{le="0.005"} 4',
    'sluice_request_duration_seconds_count 4',
    'sluice_route_duration_seconds_count{site="r",route="r"} 3',
    'sluice_bytes_total{direction="out"} 300',
    'sluice_upstream_retries_total 3'
  ])
    t.match(text, `\n${line}\n`)
  t.equal(shown.meter.statuses[2], 3)
  t.equal(shown.meter.bytesOut, 300)
  t.same([one.thread.requests, other.thread.requests], [1, 2])
  elsewhere.read()
  t.equal(await shown.registry.metrics(), text, 'to read again counts nothing again')
})

t.test('what a thread has counted stays when it ends, and its connections are gone', async (t) => {
  const shown = new Metrics()
  const elsewhere = new CountedElsewhere(shown)
  const { thread, metrics } = counting(elsewhere)
  metrics.connections.inc()
  elsewhere.read()
  metrics.connections.inc()
  metrics.inFlight.inc()
  metrics.failed('NO_ROUTE')
  elsewhere.ended(thread)
  const text = await shown.registry.metrics()
  t.match(text, /\nsluice_failures_total\{code="NO_ROUTE"\} 1\n/)
  t.match(text, /\nsluice_connections 0\n/)
  t.match(text, /\nsluice_requests_in_flight 0\n/)
})

t.test('a route that begins in the memory of one that has gone counts from the beginning', async (t) => {
  const there = new Set<string>()
  const hasUnit = (key: string) => there.has(key)
  const shown = new Metrics({ has: hasUnit })
  const elsewhere = new CountedElsewhere(shown)
  const { metrics } = counting(elsewhere, hasUnit)
  const routes = (prefix: string) => Array.from({ length: 1_000 }, (_, index) => `${prefix}${index}`)
  // As many as have series of their own, twice.
  for (const generation of ['a', 'b']) {
    there.clear()
    for (const route of routes(generation)) there.add(`route:${route}`)
    for (const [place, route] of routes(generation).entries()) {
      metrics.routeEnded(route, 1)
      if (place % 50 === 0) elsewhere.read()
      metrics.routeEnded(route, 1)
    }
  }
  elsewhere.read()
  const counts = [
    ...(await shown.registry.metrics()).matchAll(/route_duration_seconds_count\{site="\w+",route="(\w+)"\} (\d+)/g)
  ]
  t.same(
    counts.map(([, route, count]) => [route, count]),
    routes('b').map((route) => [route, '2'])
  )
})

t.test('series have as much memory as they need', async (t) => {
  const shown = new Metrics()
  const elsewhere = new CountedElsewhere(shown)
  const { metrics } = counting(elsewhere)
  for (let edge = 0; edge < 5_000; edge++) for (let i = 0; i <= edge % 3; i++) metrics.ended(`e${edge}`, 200, 1, 1)
  elsewhere.read()
  const counts = [...(await shown.registry.metrics()).matchAll(/requests_total\{site="e(\d+)",status="200"\} (\d+)/g)]
  t.equal(counts.length, 5_000)
  t.ok(counts.every(([, edge, count]) => Number(count) === (Number(edge) % 3) + 1))
})
