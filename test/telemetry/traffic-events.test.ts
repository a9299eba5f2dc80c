import t from 'tap'
import { DeliveryState } from '../../src/capabilities/events/delivery-state.js'
import { REFUSAL_RULE, TrafficQueue } from '../../src/capabilities/events/sources.js'
import { features } from '../../src/features/registry.js'
import { eventSubscription } from '../../src/resources/event-subscriptions.js'
import { readCreate } from '../../src/resources/read.js'
import {
  HTTP_REQUEST_COMPLETE as HTTP,
  TCP_CONNECTION_CLOSED as TCP,
  TRAFFIC_FIELDS
} from '../../src/telemetry/event-fields.js'
import { EventFilters } from '../../src/telemetry/event-filter.js'
import { TrafficEventQueue } from '../../src/telemetry/traffic-events.js'
import { ManualClock } from '../helpers/clock.js'

const SESSION = 'agent_session_start.v0'

const VALUES = {
  'conn.client_ip': '192.0.2.7',
  'conn.start_ts': '2026-01-01T00:00:00.000Z',
  'http.request.method': 'GET',
  'http.request.headers': { accept: ['*/*', 'a'] },
  'http.request.url.path': '/a',
  'http.response.status_code': 503,
  'traffic_policy.logs': [{ tier: 'gold' }]
}

const read = (path: string) => (VALUES as Record<string, unknown>)[path]

function traffic() {
  const put: [string, Record<string, unknown>][] = []
  const faults: unknown[] = []
  const clock = new ManualClock()
  const events = new TrafficEventQueue({
    clock,
    account: () => 'ac_1',
    put: (destination, event) => put.push([destination, JSON.parse(event)]),
    fault: (error) => faults.push(error)
  })
  return { events, put, clock, faults }
}

t.test('an event shows the fields that were asked for, null for what does not apply', async (t) => {
  const { events, put } = traffic()
  t.equal(events.wants(HTTP), false)
  events.put(HTTP, read)
  events.flush()
  t.same(put, [], 'nobody subscribed')
  const fields = ['conn.client_ip', 'http.response.status_code', 'ja4_fingerprint', 'http.request.headers']
  events.follow(new Map([[HTTP, [{ type: HTTP, fields, destinations: ['a'] }]]]))
  t.equal(events.wants(HTTP), true)
  t.equal(events.wants(TCP), false)
  events.put(HTTP, read)
  events.flush()
  t.match(put, [['a', { event_id: /^ev_/, event_type: HTTP, account_id: 'ac_1', principal: null }]])
  t.same(put[0]?.[1].object, {
    conn: { client_ip: '192.0.2.7' },
    http: { response: { status_code: 503 }, request: { headers: { accept: ['*/*', 'a'] } } },
    ja4_fingerprint: null
  })
})

t.test('subscriptions that lead to one destination make one event with what any of them asks for', async (t) => {
  const { events, put } = traffic()
  const of = (destinations: string[], field: string, filter?: string) => ({
    type: HTTP,
    fields: [field],
    filter,
    destinations
  })
  events.follow(
    new Map([
      [
        HTTP,
        [
          of(['a', 'b'], 'conn.client_ip'),
          of(['a'], 'http.request.method'),
          of(['a', 'c'], 'http.request.url.path', 'ev.http.response.status_code < 500')
        ]
      ]
    ])
  )
  events.put(HTTP, read)
  events.flush()
  t.same(
    put.map(([destination, { object }]) => [destination, object]),
    [
      ['a', { conn: { client_ip: '192.0.2.7' }, http: { request: { method: 'GET' } } }],
      ['b', { conn: { client_ip: '192.0.2.7' } }]
    ]
  )
})

t.test('only what somebody chose or filters by is read', async (t) => {
  const { events } = traffic()
  const asked: string[] = []
  const noting = (path: string) => {
    asked.push(path)
    return read(path)
  }
  const filter = 'ev.http.response.status_code >= 500'
  events.follow(new Map([[HTTP, [{ type: HTTP, fields: ['conn.client_ip'], filter, destinations: ['a'] }]]]))
  events.put(HTTP, noting)
  events.flush()
  t.same(asked, ['http.response.status_code', 'conn.client_ip'])
})

