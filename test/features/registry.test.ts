import t from 'tap'
import type { ModuleScope, ModuleUnits } from '../../src/features/contract.js'
import { actions, features, moduleRules, modules } from '../../src/features/registry.js'
import { NO_UNITS } from '../../src/flow/flow.js'
import { type Cidr, CidrSet, parseCidr } from '../../src/lib/ip.js'
import { confinedActions } from '../../src/policy/action.js'
import { httpsEdgeRoute } from '../../src/resources/edges.js'
import { tlsEdge } from '../../src/resources/tls-edges.js'
import { Metrics } from '../../src/telemetry/metrics.js'
import { makeFlow } from '../helpers/flow.js'
import { Kit, outcomeOf } from './kit.js'

const kit = new Kit()
const scope: ModuleScope = {
  owner: 'route_1',
  services: kit.services,
  service: kit.services.service,
  keep: (key, make) => make(JSON.stringify(key)),
  secret: () => undefined
}

function compiled(name: string, config: Record<string, unknown>) {
  const definition = modules.find((one) => one.name === name)
  if (definition === undefined) throw new Error(`no module ${name}`)
  return definition.compile(config, scope)
}

t.test('the registry has only modules that the API knows, each once', async (t) => {
  const names = modules.map(({ name }) => name)
  t.equal(new Set(names).size, names.length)
  const known = new Set([...httpsEdgeRoute.modules, ...tlsEdge.modules])
  for (const name of names) t.ok(known.has(name), name)
})

t.test('what refuses goes before what spends, and what compresses after what writes', async (t) => {
  const at = (name: string) => modules.findIndex((one) => one.name === name)
  t.ok(at('ip_restriction') < at('user_agent_filter'))
  t.ok(at('ip_restriction') < at('tls_termination'))
  t.ok(at('tls_termination') < at('traffic_policy'))
  t.ok(at('user_agent_filter') < at('circuit_breaker'))
  t.ok(at('request_headers') < at('traffic_policy'))
  t.ok(at('circuit_breaker') < at('traffic_policy'))
  // Responses pass in reverse.
  t.ok(at('compression') < at('response_headers'))
  t.ok(at('response_headers') < at('traffic_policy'))
})

t.test('modules that exclude each other cannot be enabled together, whichever is given', async (t) => {
  const found = moduleRules('https')
  t.same(
    found.map(({ on }) => on),
    [
      ['oauth', 'saml'],
      ['oauth', 'oidc'],
      ['saml', 'oidc']
    ]
  )
  const rule = found[1]
  if (rule === undefined) throw new Error('no module excludes another')
  const reported = (oauth: unknown, oidc: unknown, given: string) => {
    const found: unknown[] = []
    const report = (name: string, code: string, message: string) => void found.push([name, code, message])
    const rest = { before: undefined, secret: () => undefined, report, checkPolicy: () => undefined }
    rule.check({ body: { oauth, oidc }, given: new Set([given]), ...rest })
    return found
  }
  const [on, off] = [{ enabled: true }, { enabled: false }]
  const message = 'only one of oauth and oidc can be enabled'
  t.same(reported(on, on, 'oidc'), [['oidc', 'CONFLICTING_FIELDS', message]])
  t.same(reported(on, on, 'oauth'), [['oauth', 'CONFLICTING_FIELDS', message]])
  for (const [oauth, oidc] of [
    [on, off],
    [off, on],
    [on, null],
    [null, on],
    [null, null]
  ]) {
    t.same(reported(oauth, oidc, 'oidc'), [])
  }
})

t.test('an exclusion of a module that does not exist is a defect of its feature', async (t) => {
  const module = modules.find(({ name }) => name === 'compression')
  if (module === undefined) throw new Error('no module compression')
  const excluding = (other: string) => () => moduleRules('https', [{ ...module, excludes: [other] }])
  t.throws(excluding('gone'), { message: 'the module compression excludes gone, which no feature has' })
  t.same(moduleRules('tcp'), [])
})

