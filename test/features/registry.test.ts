import t from 'tap'
import type { ModuleScope, ModuleUnits } from '../../src/features/contract.js'
import { modules } from '../../src/features/registry.js'
import { NO_UNITS } from '../../src/flow/flow.js'
import { type Cidr, CidrSet, parseCidr } from '../../src/lib/ip.js'
import { httpsEdgeRoute, tcpEdge } from '../../src/resources/edges.js'
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
  for (const name of names) t.ok((httpsEdgeRoute.modules as readonly string[]).includes(name), name)
})

t.test('what refuses goes before what spends, and what compresses after what writes', async (t) => {
  const at = (name: string) => modules.findIndex((one) => one.name === name)
  t.ok(at('ip_restriction') < at('user_agent_filter'))
  t.ok(at('user_agent_filter') < at('circuit_breaker'))
  t.ok(at('request_headers') < at('traffic_policy'))
  t.ok(at('circuit_breaker') < at('traffic_policy'))
  // Responses pass in reverse.
  t.ok(at('compression') < at('response_headers'))
  t.ok(at('response_headers') < at('traffic_policy'))
})

t.test('modules of TCP edges have a step for connections', async (t) => {
  const configs: Record<string, Record<string, unknown>> = {
    ip_restriction: { ip_policies: [] },
    traffic_policy: { policy: 'policy:x' }
  }
  for (const name of tcpEdge.modules.filter((one) => one !== 'backend')) {
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
