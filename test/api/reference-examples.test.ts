import t from 'tap'
import { accountFamilies } from './reference/account-rows.js'
import { keepingFamilies } from './reference/keeping-rows.js'
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
