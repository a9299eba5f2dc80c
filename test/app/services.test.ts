import t from 'tap'
import { offline, policyServices } from '../../src/app/services.js'
import { keySets } from '../../src/features/jwt/key-sources.js'
import { limiter } from '../../src/features/rate-limit/feature.js'
import { LimiterTable } from '../../src/features/rate-limit/limiter/table.js'
import { actions } from '../../src/features/registry.js'
import type { Flow } from '../../src/flow/flow.js'
import { systemClock } from '../../src/lib/clock.js'
import { compilePolicy } from '../../src/policy/compile.js'
import { type BaseServices, type PolicyServices, provide, serviceKey } from '../../src/policy/services.js'
import { outcomeOf } from '../features/kit.js'
import { makeFlow } from '../helpers/flow.js'

/** The run of one action on requests; it must compile. */
function compiled(services: PolicyServices, type: string, config: unknown) {
  const text = JSON.stringify({ on_http_request: [{ actions: [{ type, config }] }] })
  const keep = { keep: <T>(key: readonly unknown[], make: (identity: string) => T) => make(JSON.stringify(key)) }
  const { policy, problems } = compilePolicy(text, { owner: 'o', services, keep, actions, unavailable: 'refuse' })
  const phase = policy?.phases.on_http_request
  if (phase === undefined || phase === null) throw new Error(JSON.stringify(problems))
  return (flow: Flow) => phase.run(flow)
}

const limit = { name: 'n', algorithm: 'sliding_window', capacity: 1, rate: '60s', bucket_key: ['"one"'] }

t.test('what is provided is used, and one service cannot be provided twice', async (t) => {
  const table = new LimiterTable({ clock: systemClock, budgetBytes: 256 * 1024 })
  const services = policyServices(offline(actions), [provide(limiter, table)])
  t.equal(services.service(limiter), table)
  const run = compiled(services, 'rate-limit', limit)
  t.equal(run(makeFlow({})), undefined)
  t.equal(outcomeOf(await run(makeFlow({}))), '429 RATE_LIMITED')
  t.throws(() => policyServices(offline(actions), [provide(limiter, table), provide(limiter, table)]), {
    message: 'the service limiter is provided twice'
  })
})

t.test('a service that is not provided is made once, of the services that the language needs', async (t) => {
  const made: BaseServices[] = []
  const key = serviceKey('counted', (base) => made.push(base))
  const base = offline(actions)
  const services = policyServices(base)
  t.same([services.service(key), services.service(key)], [1, 1])
  t.same([made.length, made[0] === base], [1, true])
  t.equal(policyServices(offline(actions)).service(key), 2, 'others have their own')
  const [one, two] = [services.service(keySets), policyServices(offline(actions)).service(keySets)]
  t.not(one, two)
  t.equal(services.service(keySets), one)
})

t.test('documents compile without any service, and what they use then refuses', async (t) => {
  const services = policyServices(offline(actions))
  const counts = compiled(services, 'rate-limit', limit)
  t.throws(() => counts(makeFlow({})), { message: 'a document that is only checked counts no request' })
  const asks = compiled(services, 'http-request', { url: 'https://api.test/' })
  await t.rejects(async () => asks(makeFlow({})), { message: 'a document that is only checked makes no request' })
  const logsIn = compiled(services, 'oauth', { provider: 'github' })
  t.equal(outcomeOf(await logsIn(makeFlow({}))), '503 LOGIN_UNAVAILABLE')
})
