import t from 'tap'
import { actions } from '../../src/features/registry.js'
import { resultsOf } from '../../src/policy/action.js'
import { makeFlow } from '../helpers/flow.js'
import { Kit } from './kit.js'

const kit = new Kit()
const results = Object.entries(resultsOf(actions))

/** `identity` of `identity.email`, `client.san` and `client` of `client.san.uris`. */
function objectsOf(fields: Readonly<Record<string, string>>): string[] {
  const above = Object.keys(fields).flatMap((field) => {
    const names = field.split('.')
    return names.slice(0, -1).map((_, i) => names.slice(0, i + 1).join('.'))
  })
  return [...new Set(above)].filter((object) => !Object.hasOwn(fields, object))
}

t.test('no object of a result is there when nothing of it was published', async (t) => {
  let asked = 0
  for (const [name, fields] of results) {
    const flow = makeFlow()
    flow.publish(name, {})
    t.equal(kit.read(`has(actions.service.${name})`, flow), true, `${name} ran`)
    for (const object of objectsOf(fields)) {
      asked++
      t.equal(kit.read(`has(actions.service.${name}.${object})`, flow), false, `${name}.${object}`)
      t.equal(kit.read(`has(actions.ngrok.${name}['${object.replaceAll('.', "']['")}'])`, flow), false)
      t.throws(() => kit.read(`actions.service.${name}.${object}`, flow), { kind: 'absent' } as Error & {
        kind: string
      })
    }
  }
  t.ok(asked > 10)
})

t.test('an error is there when there was one, and reads as empty when there was none', async (t) => {
  const failing = results.filter(([, fields]) => Object.hasOwn(fields, 'error.code'))
  t.ok(failing.length > 5)
  for (const [name] of failing) {
    const path = `actions.service.${name}`
    const flow = makeFlow()
    flow.publish(name, { 'error.code': '', 'error.message': '' })
    t.equal(kit.read(`${path}.error.code`, flow), '', name)
    for (const asked of [`${path}.error`, `${path}.error.code`, `${path}['error']`, `${path}.error['code']`]) {
      t.equal(kit.read(`has(${asked})`, flow), false, asked)
    }
    flow.publish(name, { 'error.code': 'TIMEOUT', 'error.message': '' })
    t.equal(kit.read(`has(${path}.error) && has(${path}.error.code) && !has(${path}.error.message)`, flow), true, name)
  }
})
