import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { API_KEY, startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { type ReceivedPoint, Receiver } from './receiver.js'

async function started(t: Test, options: Record<string, string> = {}) {
  const receiver = await Receiver.start(t)
  const origin = createServer((_, response) => response.end('yes')).listen(0, '127.0.0.1')
  await once(origin, 'listening')
  t.teardown(() => {
    origin.closeAllConnections()
    origin.close()
  })
  const sluice = await startSluice(t, {
    upstream: { port: (origin.address() as AddressInfo).port },
    options: { OTLP_ENDPOINT: receiver.url, OTLP_DELAY: '10ms', ...options }
  })
  const ask = async (path: string) => await (await fetch(`http://127.0.0.1:${sluice.port}${path}`)).text()
  const scrape = async () => {
    const headers = { authorization: `Bearer ${API_KEY}` }
    return await (await fetch(`http://127.0.0.1:${sluice.apiPort}/metrics`, { headers })).text()
  }
  const spans = async (result: string) =>
    Number(new RegExp(`^sluice_spans_total\\{result="${result}"\\} (\\d+)$`, 'm').exec(await scrape())?.[1] ?? 'NaN')
  return { receiver, sluice, ask, scrape, spans }
}

const said = (log: readonly Record<string, unknown>[], text: string) =>
  log.filter(({ msg }) => String(msg).startsWith(text))

for (const status of [429, 502, 503, 504]) {
  t.test(`a request is repeated after ${status}, as Retry-After asks`, async (t) => {
    const { receiver, sluice, ask, spans } = await started(t)
    receiver.answers.push({ status, headers: { 'retry-after': '0' } }, { status, headers: { 'Retry-After': '0' } })
    await ask('/')
    const received = await receiver.received(2)
    t.equal(receiver.turned, 2)
    t.equal(received.length, 2, 'once')
    await until(async () => (await spans('exported')) === 2)
    const lines = said(sluice.log, 'spans cannot be exported')
    t.match(lines, [{ reason: `status ${status}`, url: `${receiver.url}/v1/traces` }])
    t.equal(lines.length, 1, 'said once')
    t.equal(said(sluice.log, 'spans are exported again').length, 1)
  })
}

t.test('a request that is refused is not repeated', async (t) => {
  const { receiver, sluice, ask, spans } = await started(t)
  receiver.answers.push({ status: 400, body: 'no such tenant' })
  await ask('/')
  await until(async () => (await spans('refused')) === 2)
  t.same(receiver.spans, [])
  t.match(said(sluice.log, 'spans cannot be exported'), [{ reason: 'status 400', answer: 'no such tenant' }])
  await ask('/')
  await receiver.received(2)
})

t.test('what a receiver says it has not taken is counted, in both forms', async (t) => {
  const answers = {
    'http/json': JSON.stringify({ partialSuccess: { rejectedSpans: '1', errorMessage: 'too old' } }),
    'http/protobuf': Buffer.from([0x0a, 11, 0x08, 1, 0x12, 7, ...Buffer.from('too old')])
  }
  for (const [protocol, body] of Object.entries(answers)) {
    const { receiver, sluice, ask, spans } = await started(t, { OTLP_PROTOCOL: protocol })
    receiver.answers.push({ status: 200, body })
    await ask('/')
    await until(async () => (await spans('refused')) === 1)
    t.equal(await spans('exported'), 1)
    t.match(said(sluice.log, 'spans cannot be exported'), [{ answer: 'too old' }])
  }
})

t.test('an attempt has a deadline, and traffic does not wait for it', async (t) => {
  const { receiver, sluice, ask } = await started(t, { OTLP_TIMEOUT: '100ms' })
  receiver.answers.push('hang')
  t.equal(await ask('/'), 'yes')
  await until(() => said(sluice.log, 'spans cannot be exported').length === 1)
  t.match(said(sluice.log, 'spans cannot be exported'), [{ reason: 'TIMEOUT' }])
  await receiver.received(2)
})

t.test('the queue is bounded: what has no room is dropped, counted and said once', async (t) => {
  const { receiver, sluice, ask, spans } = await started(t, { OTLP_QUEUE: '64KiB' })
  receiver.answers.push('hang')
  const path = `/${'x'.repeat(8_000)}`
  for (let i = 0; i < 6; i++) t.equal(await ask(path), 'yes')
  await until(async () => (await spans('queue_full')) > 0)
  t.equal(said(sluice.log, 'spans are dropped').length, 1)
  await sluice.stop()
})

t.test('a stop sends what waits; what cannot be sent then holds up no stop', async (t) => {
  const lasting = await started(t, { OTLP_DELAY: '60s' })
  for (let i = 0; i < 20; i++) await lasting.ask(`/${i}`)
  t.same(lasting.receiver.spans, [])
  await lasting.sluice.stop()
  t.equal(lasting.receiver.spans.length, 40)

  const hanging = await started(t, { OTLP_DELAY: '60s' })
  hanging.receiver.answers.push('hang')
  await hanging.ask('/')
  const begun = performance.now()
  await hanging.sluice.stop()
  t.ok(performance.now() - begun < 4_000)
})

t.test('a receiver that is not there costs no request', async (t) => {
  const closed = createServer().listen(0, '127.0.0.1')
  await once(closed, 'listening')
  const { port } = closed.address() as AddressInfo
  closed.close()
  await once(closed, 'close')
  const { sluice, ask } = await started(t, { OTLP_TRACES_ENDPOINT: `http://127.0.0.1:${port}/v1/traces?key=hidden` })
  t.equal(await ask('/'), 'yes')
  await until(() => said(sluice.log, 'spans cannot be exported').length === 1)
  const [line] = said(sluice.log, 'spans cannot be exported')
  t.match(line, { reason: 'CONNECT_FAILED', url: `http://127.0.0.1:${port}/v1/traces` })
  t.notMatch(JSON.stringify(line), 'hidden')
})

for (const protocol of ['http/json', 'http/protobuf']) {
  t.test(`the numbers of /metrics, sent as ${protocol}`, async (t) => {
    const options = { OTLP_METRICS: 'on', OTLP_METRICS_INTERVAL: '1s', OTLP_TRACES: 'off', OTLP_PROTOCOL: protocol }
    const { receiver, sluice, ask } = await started(t, options)
    for (let i = 0; i < 3; i++) await ask('/')
    const points = () => receiver.requests.at(-1)?.points ?? []
    const find = (name: string) => points().find(({ metric }) => metric === name) as ReceivedPoint
    const duration = () => find('sluice_request_duration_seconds')
    await until(() => points().length > 0 && duration().value === 3)
    t.equal(receiver.requests[0]?.path, '/v1/metrics')
    t.match(
      points().find(({ metric, attributes }) => metric === 'sluice_requests_total' && attributes.status === '200'),
      { kind: 'sum', value: 3, cumulative: true }
    )
    t.match(duration(), { kind: 'histogram', cumulative: true })
    t.equal(duration().buckets.length, duration().bounds.length + 1)
    t.equal(
      duration().buckets.reduce((sum, count) => sum + count, 0),
      3
    )
    t.same(duration().bounds.slice(0, 2), [0.001, 0.0025])
    t.match(find('process_resident_memory_bytes'), { kind: 'gauge' })
    t.ok(find('process_resident_memory_bytes').value > 1_000_000)
    const before = receiver.requests.length
    await sluice.stop()
    t.ok(receiver.requests.length > before, 'the last numbers are sent at the stop')
    t.same(receiver.spans, [])
  })
}