t.test('what happened is written by the way: in order, with its time, to whom subscribed then', async (t) => {
  const { events, put, clock } = traffic()
  const to = (destination: string) =>
    new Map([
      [HTTP, [{ type: HTTP, fields: ['http.request.method'], destinations: [destination] }]],
      [SESSION, [{ type: SESSION, destinations: [destination] }]]
    ])
  const shown = () => put.splice(0).map(([to, { event_type, event_timestamp }]) => [to, event_type, event_timestamp])
  events.follow(to('a'))
  const [first, second] = [clock.wall(), clock.wall() + 5_000]
  events.put(HTTP, read)
  t.same(put, [], 'not yet')
  clock.advance(5_000)
  events.put(HTTP, read)
  events.follow(to('b'))
  const time = (at: number) => new Date(at).toISOString()
  t.same(shown(), [
    ['a', HTTP, time(first)],
    ['a', HTTP, time(second)]
  ])
  events.put(HTTP, read)
  events.publish(SESSION, {})
  t.same(shown(), [
    ['b', HTTP, time(second)],
    ['b', SESSION, time(second)]
  ])
  for (let n = 0; n < 100; n++) events.put(HTTP, read)
  const sizes = [0]
  while (put.length < 100) {
    await new Promise(setImmediate)
    if (put.length > (sizes.at(-1) ?? 0)) sizes.push(put.length)
  }
  t.ok(sizes.length > 4, `requests get their turn in between: ${sizes}`)
})

t.test('an event that cannot be written harms no other', async (t) => {
  const { events, put, faults } = traffic()
  events.follow(new Map([[HTTP, [{ type: HTTP, fields: ['http.request.method'], destinations: ['a'] }]]]))
  const failure = new Error('no value')
  events.put(HTTP, () => {
    throw failure
  })
  events.put(HTTP, read)
  while (put.length === 0) await new Promise(setImmediate)
  t.same(faults, [failure])
  t.equal(put.length, 1)
})

t.test('events have the fields of every feature, those of both events first', async (t) => {
  const [http, tcp] = [HTTP, TCP].map((type) => Object.keys(TRAFFIC_FIELDS.get(type) ?? {})) as [string[], string[]]
  const shared = http.filter((path) => tcp.includes(path))
  const sorted = (paths: readonly string[]) => [...shared, ...paths.filter((path) => !shared.includes(path)).sort()]
  t.same(shared, [...shared].sort())
  t.same([http, tcp], [sorted(http), sorted(tcp)])
  for (const { name, eventFields } of features) {
    for (const path of Object.keys(eventFields?.http ?? {})) {
      t.same([http.includes(path), tcp.includes(path)], [true, false], `${name}: ${path}`)
    }
    for (const path of Object.keys(eventFields?.connection ?? {})) t.ok(shared.includes(path), `${name}: ${path}`)
  }
  t.ok(shared.includes('ip_policy.decision'))
  t.ok(http.includes('rate_limit.decision'))
})

t.test('filters', async (t) => {
  const filters = new EventFilters()
  const passes = (source: string) => {
    const compiled = filters.compile(HTTP, source)
    return compiled.ok ? compiled.filter(read) : compiled.message
  }
  for (const source of [
    'ev.http.response.status_code >= 500',
    "ev.conn.client_ip == '192.0.2.7' && ev.http.request.method in ['GET', 'HEAD']",
    "ev.http.request.url.path.startsWith('/a')",
    "ev.http.request.headers['accept'][1] == 'a'",
    "ev.traffic_policy.logs.exists(entry, entry.tier == 'gold')",
    "ev.conn.start_ts < timestamp('2027-01-01T00:00:00Z')"
  ]) {
    t.equal(passes(source), true, source)
  }
  t.equal(passes('ev.http.response.status_code == 200'), false)
  t.equal(passes("ev.oauth.decision == 'allow'"), false, 'what is absent does not pass')
  t.equal(passes('1 / (ev.http.response.status_code - 503) > 0'), false, 'nor does what fails')
  for (const source of ['', 'ev.', 'req.method == "GET"', 'ev.nothing == 1', 'ev.http.request.method']) {
    t.type(passes(source), 'string', `${source} is refused`)
  }
})

