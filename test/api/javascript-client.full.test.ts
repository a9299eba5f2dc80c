import t from 'tap'
import { accountFamilies } from './reference/account-rows.js'
import { type JavascriptClient, javascript } from './reference/javascript.js'
import { keepingFamilies } from './reference/keeping-rows.js'
import { listedEndpoints, liveFamilies } from './reference/live-rows.js'
import type { Family } from './reference/rows.js'
import { prepareModules, runFamily, runModule, type Stage } from './reference/runner.js'
import { openStage } from './reference/stage.js'
import { moduleBefore, modules, trafficFamilies } from './reference/traffic-rows.js'

/** The client is older than cloud endpoints: it reads those of agents and edges. */
const endpoints: Family = {
  name: 'endpoints',
  path: '/endpoints',
  prefix: 'ep',
  list: 'endpoints',
  operations: ['get', 'list'],
  answer: listedEndpoints.ephemeral
}
const families = [...accountFamilies, ...keepingFamilies, ...trafficFamilies, ...liveFamilies].map((family) =>
  family.name === 'endpoints' ? endpoints : family
)

/** The client changes capitals in keys of maps, so it cannot name the backends of a weighted one. */
function withoutWeights(client: JavascriptClient, make: Stage['make']): JavascriptClient {
  return {
    ...client,
    async call(call) {
      const reply = await client.call(call)
      if (call.family !== 'weighted_backends' || call.verb !== 'create') return reply
      t.match(reply, { status: 400, json: { errorCode: 'ERR_SLUICE_REF_NOT_FOUND' } })
      return { status: 201, json: client.show(await make(call.path, call.body ?? {})) }
    }
  }
}

t.test('every call of the published JavaScript client works', async (t) => {
  const connected: JavascriptClient[] = []
  const opened = await openStage(t, (host, port) => {
    connected.push(javascript(host, port))
    return connected[0] as JavascriptClient
  })
  const [plain] = connected as [JavascriptClient]
  const client = withoutWeights(plain, opened.make)
  const stage: Stage = { ...opened, client }
  for (const family of families) {
    if (client.has(family.name)) await t.test(family.name, (t) => runFamily(t, stage, family))
  }
  const saved = await prepareModules(stage, moduleBefore)
  for (const module of modules) if (client.has(module.name)) await runModule(t, stage, module, saved)
  t.same(
    client.methods.filter((name) => !client.called.has(name)),
    [],
    'every method was called'
  )
  t.equal(client.called.size, 213, 'the newest version in the registry has so many methods')
  t.same(stage.faults, [])
})
