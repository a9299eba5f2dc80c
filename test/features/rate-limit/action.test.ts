import t from 'tap'
import { limitRules } from '../../../src/features/rate-limit/leases/cluster-limits.js'
import type { Flow } from '../../../src/flow/flow.js'
import { provide } from '../../../src/policy/services.js'
import { makeFlow } from '../../helpers/flow.js'
import { headersOf, Kit, outcomeOf } from '../kit.js'

const base = {
  name: 'per client',
  algorithm: 'sliding_window',
  capacity: 2,
  rate: '60s',
  bucket_key: ['conn.client_ip']
}

const from = (clientAddress: string) => makeFlow({ clientAddress })

function result(kit: Kit, flow: Flow) {
  return kit.read('actions.service.rate_limit', flow)
}

t.test('capacity requests pass, the next gets a bare 429 that tells when to come again', async (t) => {
  const kit = new Kit()
  const run = kit.action('rate-limit', base)
  t.equal(run(from('192.0.2.1')), undefined)
  kit.clock.now += 10_000
  t.equal(run(from('192.0.2.1')), undefined)
  kit.clock.now += 14_500
  const flow = from('192.0.2.1')
  const verdict = run(flow)
  t.same(verdict, { kind: 'respond', status: 429, code: 'RATE_LIMITED', headers: ['retry-after', '36'] })
  t.same(result(kit, flow), {
    bucket_key: '["192.0.2.1"]',
    limited: true,
    remaining: 0,
    reset_seconds: 46,
    capacity: 2,
    cost: 1,
    error: { code: '', message: '' }
  })
  t.equal(run(from('192.0.2.2')), undefined, 'another key has a bucket of its own')
  kit.clock.now += 36_000
  t.equal(run(from('192.0.2.1')), undefined, 'waiting as told is enough')
  t.same(kit.counts, { admitted: 4, refused: 1, wouldRefuse: 0 })
})

t.test('without enforcement everything passes, and the outcome is told and counted apart', async (t) => {
  const kit = new Kit()
  const run = kit.action('rate-limit', { ...base, capacity: 1, enforce: false })
  const limited = [1, 2, 3].map(() => {
    const flow = from('192.0.2.1')
    t.equal(run(flow), undefined)
    return kit.read('actions.ngrok.rate_limit.limited', flow)
  })
  t.same(limited, [false, true, true])
  t.same(kit.counts, { admitted: 1, refused: 0, wouldRefuse: 2 })
})

t.test('the key is the tuple of its values, without ambiguity', async (t) => {
  const kit = new Kit()
  const run = kit.action('rate-limit', {
    ...base,
    capacity: 1,
    bucket_key: ["getReqHeader('a').join('')", "getReqHeader('b').join('')"]
  })
  const tuple = (a: string, b: string) => makeFlow({ headers: ['a', a, 'b', b] })
  for (const [a, b] of [
    ['a', 'bc'],
    ['ab', 'c'],
    ['abc', ''],
    ['', 'abc'],
    ['a"', '"bc']
  ] as const) {
    t.equal(run(tuple(a, b)), undefined, `${a} ${b}`)
    t.equal(outcomeOf(run(tuple(a, b))), '429 RATE_LIMITED', `${a} ${b} again`)
  }
})

t.test('lists and texts of any length are keys', async (t) => {
  const kit = new Kit()
  const run = kit.action('rate-limit', { ...base, capacity: 1, bucket_key: ["req.headers['x-key']"] })
  const long = (last: string) => makeFlow({ headers: ['x-key', `${'k'.repeat(1_000_000)}${last}`] })
  t.equal(run(long('a')), undefined)
  t.equal(run(long('b')), undefined)
  t.equal(outcomeOf(run(long('a'))), '429 RATE_LIMITED')
})

t.test('values of one expression keep their types apart', async (t) => {
  const kit = new Kit()
  const source = "{'s': dyn('1'), 'i': dyn(1), 'b': dyn(b'1'), 'l': dyn(['1']), 'q': dyn('MQ==')}[getReqHeader('k')[0]]"
  const run = kit.action('rate-limit', { ...base, capacity: 1, bucket_key: [source] })
  for (const k of ['s', 'i', 'b', 'l', 'q']) {
    t.equal(run(makeFlow({ headers: ['k', k] })), undefined, k)
    t.equal(outcomeOf(run(makeFlow({ headers: ['k', k] }))), '429 RATE_LIMITED', `${k} again`)
  }
})

