import t from 'tap'
import { parse } from 'yaml'
import { PolicyBench } from '../../src/capabilities/explain/running-lab.js'
import { actions } from '../../src/features/registry.js'
import { openGeo } from '../../src/lib/geo.js'
import { Kit } from './kit.js'

/** The examples of the reference: each policy is valid, runs its action, and decides its request as it says. */

const ready = actions.filter((action) => action.availability === 'ready')

t.test('every example is valid and uses its action', async (t) => {
  const kit = new Kit()
  for (const { type, example } of ready) {
    const { problems } = kit.compile(parse(example.policy) as object)
    t.same(
      problems.filter(({ severity }) => severity === 'error').map(({ message }) => message),
      [],
      type
    )
    t.ok(example.policy.includes(`type: ${type}\n`), type)
  }
})

t.test('every request of an example is decided as it says', async (t) => {
  const geo = await openGeo()
  const stub = { status: 200, headers: ['content-type', 'text/plain'], body: undefined }
  let asked = 0
  for (const { type, example } of ready) {
    const { policy: text, request, status } = example
    if (request === undefined || status === undefined) continue
    const bench = new PolicyBench({ geo, policy: { source: type, text }, random: Math.random, reveal: true })
    const made = bench.open({ now: Date.now(), stub, outside: () => undefined })
    if ('problems' in made) {
      t.fail(`${type}: ${JSON.stringify(made.problems)}`)
      continue
    }
    const [line = '', ...fields] = request.split('\n')
    const [method = '', path = ''] = line.split(' ')
    const { decision, steps } = await made.lab.ask({
      method,
      url: new URL(`http://www.example.com${path}`),
      headers: fields.flatMap((field) => field.split(': ')),
      version: '1.1',
      clientAddress: '192.0.2.7',
      clientPort: 40_000
    })
    t.equal(decision.status ?? 0, status, type)
    t.ok(JSON.stringify(steps).includes(`"${type}"`), `${type} ran`)
    asked++
  }
  t.ok(asked > 15)
})
