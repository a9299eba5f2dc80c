import t from 'tap'
import type { Flow } from '../../../src/flow/flow.js'
import { makeFlow } from '../../helpers/flow.js'
import { headersOf, Kit, outcomeOf } from '../kit.js'

const base = { volume_threshold: 4, error_threshold: 0.5, window_duration: '10s', tripped_duration: '5s' }

type Answer = number | 'gone' | { readonly code: string; readonly status?: number }

/** One exchange through `run`: what the action said, and what it published. */
function exchange(kit: Kit, run: ReturnType<Kit['action']>, answer: Answer): string {
  const flow = makeFlow(answered(answer))
  const outcome = outcomeOf(run(flow))
  flow.end()
  return `${outcome}, ${kit.read('actions.service.circuit_breaker.decision', flow)}`
}

function answered(answer: Answer) {
  if (answer === 'gone') return {}
  if (typeof answer === 'number') return { response: { status: answer } }
  const { code, status = 502 } = answer
  return { response: { status, local: true, headers: ['sluice-error-code', code] } }
}

t.test('it refuses while the upstream fails too often, and lets one request try', async (t) => {
  const kit = new Kit()
  const run = kit.action('circuit-breaker', base)
  for (const status of [200, 404, 500]) t.equal(exchange(kit, run, status), 'goes on, allow')
  t.equal(exchange(kit, run, 503), 'goes on, allow', 'two of four failed')
  kit.clock.now += 3_500
  const refused = makeFlow()
  const verdict = run(refused)
  t.same(verdict, { kind: 'respond', status: 503, code: 'CIRCUIT_OPEN', headers: ['retry-after', '2'] })
  t.same(headersOf(verdict), { 'retry-after': '2' })
  t.equal(kit.read('actions.ngrok.circuit_breaker.decision', refused), 'block')
  kit.clock.now += 1_500
  const probe = makeFlow({ response: { status: 200 } })
  t.equal(run(probe), undefined)
  t.equal(kit.read('actions.service.circuit_breaker.decision', probe), 'allow_while_open')
  t.equal(exchange(kit, run, 200), '503 CIRCUIT_OPEN, block', 'while the probe is under way')
  probe.end()
  t.equal(exchange(kit, run, 200), 'goes on, allow')
  t.match(kit.logged, [/opened/, /closed/])
})

t.test('failures are those of the upstream, not answers of our own', async (t) => {
  const own: Answer[] = [
    { code: 'DENIED', status: 503 },
    { code: 'NO_UPSTREAM', status: 503 },
    { code: 'NO_TUNNEL', status: 503 },
    { code: 'POLICY_EXPRESSION', status: 500 },
    { code: 'CIRCUIT_OPEN', status: 503 },
    { code: '', status: 500 },
    'gone',
    499
  ]
  for (const answer of own) {
    const kit = new Kit()
    const run = kit.action('circuit-breaker', { ...base, volume_threshold: 1, error_threshold: 0 })
    for (let i = 0; i < 5; i++) t.equal(exchange(kit, run, answer), 'goes on, allow', JSON.stringify(answer))
  }
  const upstream: Answer[] = [
    500,
    599,
    { code: 'UPSTREAM_REFUSED' },
    { code: 'UPSTREAM_CONNECT_TIMEOUT', status: 504 },
    { code: 'UPSTREAM_TLS' },
    { code: 'UPSTREAM_MALFORMED' },
    { code: 'UPSTREAM_TIMEOUT', status: 504 },
    { code: 'UPSTREAM_GONE' }
  ]
  for (const answer of upstream) {
    const kit = new Kit()
    const run = kit.action('circuit-breaker', { ...base, volume_threshold: 1 })
    t.equal(exchange(kit, run, answer), 'goes on, allow')
    t.equal(exchange(kit, run, 200), '503 CIRCUIT_OPEN, block', JSON.stringify(answer))
  }
})

t.test('a probe whose client leaves makes room for the next', async (t) => {
  const kit = new Kit()
  const run = kit.action('circuit-breaker', { ...base, volume_threshold: 1 })
  exchange(kit, run, 500)
  kit.clock.now += 5_000
  t.equal(exchange(kit, run, 'gone'), 'goes on, allow_while_open')
  t.equal(exchange(kit, run, 200), 'goes on, allow_while_open')
  t.equal(exchange(kit, run, 200), 'goes on, allow')
})

t.test('without enforcement it finds out and refuses nobody', async (t) => {
  const kit = new Kit()
  const run = kit.action('circuit-breaker', { ...base, volume_threshold: 1, enforce: false })
  t.equal(exchange(kit, run, 500), 'goes on, allow')
  for (let i = 0; i < 3; i++) t.equal(exchange(kit, run, 200), 'goes on, allow_while_open')
  kit.clock.now += 5_000
  t.equal(exchange(kit, run, 200), 'goes on, allow_while_open', 'the probe')
  t.equal(exchange(kit, run, 200), 'goes on, allow')
})

t.test('it works without a configuration, with the defaults of the reference', async (t) => {
  const kit = new Kit()
  const run = kit.action('circuit-breaker')
  for (let i = 0; i < 5; i++) exchange(kit, run, 200)
  for (let i = 0; i < 5; i++) t.equal(exchange(kit, run, 500), 'goes on, allow')
  t.equal(exchange(kit, run, 200), '503 CIRCUIT_OPEN, block', 'five of ten')
  kit.clock.now += 9_999
  t.equal(exchange(kit, run, 200), '503 CIRCUIT_OPEN, block')
  kit.clock.now += 1
  t.equal(exchange(kit, run, 200), 'goes on, allow_while_open')
})

t.test('its state outlives what leaves the window alone', async (t) => {
  const kit = new Kit()
  const open = (run: (flow: Flow) => unknown) => outcomeOf(run(makeFlow()) as never) === '503 CIRCUIT_OPEN'
  exchange(kit, kit.action('circuit-breaker', { ...base, volume_threshold: 1 }), 500)
  t.ok(open(kit.action('circuit-breaker', { ...base, volume_threshold: 1 })), 'nothing changed')
  t.ok(open(kit.action('circuit-breaker', { ...base, volume_threshold: 7, error_threshold: 1 })), 'other thresholds')
  t.ok(
    open(
      kit.actions([
        ['add-headers', { headers: { a: 'b' } }],
        ['circuit-breaker', base]
      ])
    ),
    'another action'
  )
  t.notOk(open(kit.action('circuit-breaker', { ...base, num_buckets: 9 })), 'other buckets')
  t.notOk(open(kit.action('circuit-breaker', { ...base, window_duration: '11s' })), 'another window')
})

t.test('what the configuration may be', async (t) => {
  const kit = new Kit()
  t.same(kit.problems('circuit-breaker', { ...base, num_buckets: 128, enforce: false }), [])
  for (const config of [
    { error_threshold: 1.1 },
    { error_threshold: -0.1 },
    { volume_threshold: 0 },
    { window_duration: '121s' },
    { tripped_duration: '500ms' },
    { num_buckets: 129 },
    { num_buckets: 0 },
    { rolling_window: 10 }
  ]) {
    t.match(kit.problems('circuit-breaker', config), [/^error CONFIG_INVALID/], JSON.stringify(config))
  }
  t.match(kit.problems('circuit-breaker', base, 'on_http_response'), [/^error ACTION_PHASE/])
})
