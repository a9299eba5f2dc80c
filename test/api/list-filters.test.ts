import t, { type Test } from 'tap'
import { nestedLists } from '../../src/api/resource-routes.js'
import { resources } from '../../src/resources/registry.js'
import type { Resource } from '../../src/resources/resource.js'
import { ManualClock } from '../helpers/clock.js'
import { bodies } from '../resources/bodies.js'
import { BASE, make, openAccount } from './account.js'
import { type Ask, word } from './asking.js'
import { Samples } from './conformance.js'
import { filtered } from './filtered.js'

type Item = Readonly<Record<string, unknown>>

const listed = resources.filter(({ operations }) => operations.includes('list'))

/** Number of fields that one filter compares, so that it stays short enough. */
const AT_ONCE = 12

/** The condition that a field has this value, in CEL. */
function condition(name: string, value: unknown): string {
  const field = `obj.${name}`
  if (value === null) return `${field} == null`
  if (typeof value === 'object') return `${field} != null && size(${field}) == ${Object.keys(value).length}`
  const isTime = typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:]+Z$/.test(value)
  return isTime ? `timestamp(string(${field})) == timestamp("${value}")` : `${field} == ${JSON.stringify(value)}`
}

/** The same condition over a JSON object. */
function isMet(name: string, value: unknown, item: Item): boolean {
  const own = item[name]
  if (typeof value !== 'object' || value === null) return own === value
  return typeof own === 'object' && own !== null && Object.keys(own).length === Object.keys(value).length
}

t.test('every list takes a filter over each field of its objects', async (t) => {
  const { ask, faults } = await openAccount(t, { clock: new ManualClock() })
  const samples = new Samples(ask)
  for (const resource of listed) {
    await t.test(resource.name, async (t) => {
      if (resource.operations.includes('create')) await sample(resource, samples)
      await filtersEachField(t, ask, resource.path, resource.listKey)
    })
  }
  for (const { parent, child, nested } of nestedLists(resources)) {
    await t.test(`${parent.name}/${nested.name}`, async (t) => {
      const [{ id }] = (await ask(parent.path)).json[parent.listKey]
      await filtersEachField(t, ask, `${parent.path}/${id}/${nested.name}`, child.listKey)
    })
  }
  t.same(faults, [])
})

async function sample(resource: Resource, samples: Samples) {
  const path = await samples.collection(resource)
  await make(samples.ask, path, await samples.real(bodies[resource.name]?.full ?? {}))
}

async function filtersEachField(t: Test, ask: Ask, path: string, key: string) {
  const items = (await ask(path)).json[key] as readonly Item[]
  const fields = Object.entries(items[0] ?? {})
  for (let from = 0; from < fields.length; from += AT_ONCE) {
    const some = fields.slice(from, from + AT_ONCE)
    const filter = some.map(([name, value]) => condition(name, value)).join(' && ')
    const answer = await ask(filtered(path, filter))
    t.equal(answer.status, 200, answer.text)
    t.same(
      answer.json[key].map(({ id }: Item) => id),
      items.filter((item) => some.every(([name, value]) => isMet(name, value, item))).map(({ id }) => id),
      filter
    )
    t.equal(answer.json.uri, `${BASE}${path}`)
  }
  const refused = await ask(filtered(path, 'obj.id == "a" && obj.surely_unknown == 1'))
  t.equal(word(t, refused), 'FILTER_INVALID')
  t.match(refused, { status: 400, json: { details: { field: 'filter', position: '18' } } })
}
