import { once } from 'node:events'
import { type IncomingMessage, type RequestListener, request, type ServerResponse } from 'node:http'
import t from 'tap'
import { ManualClock } from '../../helpers/clock.js'
import { outcome, startRoute } from '../route.js'

const settings = {
  tripped_duration: 5,
  rolling_window: 10,
  num_buckets: 10,
  volume_threshold: 4,
  error_threshold_percentage: 0.5
}
const OPEN = '503 CIRCUIT_OPEN'

/** An upstream that answers what `status` says and counts what it was asked. */
class Upstream {
  status = 200
  asked = 0
  /** While defined, answers wait here. */
  held: ServerResponse[] | undefined
  #arrived: (() => void) | undefined

  readonly serve: RequestListener = (_, response) => {
    this.asked++
    if (this.held === undefined) response.writeHead(this.status).end()
    else this.held.push(response)
    this.#arrived?.()
  }

  /** The next request is here. */
  arrival(): Promise<void> {
    return new Promise((arrived) => {
      this.#arrived = arrived
    })
  }
}

for (const num_buckets of [1, 10, 128]) {
  t.test(`with ${num_buckets} buckets it opens at the threshold, probes once and closes`, async (t) => {
    const clock = new ManualClock()
    const upstream = new Upstream()
    const { get } = await startRoute(t, upstream.serve, { circuit_breaker: { ...settings, num_buckets } }, { clock })
    const ask = async (status: number) => {
      upstream.status = status
      return outcome(await get())
    }
    for (const status of [200, 404, 500]) t.equal(await ask(status), String(status))
    t.equal(await ask(500), '500', 'two failures of four')
    t.equal(upstream.asked, 4)
    const refused = await get()
    t.equal(outcome(refused), OPEN)
    t.equal(refused.headers['retry-after'], '5')
    t.match(refused.body.toString(), /^503 Service Unavailable\ncode: /)
    clock.advance(4_500)
    t.match(await get(), { status: 503, headers: { 'retry-after': '1' } })
    t.equal(upstream.asked, 4, 'the upstream was not asked while open')

    clock.advance(500)
    upstream.status = 200
    upstream.held = []
    let [answered, others] = [0, () => {}]
    const refusals = new Promise<void>((done) => {
      others = done
    })
    const all = Array.from({ length: 200 }, async () => {
      const one = outcome(await get())
      if (++answered === 199) others()
      return one
    })
    await refusals
    t.equal(upstream.asked, 5, 'one probe of two hundred requests')
    upstream.held.pop()?.writeHead(200).end()
    upstream.held = undefined
    t.same((await Promise.all(all)).sort(), ['200', ...new Array(199).fill(OPEN)])
    t.equal(await ask(200), '200')
    for (let i = 0; i < 3; i++) t.equal(await ask(500), '500', 'the counts began anew')
  })
}

t.test('a probe that fails opens anew; an upstream that is not there fails', async (t) => {
  const clock = new ManualClock()
  const upstream = new Upstream()
  const { get, server, put } = await startRoute(t, upstream.serve, {}, { clock })
  await put('circuit_breaker', settings)
  server.close()
  server.closeAllConnections()
  for (let i = 0; i < 4; i++) t.equal((await get()).status, 502)
  t.equal(outcome(await get()), OPEN)
  clock.advance(5_000)
  t.equal((await get()).status, 502, 'the probe')
  t.equal(outcome(await get()), OPEN)
  clock.advance(4_999)
  t.equal(outcome(await get()), OPEN)
  clock.advance(1)
  t.equal((await get()).status, 502)
})

t.test('a probe whose client leaves makes room for the next', async (t) => {
  const clock = new ManualClock()
  const upstream = new Upstream()
  const options = { LIMITS_ABORT_ON_CLOSE: 'on' }
  const { get, sluice } = await startRoute(t, upstream.serve, { circuit_breaker: settings }, { clock, options })
  upstream.status = 500
  for (let i = 0; i < 4; i++) await get()
  clock.advance(5_000)
  upstream.held = []
  const leaving = new AbortController()
  const here = upstream.arrival()
  const probe = get({ path: '/leaving', signal: leaving.signal })
  await here
  t.equal(outcome(await get()), OPEN)
  leaving.abort()
  await t.rejects(probe)
  upstream.held = undefined
  upstream.status = 200
  await sluice.line(({ path }) => path === '/leaving')
  t.equal(outcome(await get()), '200', 'the next is the probe')
  t.equal(outcome(await get()), '200')
})