t.test('modules of TCP and TLS edges have a step for connections', async (t) => {
  const configs: Record<string, Record<string, unknown>> = {
    ip_restriction: { ip_policies: [] },
    tls_termination: { min_version: '1.2' },
    traffic_policy: { policy: 'policy:x' }
  }
  const planned = modules.filter(({ on }) => on.includes('tcp') || on.includes('tls')).map(({ name }) => name)
  t.same(planned, ['ip_restriction', 'tls_termination', 'traffic_policy'])
  for (const name of planned) {
    t.type(compiled(name, configs[name] ?? {}).connect, 'function', name)
  }
})

t.test('a connection whose address is not allowed is closed', async (t) => {
  const { connect } = compiled('ip_restriction', { ip_policies: ['ipp_1'] })
  const allow = new CidrSet([parseCidr('192.0.2.0/24') as Cidr])
  const units: ModuleUnits = {
    ...NO_UNITS,
    ipPolicy: (id) => (id === 'ipp_1' ? { allow, deny: new CidrSet([]) } : undefined),
    policy: () => undefined
  }
  const connecting = (clientAddress: string) => {
    const verdict = connect?.(makeFlow({ clientAddress, request: false }), units)
    if (verdict instanceof Promise) throw new Error('the step waits')
    return outcomeOf(verdict)
  }
  t.equal(connecting('192.0.2.1'), 'goes on')
  t.equal(connecting('::ffff:192.0.2.1'), 'goes on')
  t.equal(connecting('198.51.100.1'), 'close')
  t.equal(connecting('fe80::1%eth0'), 'close', 'an address with a zone is in no network')
})

t.test('header edits that would break a message are left out and told', async (t) => {
  const { request } = compiled('request_headers', {
    add: { 'content-length': '5', connection: 'close', host: 'not a host', 'x-long': 'a\r\nb: c', 'x-good': 'yes' },
    remove: ['transfer-encoding', 'host', 'x-gone']
  })
  const flow = makeFlow({ headers: ['X-Gone', '1', 'Host', 'app.example.com'] })
  request?.(flow, undefined as unknown as ModuleUnits)
  t.same(flow.request?.headers.list, ['Host', 'app.example.com', 'x-good', 'yes'])
  t.match(kit.logged.at(-1), /content-length.*connection.*host|leftOut/)
})

t.test('every feature says in one sentence what it does, and its fields and metrics say what they tell', async (t) => {
  const sentence = /^[A-Z][^\n]{15,120}\.$/
  t.equal(new Set(features.map(({ summary }) => summary)).size, features.length)
  for (const { name, summary, eventFields, metrics = [] } of features) {
    t.match(summary, sentence, name)
    const fields = { ...eventFields?.http, ...eventFields?.connection }
    for (const [path, { description }] of Object.entries(fields)) t.ok(description.length > 15, path)
    for (const metric of metrics) t.match([metric.name, metric.help], [/^sluice_[a-z_]+$/, /^[A-Z].*\.$/])
  }
})

t.test('what agents cannot use is refused there by name, with the reason of its feature', async (t) => {
  const inAgent = new Map(confinedActions(actions, 'agent').map((action) => [action.type, action]))
  const outside = features.filter(({ notInAgent }) => notInAgent !== undefined)
  t.same(outside.map(({ name }) => name).sort(), ['forward-internal', 'login', 'terminate-tls', 'waf'])
  for (const { notInAgent, actions: own = [] } of outside) {
    for (const { type } of own) t.match(inAgent.get(type), { availability: 'unsupported', reason: notInAgent })
  }
  t.match(inAgent.get('rate-limit'), { availability: 'ready' })
})

t.test('metrics of features count with their labels and read their services', async (t) => {
  const metrics = new Metrics()
  const [counter] = features.flatMap(({ metrics: declared = [] }) => declared.filter(({ kind }) => kind === 'counter'))
  if (counter?.kind !== 'counter') throw new Error('no feature declares a counter')
  metrics.policy.counter(counter, { owner: 'o', name: 'n', result: 'admitted' }).inc()
  metrics.observe(kit.services)
  const text = await metrics.registry.metrics()
  t.match(text, /^sluice_rate_limit_total\{owner="o",name="n",result="admitted"\} 1$/m)
  t.match(text, /^sluice_limiter_reserved_bytes [1-9]\d*$/m)
  t.throws(() => metrics.policy.counter({ ...counter }, {}), {
    message: 'the metric sluice_rate_limit_total is declared by no feature'
  })
})