t.test('a key that fails is told, and its requests are limited together', async (t) => {
  const kit = new Kit()
  const run = kit.action('rate-limit', { ...base, bucket_key: ['conn.client_ip', "req.headers['x-api-key'][0]"] })
  const flow = from('192.0.2.1')
  t.equal(run(flow), undefined)
  t.match(result(kit, flow), {
    bucket_key: '["192.0.2.1","<error>"]',
    limited: false,
    error: { code: 'BUCKET_KEY_ABSENT', message: /^bucket_key\[1\]: / }
  })
  t.equal(run(from('192.0.2.1')), undefined)
  t.equal(outcomeOf(run(from('192.0.2.1'))), '429 RATE_LIMITED')
  t.equal(
    run(makeFlow({ clientAddress: '192.0.2.1', headers: ['x-api-key', '<error>'] })),
    undefined,
    'no client can say so'
  )
  const failing = kit.action('rate-limit', { ...base, name: 'failing', bucket_key: ["int(req.headers['x'][0])"] })
  const other = makeFlow({ headers: ['x', 'no number'] })
  t.equal(failing(other), undefined)
  t.equal(kit.read('actions.service.rate_limit.error.code', other), 'BUCKET_KEY_FAILED')
  t.notMatch(kit.read('actions.service.rate_limit.error.message', other), /no number/)
})

t.test('counts survive a new capacity, which applies at once, and nothing else', async (t) => {
  const kit = new Kit()
  const client = () => from('192.0.2.1')
  const run = kit.action('rate-limit', base)
  run(client())
  run(client())
  t.equal(outcomeOf(run(client())), '429 RATE_LIMITED')
  const raised = kit.action('rate-limit', { ...base, capacity: 3, rate: '1m0s' })
  t.equal(raised(client()), undefined)
  t.equal(outcomeOf(raised(client())), '429 RATE_LIMITED')
  t.equal(outcomeOf(kit.action('rate-limit', { ...base, capacity: 1 })(client())), '429 RATE_LIMITED')
  for (const changed of [{ name: 'other' }, { rate: '70s' }, { bucket_key: ['conn.client_ip + req.method'] }]) {
    t.equal(kit.action('rate-limit', { ...base, ...changed })(client()), undefined, JSON.stringify(changed))
  }
})

t.test('two equal actions of one document count apart', async (t) => {
  const kit = new Kit()
  const run = kit.actions([
    ['rate-limit', { ...base, capacity: 1, enforce: false }],
    ['rate-limit', { ...base, capacity: 1 }]
  ])
  t.equal(run(from('192.0.2.1')), undefined)
  t.equal(outcomeOf(run(from('192.0.2.1'))), '429 RATE_LIMITED')
  t.same(kit.counts, { admitted: 2, refused: 1, wouldRefuse: 1 })
})

t.test('the wall clock has no say', async (t) => {
  const kit = new Kit()
  const run = kit.action('rate-limit', { ...base, capacity: 1 })
  run(from('192.0.2.1'))
  for (const hours of [-1, 1]) {
    kit.clock.wall = () => Date.UTC(2026, 0, 2) + hours * 3_600_000
    t.equal(outcomeOf(run(from('192.0.2.1'))), '429 RATE_LIMITED')
  }
})

t.test('RateLimit fields of the draft are on every answer when asked for', async (t) => {
  const kit = new Kit('draft')
  const run = kit.action('rate-limit', { ...base, name: 'a "b" é' })
  const flow = from('192.0.2.1')
  run(flow)
  t.same(flow.responseFields, [
    ...['RateLimit-Policy', '"a \\"b\\" %C3%A9";q=2;w=60'],
    ...['RateLimit', '"a \\"b\\" %C3%A9";r=1;t=60']
  ])
  run(from('192.0.2.1'))
  kit.clock.now += 20_000
  const refused = from('192.0.2.1')
  t.same(headersOf(run(refused)), { 'retry-after': '40' })
  t.match(refused.responseFields?.[3], /;r=0;t=40$/)
  const silent = from('192.0.2.1')
  kit.action('rate-limit', { ...base, enforce: false })(silent)
  t.equal(silent.responseFields, undefined, 'a limit that is not enforced is not announced')
  const plain = from('192.0.2.1')
  new Kit().action('rate-limit', base)(plain)
  t.equal(plain.responseFields, undefined)
})

