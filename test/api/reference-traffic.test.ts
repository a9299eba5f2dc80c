import t from 'tap'
import { mismatch } from './reference/kinds.js'
import { listedEndpoints, liveFamilies } from './reference/live-rows.js'
import { published, runFamilies } from './reference/published.js'
import { operationsOfModule, prepareModules, runModule } from './reference/runner.js'
import { openStage } from './reference/stage.js'
import { moduleBefore, modules, trafficFamilies } from './reference/traffic-rows.js'

t.test('every published request for backends, edges, endpoints and agents gets the published answer', async (t) => {
  await runFamilies(t, await openStage(t, published), [...trafficFamilies, ...liveFamilies])
})

t.test('every published module gets the published answer', async (t) => {
  const stage = await openStage(t, published)
  const saved = await prepareModules(stage, moduleBefore)
  for (const module of modules) await runModule(t, stage, module, saved)
  t.same([...stage.done].sort(), modules.flatMap(operationsOfModule).sort(), 'every operation ran')
})

t.test('endpoints of agents and edges are listed as published', async (t) => {
  const { client, base, make } = await openStage(t, published)
  await make('/edges/tls', { hostports: ['tls.example.com:443'] })
  const call = { family: 'endpoints', verb: 'list', method: 'GET', path: '/endpoints' } as const
  const items = await client.list(call, 'endpoints', false)
  const context = { base, prefix: 'ep', path: '/endpoints', saved: new Map() }
  for (const [type, spec] of Object.entries(listedEndpoints)) {
    const item = items.find((one) => one.type === type)
    t.equal(mismatch(spec, item, context, type), undefined)
  }
})

t.test('an endpoint for tcp names its reserved address', async (t) => {
  const { client, base, make } = await openStage(t, published)
  const address = await make('/reserved_addrs', { addr: 'tcp.example.com:20001' })
  const other = await make('/reserved_addrs', { addr: 'tcp.example.com:20002' })
  const traffic_policy = '{"on_tcp_connect":[{"actions":[{"type":"deny"}]}]}'
  await make('/endpoints', { type: 'cloud', url: 'tcp://tcp.example.com:20001', traffic_policy })
  await make('/edges/tcp', { hostports: ['tcp.example.com:20002'] })
  const call = { family: 'endpoints', verb: 'list', method: 'GET', path: '/endpoints' } as const
  const items = await client.list(call, 'endpoints', false)
  const saved = new Map([
    ['address', address],
    ['other', other]
  ])
  const context = { base, prefix: 'ep', path: '/endpoints', saved }
  for (const [type, tcp_addr] of [
    ['cloud', ':ref $address'],
    ['edge', ':ref $other']
  ]) {
    const item = items.find((one) => one.type === type)
    t.equal(mismatch({ tcp_addr, domain: null, scheme: 'tcp' }, item, context, type), undefined)
  }
})
