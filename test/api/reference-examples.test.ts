import t from 'tap'
import { accountFamilies } from './reference/account-rows.js'
import { keepingFamilies } from './reference/keeping-rows.js'
import { filled } from './reference/kinds.js'
import { liveFamilies } from './reference/live-rows.js'
import { published, runFamilies } from './reference/published.js'
import { operationsOf, operationsOfModule } from './reference/runner.js'
import { openStage } from './reference/stage.js'
import { modules, trafficFamilies } from './reference/traffic-rows.js'

t.test('every published request for identities, addresses and events gets the published answer', async (t) => {
  await runFamilies(t, await openStage(t, published), [...accountFamilies, ...keepingFamilies])
})

t.test('the table has every operation of the reference', async (t) => {
  const families = [...accountFamilies, ...keepingFamilies, ...trafficFamilies, ...liveFamilies]
  const operations = [...families.flatMap(operationsOf), ...modules.flatMap(operationsOfModule)]
  t.equal(new Set(operations).size, 247, '241 operations of its clients, and 6 of Kubernetes operators')
})

/** Requests that are refused, as docs/migration.md lists them. */
const REFUSED: readonly (readonly [method: 'POST' | 'PATCH' | 'PUT', path: string, body: object, status: number])[] = [
  ['PATCH', '/reserved_domains/$domain', { http_endpoint_configuration_id: 'ec_1' }, 400],
  ['PATCH', '/reserved_domains/$domain', { https_endpoint_configuration_id: 'ec_1' }, 400],
  ['PATCH', '/reserved_addrs/$address', { endpoint_configuration_id: 'ec_1' }, 400],
  ['POST', '/endpoints', { type: 'cloud', url: 'https://a.test', traffic_policy: '{}', bindings: ['kubernetes'] }, 400],
  ['PUT', '/edges/tcp/$edge/policy', { enabled: true }, 404]
]

t.test('what is refused says why, and zero values of it are accepted', async (t) => {
  const { client, make } = await openStage(t, published)
  const saved = new Map([
    ['domain', await make('/reserved_domains', { domain: 'a.test' })],
    ['address', await make('/reserved_addrs', {})],
    ['edge', await make('/edges/tcp', {})]
  ])
  for (const [method, path, body, status] of REFUSED) {
    const { json } = await client.call({ family: '', verb: '', method, path: filled(path, saved), body: { ...body } })
    t.match(json, { status_code: status, error_code: /^ERR_SLUICE_/, msg: /./ }, `${method} ${path}`)
    if (method !== 'PATCH') continue
    for (const zero of ['', null]) {
      const unset = Object.fromEntries(Object.keys(body).map((name) => [name, zero]))
      const answer = await client.call({ family: '', verb: '', method, path: filled(path, saved), body: unset })
      t.equal(answer.status, 200, `${path} ${JSON.stringify(unset)}`)
    }
  }
})