t.test('capacity, rate, name, algorithm and keys have exact bounds', async (t) => {
  const kit = new Kit('none', { more: [provide(limitRules, { scope: 'server', short_windows: false })] })
  const verdict = (change: object) => {
    const problems = kit.problems('rate-limit', { ...base, ...change })
    return problems.length === 0 ? 'ok' : problems.join('\n')
  }
  const good: readonly object[] = [
    ...[1, 2_000_000_000, '5', '2 * 3', 'double(7)', "req.method == 'GET' ? 10 : 5"].map((capacity) => ({ capacity })),
    ...[0, 1, 2, '0', '2', "size(req.headers['a'])"].map((cost) => ({ cost })),
    ...['60s', '1m', '1m0s', '70s', '1h30m', '24h', '86400s', '1h0m10s', '60000ms'].map((rate) => ({ rate })),
    { name: 'n'.repeat(1023) },
    { bucket_key: Array.from({ length: 10 }, () => 'conn.client_ip') },
    { enforce: false }
  ]
  for (const change of good) t.equal(verdict(change), 'ok', JSON.stringify(change).slice(0, 80))
  const bad: readonly (readonly [object, RegExp])[] = [
    ...[0, -1, 2_000_000_001, 1.5, '1.5', '0', '2 - 3', null].map(
      (capacity) => [{ capacity }, /^error CONFIG_INVALID .*capacity/] as const
    ),
    ...['59s', '50s', '65s', '24h10s', '25h', '59', 65, '', '1d', '-60s', '1.5m', '60s1m', '1m5s'].map(
      (rate) => [{ rate }, /^error CONFIG_INVALID .*rate/] as const
    ),
    ...[-1, 1.5, '1.5', '0 - 1', 2_000_000_001].map((cost) => [{ cost }, /^error CONFIG_INVALID .*cost/] as const),
    [{ cost: 3 }, /^error CONFIG_INVALID .*cost: `cost` is 3, more than `capacity` \(2\): no request would ever pass$/],
    [{ cost: '1 + 2' }, /`cost` is 3, more than/],
    [{ capacity: 'req.method' }, /^error EXPRESSION_TYPE .*capacity: .* of type string/],
    [{ cost: 'true' }, /^error EXPRESSION_TYPE .*cost: .* of type bool/],
    [{ cost: 'conn.client_ipp' }, /^error EXPRESSION_UNKNOWN .*cost/],
    [{ capacity: {} }, /capacity/],
    [{ name: '' }, /name/],
    [{ name: 'n'.repeat(1024) }, /name/],
    [{ name: undefined }, /name/],
    [{ algorithm: 'token_bucket' }, /sliding_window/],
    [{ algorithm: undefined }, /algorithm/],
    [{ bucket_key: [] }, /bucket_key/],
    [{ bucket_key: Array.from({ length: 11 }, () => 'conn.client_ip') }, /bucket_key/],
    [{ bucket_key: ['conn.client_ipp'] }, /^error EXPRESSION_UNKNOWN .*bucket_key\[0\]/],
    [{ bucket_key: [''] }, /bucket_key\[0\]/],
    [{ bucket_key: 'conn.client_ip' }, /bucket_key/],
    [{ bucket_key: [5] }, /bucket_key\[0\]` must be a CEL expression, not the number 5; put it in quotes/],
    [{ bucket_key: [true] }, /bucket_key\[0\]` must be a CEL expression, not true; put it in quotes/],
    [{ name: 5 }, /`name` must be a text, not the number 5; put it in quotes/],
    [{ burst: 1 }, /burst/]
  ]
  for (const [change, expected] of bad) t.match(verdict(change), expected, JSON.stringify(change).slice(0, 80))
  t.match(kit.problems('rate-limit', base, 'on_http_response'), [/^error ACTION_PHASE/])
})
