import t, { type Test } from 'tap'
import { type LimitRules, limitRules } from '../../../src/features/rate-limit/leases/cluster-limits.js'
import { actions } from '../../../src/features/registry.js'
import { confinedActions } from '../../../src/policy/action.js'
import { compilePolicy } from '../../../src/policy/compile.js'
import { provide } from '../../../src/policy/services.js'
import { makeFlow } from '../../helpers/flow.js'
import { headersOf, Kit, outcomeOf } from '../kit.js'

const config = (more: object) => ({
  name: 'n',
  algorithm: 'sliding_window',
  capacity: 2,
  bucket_key: ['"one"'],
  ...more
})

const kitWith = (rules: LimitRules) => new Kit('draft', { more: [provide(limitRules, rules)] })
const problemsOf = (kit: Kit, more: object) => kit.problems('rate-limit', config(more))
const on = (scope: LimitRules['scope'] = 'server') => kitWith({ scope, short_windows: true })
const off = () => kitWith({ scope: 'server', short_windows: false })

t.test('windows below a minute need the option, and a refusal names it', async (t) => {
  for (const rate of ['1s', '7s', '59s', '1000ms']) {
    t.same(problemsOf(on(), { rate }), [], rate)
    t.match(problemsOf(off(), { rate }), [
      /^error CONFIG_INVALID .*rate: `rate` must be from 1m to 24h, not \d+m?s; .* `limiter.short_windows: on`$/
    ])
    t.match(problemsOf(new Kit(), { rate }), [/^warning LIMIT_WINDOW_SHORT .*rate: .*limiter.short_windows: on/])
  }
  for (const kit of [on(), off(), new Kit()]) {
    t.same(problemsOf(kit, { rate: '70s' }), [])
    for (const rate of ['0s', '500ms', '1500ms', '65s', '24h10s'])
      t.match(problemsOf(kit, { rate }), [/^error CONFIG_INVALID .*rate/], rate)
  }
})

t.test('over a cluster a window has ten seconds or more, wherever the scope is from', async (t) => {
  const refused = /^error CONFIG_INVALID .*rate: `rate` must be 10s or more over a cluster, not 9s, .*`scope: server`/
  t.match(problemsOf(on(), { rate: '9s', scope: 'cluster' }), [refused])
  t.match(problemsOf(on('cluster'), { rate: '9s' }), [refused])
  t.same(problemsOf(on('cluster'), { rate: '9s', scope: 'server' }), [])
  t.same(problemsOf(on('cluster'), { rate: '10s' }), [])
})

t.test('a policy that an agent runs has no short window', async (t) => {
  const { problems } = compilePolicy(
    JSON.stringify({ on_http_request: [{ actions: [{ type: 'rate-limit', config: config({ rate: '5s' }) }] }] }),
    {
      owner: 'tunnel',
      services: new Kit().services,
      keep: { keep: (key, make) => make(JSON.stringify(key)) },
      actions: confinedActions(actions, 'agent'),
      unavailable: 'refuse'
    }
  )
  const [{ severity, message } = { severity: '', message: '' }] = problems
  t.equal(severity, 'error')
  t.match(message, /an agent has no option limiter.short_windows/)
})

function spends(t: Test, kit: Kit, rate: string, seconds: number): void {
  const run = kit.actions([['rate-limit', config({ rate })]])
  const take = () => {
    const flow = makeFlow()
    const outcome = run(flow)
    return { outcome: outcomeOf(outcome), headers: headersOf(outcome), fields: flow.responseFields }
  }
  t.equal(take().outcome, 'goes on')
  kit.clock.now += seconds * 500
  const second = take()
  t.equal(second.outcome, 'goes on')
  t.same(second.fields?.slice(0, 2), ['RateLimit-Policy', `"n";q=2;w=${seconds}`])
  const third = take()
  t.equal(third.outcome, '429 RATE_LIMITED')
  t.equal(third.headers['retry-after'], String(Math.ceil(seconds / 2)))
  kit.clock.now += seconds * 500 - 1
  t.equal(take().outcome, '429 RATE_LIMITED', 'one millisecond early')
  kit.clock.now += 1
  t.equal(take().outcome, 'goes on', 'the first has left the window')
  t.equal(take().outcome, '429 RATE_LIMITED')
}

for (const seconds of [1, 5, 7])
  t.test(`a window of ${seconds} s admits its capacity and no more`, async (t) => {
    spends(t, on(), `${seconds}s`, seconds)
  })