t.test('its state outlives writes that leave its window alone', async (t) => {
  const clock = new ManualClock()
  const upstream = new Upstream()
  const { get, put, remove, made, api, path } = await startRoute(
    t,
    upstream.serve,
    { circuit_breaker: settings },
    { clock }
  )
  upstream.status = 500
  for (let i = 0; i < 4; i++) await get()
  t.equal(outcome(await get()), OPEN)
  await made('/ip_policies', {})
  await api('PATCH', path, { description: 'another' })
  await put('response_headers', { add: { 'x-a': 'b' }, remove: [] })
  t.equal(outcome(await get()), OPEN)
  await put('circuit_breaker', { ...settings, volume_threshold: 2, error_threshold_percentage: 1 })
  t.equal(outcome(await get()), OPEN)
  await put('circuit_breaker', { ...settings, tripped_duration: 1 })
  clock.advance(1_000)
  upstream.status = 200
  t.equal(outcome(await get()), '200', 'the new duration applies at once')
  upstream.status = 500
  for (let i = 0; i < 4; i++) await get()
  t.equal(outcome(await get()), OPEN)
  await put('circuit_breaker', { ...settings, enabled: false })
  t.equal(outcome(await get()), '500')
  await remove('circuit_breaker')
  t.equal(outcome(await get()), '500')
  await put('circuit_breaker', settings)
  t.equal(outcome(await get()), '500', 'a breaker that was away begins anew')
})

t.test('answers of the policy are no failures of the upstream', async (t) => {
  const upstream = new Upstream()
  const rule = { expressions: ["req.url.path == '/own'"], actions: [{ type: 'deny', config: { status_code: 503 } }] }
  const { get } = await startRoute(t, upstream.serve, {
    circuit_breaker: { ...settings, volume_threshold: 1, error_threshold_percentage: 0 },
    traffic_policy: { value: JSON.stringify({ on_http_request: [rule] }) }
  })
  for (let i = 0; i < 5; i++) t.equal((await get({ path: '/own' })).status, 503)
  t.equal(outcome(await get()), '200')
  t.equal(upstream.asked, 1)
})

t.test('a route without a backend keeps saying so', async (t) => {
  const upstream = new Upstream()
  const { get, api, path } = await startRoute(t, upstream.serve, {
    circuit_breaker: { ...settings, volume_threshold: 1 }
  })
  await api('DELETE', `${path}/backend`)
  for (let i = 0; i < 3; i++) t.equal(outcome(await get()), '503 NO_UPSTREAM')
})

t.test('the action does the same for the requests of its rule', async (t) => {
  const clock = new ManualClock()
  const upstream = new Upstream()
  const rule = {
    name: 'fragile',
    expressions: ["req.url.path.startsWith('/fragile')"],
    actions: [{ type: 'circuit-breaker', config: { volume_threshold: 2, tripped_duration: '5s' } }]
  }
  const policy = (rules: object[]) => ({ value: JSON.stringify({ on_http_request: rules }) })
  const { get, put } = await startRoute(t, upstream.serve, { traffic_policy: policy([rule]) }, { clock })
  const fragile = async () => outcome(await get({ path: '/fragile' }))
  upstream.status = 500
  t.equal(await fragile(), '500')
  t.equal(await fragile(), '500')
  t.equal(await fragile(), OPEN)
  t.equal(outcome(await get()), '500', 'other requests pass')
  await put('traffic_policy', policy([{ actions: [{ type: 'log' }] }, rule]))
  t.equal(await fragile(), OPEN, 'a new rule beside it changes nothing')
  clock.advance(5_000)
  upstream.status = 200
  t.equal(await fragile(), '200')
  t.equal(await fragile(), '200')
})

t.test('a page that the policy puts in place of a failure does not hide it', async (t) => {
  const upstream = new Upstream()
  const page = {
    expressions: ['res.status_code >= 500'],
    actions: [{ type: 'custom-response', config: { status_code: 200, body: 'back soon' } }]
  }
  const { get, put } = await startRoute(t, upstream.serve, {
    circuit_breaker: settings,
    response_headers: { add: { 'x-after': 'all' } },
    traffic_policy: { value: JSON.stringify({ on_http_response: [page] }) }
  })
  upstream.status = 500
  for (let i = 0; i < 4; i++) t.match(await get(), { status: 200, headers: { 'x-after': 'all' } })
  await put('traffic_policy', { enabled: false, value: 'on_http_request: []' })
  t.equal(outcome(await get()), OPEN)
  t.equal(upstream.asked, 4)
})

t.test('the head of an answer settles it, however long its body takes', async (t) => {
  const clock = new ManualClock()
  const upstream = new Upstream()
  const streams: ServerResponse[] = []
  const serve: RequestListener = (incoming, response) => {
    if (incoming.url !== '/stream') return upstream.serve(incoming, response)
    streams.push(response)
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n')
  }
  const rule = { actions: [{ type: 'circuit-breaker', config: { volume_threshold: 1, tripped_duration: '5s' } }] }
  const traffic_policy = { value: JSON.stringify({ on_http_request: [rule] }) }
  const { get, sluice } = await startRoute(t, serve, { traffic_policy }, { clock })
  upstream.status = 500
  await get()
  t.equal(outcome(await get()), OPEN)
  clock.advance(5_000)
  upstream.status = 200
  const headers = { host: 'app.example.com' }
  const sent = request({ host: '127.0.0.1', port: sluice.port, path: '/stream', headers, agent: false }).end()
  const [head] = (await once(sent, 'response')) as [IncomingMessage]
  t.equal(outcome(await get()), '200', 'closed while the probe streams')
  streams[0]?.end()
  await once(head.resume(), 'end')
})