t.test('a subscription keeps fields and filter of traffic events, and refuses them elsewhere', async (t) => {
  const read = (source: object) =>
    readCreate(eventSubscription, { sources: [source] }, { checkPolicy: () => undefined, path: {} })
  const codes = (source: object) => {
    const result = read(source)
    return result.ok ? [] : result.problems.map(({ field, code }) => `${field} ${code}`)
  }
  const whole = { type: HTTP, fields: ['conn.client_ip'], filter: "ev.conn.client_ip != ''" }
  const result = read(whole)
  t.same(result.ok && result.input.body.sources, [whole])
  t.same(codes({ type: HTTP }), [], 'all fields, every event')
  t.same(codes({ type: HTTP, fields: null, filter: '' }), [])
  t.same(codes({ type: TCP, fields: ['http.request.method'] }), ['sources[0].fields[0] FIELD_INVALID'])
  t.same(codes({ type: TCP, filter: 'ev.http.request.method == ""' }), ['sources[0].filter FIELD_INVALID'])
  t.same(codes({ type: 'tcp_address_created.v0' }), [])
  t.same(codes({ type: 'ssh_public_key_deleted.v0' }), [])
  t.same(codes({ type: HTTP, fields: [] }), ['sources[0].fields FIELD_INVALID'])
  t.same(codes({ type: HTTP, filter: 'ev.conn.client_ip' }), ['sources[0].filter FIELD_INVALID'])
  t.same(codes({ type: HTTP, filter: 'x'.repeat(9000) }), ['sources[0].filter TOO_LONG'])
  t.same(codes({ type: 'vault_created.v0', fields: ['id'] }), ['sources[0].fields FIELD_INVALID'])
  t.same(codes({ type: 'agent_session_start.v0', filter: 'true' }), ['sources[0].filter FIELD_INVALID'])
})

t.test('a full queue drops what comes and counts it; what waits keeps its order', async (t) => {
  const clock = new ManualClock()
  const state = new DeliveryState('d', clock)
  const queue = new TrafficQueue({ state, clock, budget: 1_000, refusals: REFUSAL_RULE })
  const event = (n: number) => `{"n":${String(n).padStart(4, '0')}}`
  const kept = Array.from({ length: 200 }, (_, n) => n).filter((n) => queue.put(event(n)))
  t.same(
    kept,
    Array.from({ length: kept.length }, (_, n) => n),
    'the first stay'
  )
  t.equal(state.dropped, 200 - kept.length)
  t.equal(await queue.next(), undefined, 'too little for a parcel, and not released')
  queue.release()
  const parcel = await queue.next()
  t.same(parcel?.events, kept.map(event))
  t.equal(await queue.next(), parcel, 'the same until it was taken')
  t.equal(queue.put(event(1)), false, 'what is on its way still takes room')
  if (parcel !== undefined) await queue.done(parcel)
  t.equal(state.delivered, kept.length)
  t.equal(queue.put(event(7)), true)
  queue.discard()
  queue.release()
  t.equal(await queue.next(), undefined)
  t.equal(state.dropped, 200 - kept.length + 2)
})

t.test('enough for a parcel goes at once', async (t) => {
  const clock = new ManualClock()
  const queue = new TrafficQueue({
    state: new DeliveryState('d', clock),
    clock,
    budget: 1_000_000,
    refusals: REFUSAL_RULE
  })
  for (let n = 0; n < 499; n++) queue.put('{}')
  t.equal(queue.isFull, false)
  t.equal(await queue.next(), undefined)
  queue.put('{}')
  t.equal(queue.isFull, true)
  t.equal((await queue.next())?.events.length, 500)
})

t.test('whatever comes and goes, nothing is lost uncounted', async (t) => {
  const clock = new ManualClock()
  let seed = 7
  const random = () => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed / 2_147_483_647
  }
  const state = new DeliveryState('d', clock)
  const queue = new TrafficQueue({ state, clock, budget: 2_000, refusals: REFUSAL_RULE })
  const taken: number[] = []
  let put = 0
  let accepted = 0
  for (let step = 0; step < 20_000; step++) {
    if (random() < 0.9) {
      if (queue.put(JSON.stringify({ n: put++, text: 'x'.repeat(random() * 300) }))) accepted += 1
    } else {
      if (random() < 0.5) queue.release()
      const parcel = await queue.next()
      if (parcel === undefined) continue
      if (random() < 0.3) await queue.failed({ message: 'no' }, 1)
      else {
        await queue.done(parcel)
        taken.push(...parcel.events.map((text) => (JSON.parse(text) as { n: number }).n))
      }
    }
  }
  queue.release()
  for (let parcel = await queue.next(); parcel !== undefined; parcel = await queue.next()) {
    await queue.done(parcel)
    taken.push(...parcel.events.map((text) => (JSON.parse(text) as { n: number }).n))
  }
  t.equal(taken.length, accepted)
  t.equal(accepted + state.dropped, put)
  t.ok(state.dropped > 0)
  t.same(
    taken,
    [...taken].sort((a, b) => a - b)
  )
})
