import type { Test } from 'tap'
import type { TSchema } from 'typebox'
import Schema from 'typebox/schema'
import { resources } from '../../src/resources/registry.js'
import type { Resource } from '../../src/resources/resource.js'
import { listSchema, moduleSchemas, responseSchema } from '../../src/schema/json-schema.js'
import { ManualClock } from '../helpers/clock.js'
import { type Bodies, bodies, MARK } from '../resources/bodies.js'
import { BASE, make, openAccount, pathIn } from './account.js'
import { type Answer, type Ask, word } from './asking.js'

/** Where the ids of the sample bodies begin; the number is behind the zeros. */
const PLACEHOLDER = /^([a-z]+)_0{20,}(\d)$/
const fits = (schema: TSchema, value: unknown) => Schema.Check(schema as never, value as never)
const writable = resources.filter(({ operations }) => operations.includes('create'))

/** Every rule that a declaration makes, seen from a client, for every resource; over the store at `address`. */
export async function conformance(t: Test, address: string): Promise<void> {
  const { ask, faults } = await openAccount(t, { address, clock: new ManualClock() })
  const samples = new Samples(ask)
  for (const resource of writable) {
    await t.test(`${resource.name} over HTTP`, (t) => conforms(t, resource, samples))
  }
  await t.test('what is only read has lists and no writes', (t) => onlyRead(t, ask))
  t.same(faults, [], 'nothing of all this was a fault of the service')
}

async function conforms(t: Test, resource: Resource, samples: Samples) {
  const sample = bodies[resource.name]
  if (sample === undefined) return t.fail('there are no bodies for it')
  const { ask } = samples
  const path = await samples.collection(resource)
  const full = await samples.real(sample.full)
  const change = await samples.real(sample.change)
  await refusedCreations(t, ask, resource, path, full)
  const created = await creation(t, ask, resource, path, full)
  const item = pathIn(created.uri)
  await refusedUpdates(t, ask, resource, item, change)
  await lifecycle(t, ask, resource, item, change)
  if (resource.operations.includes('list')) await listing(t, ask, resource, path, item)
  await modulesOf(t, ask, resource, item, { full, change })
  await deletion(t, ask, resource, path, item)
  return undefined
}

/** The sample bodies with ids of records that are there. */
export class Samples {
  readonly ask: Ask
  readonly #known = new Map<string, Promise<string>>()
  #parents = 0

  constructor(ask: Ask) {
    this.ask = ask
  }

  async real<V>(value: V): Promise<V & Record<string, unknown>> {
    return (await this.#replace(value)) as V & Record<string, unknown>
  }

  /** Path of the collection; below a parent of its own. */
  async collection({ path }: Resource): Promise<string> {
    if (!path.includes('{edge_id}')) return path
    const { id } = await make(this.ask, '/edges/https', { description: `parent ${++this.#parents}` })
    return path.replace('{edge_id}', id)
  }

  async #replace(value: unknown): Promise<unknown> {
    if (typeof value === 'string') {
      const [, prefix, number] = PLACEHOLDER.exec(value) ?? []
      return prefix === undefined || number === undefined ? value : await this.#idFor(prefix, number)
    }
    if (Array.isArray(value)) return await Promise.all(value.map((entry) => this.#replace(entry)))
    if (typeof value !== 'object' || value === null) return value
    const entries = Object.entries(value).map(async ([key, inner]) => {
      return [await this.#replace(key), await this.#replace(inner)]
    })
    return Object.fromEntries(await Promise.all(entries))
  }

  /** What the samples refer to, made when it is first asked for. */
  #idFor(prefix: string, number: string): Promise<string> {
    const key = `${prefix}${number}`
    const made = this.#known.get(key) ?? this.#make(prefix, number)
    this.#known.set(key, made)
    return made
  }

  async #make(prefix: string, number: string): Promise<string> {
    // Users are no resource: the owner of what is made without an owner is one.
    if (prefix === 'usr') return (await make(this.ask, '/api_keys')).owner_id
    const resource = writable.find(({ idPrefix }) => idPrefix === prefix)
    if (resource === undefined) throw new Error(`nothing has the prefix ${prefix}`)
    const body = await this.real(bodies[resource.name]?.full ?? {})
    const named = 'name' in body ? { ...body, name: `${prefix}-${number}` } : body
    return (await make(this.ask, await this.collection(resource), named)).id
  }
}

async function refusedCreations(t: Test, ask: Ask, resource: Resource, path: string, full: object) {
  const post = (body: unknown, query = '') => ask(`${path}${query}`, { method: 'POST', body })
  const unknown = await post({ ...full, surely_unknown: 1 })
  t.match(unknown, { status: 400, json: { details: { field: 'surely_unknown' } } })
  t.equal(word(t, unknown), 'FIELD_UNKNOWN')
  for (const body of [null, [], [full], '"text"', 7]) {
    t.equal(word(t, await post(body)), 'FIELD_INVALID', JSON.stringify(body).slice(0, 20))
  }
  for (const [name, field] of Object.entries(resource.fields)) {
    const key = field.requestName(name)
    if (field.request === undefined || !['always', 'create'].includes(field.settable)) continue
    const wrong = await post({ ...full, [key]: { surely_unknown: 7.5 } })
    t.equal(wrong.status, 400, `${key} must not be an odd object`)
    t.match(wrong.json.details.field, key)
    if (!field.required) continue
    const { [key as keyof typeof full]: _, ...rest } = full
    t.equal(word(t, await post(rest)), 'FIELD_REQUIRED', key)
  }
  t.equal((await post(full, '?dry_run=true')).json.status_code, 201, 'a dry run finds nothing wrong')
}

async function creation(t: Test, ask: Ask, resource: Resource, path: string, full: object): Promise<Answer['json']> {
  const answer = await ask(path, { method: 'POST', body: full })
  t.equal(answer.status, 201, answer.text)
  const { json, headers } = answer
  const schema = responseSchema(resource)
  t.ok(fits(schema, json), 'the answer is as its schema says')
  const keys = Object.keys((schema as unknown as { properties: object }).properties)
  t.same(Object.keys(json).sort(), keys.sort(), 'and has no key that the schema lacks')
  t.ok(String(json.id).startsWith(`${resource.idPrefix}_`))
  t.equal(json.uri, `${resource.relativeUri === true ? '' : BASE}${path}/${json.id}`)
  t.equal(headers.location, json.uri)
  t.match(headers.etag, /^"\d+"$/)
  const got = await ask(pathIn(json.uri))
  t.equal(got.headers.etag, headers.etag)
  const withoutToken = 'token' in json ? { ...json, token: null } : json
  t.same(got.json, withoutToken, 'reading gives what the creation gave, without the token')
  if ('token' in json) t.match(json.token, /^[0-9A-Za-z]{27}_[0-9a-f]{64}$/)
  return json
}

async function refusedUpdates(t: Test, ask: Ask, resource: Resource, item: string, change: object) {
  const patch = (body: unknown) => ask(item, { method: 'PATCH', body })
  const before = (await ask(item)).json
  t.equal(word(t, await patch({ ...change, surely_unknown: 1 })), 'FIELD_UNKNOWN')
  t.equal(word(t, await patch({ ...change, id: 'other_1' })), 'FIELD_INVALID')
  for (const [name, field] of Object.entries(resource.fields)) {
    if (field.settable !== 'create') continue
    const answer = await patch({ [field.requestName(name)]: 'x' })
    t.equal(word(t, answer), 'IMMUTABLE', name)
  }
  t.same((await ask(item)).json, before, 'nothing of it has changed anything')
}

async function lifecycle(t: Test, ask: Ask, resource: Resource, item: string, change: object) {
  const patch = (body: unknown, headers = {}) => ask(item, { method: 'PATCH', body, headers })
  const before = await ask(item)
  const empty = await patch({})
  t.equal(empty.status, 200, 'an empty update is none')
  const tag = String((await ask(item)).headers.etag)
  const updated = await patch({ ...change, id: before.json.id }, { 'if-match': tag })
  t.equal(updated.status, 200, updated.text)
  t.ok(fits(responseSchema(resource), updated.json))
  t.not(updated.headers.etag, tag)
  const { id, uri, created_at } = before.json
  t.match(updated.json, { id, uri, created_at }, 'what the service gave stays')
  const lost = await patch(change, { 'if-match': tag })
  t.equal(lost.status, 412)
  t.equal(word(t, lost), 'PRECONDITION_FAILED')
  t.equal((await ask(item, { method: 'DELETE', headers: { 'if-match': tag } })).status, 412)
  const dry = await ask(`${item}?dry_run=true`, {
    method: 'PATCH',
    body: { ...change, ...('description' in change ? { description: 'dry' } : {}) }
  })
  t.equal(dry.json.status_code, 200)
  const got = await ask(item)
  t.same(got.json, updated.json, 'reading gives what the update gave, and dry runs change nothing')
  t.equal(got.headers.etag, updated.headers.etag)
}

async function listing(t: Test, ask: Ask, resource: Resource, path: string, item: string) {
  const list = await ask(path)
  t.equal(list.status, 200)
  const one = responseSchema(resource)
  t.ok(fits(listSchema(resource, one), list.json))
  t.match(list.json, { uri: `${BASE}${path}`, next_page_uri: null })
  t.notMatch(list.text, MARK, 'no list shows a secret')
  const shown = list.json[resource.listKey].find(({ uri }: { uri: string }) => pathIn(uri) === item)
  t.equal(shown?.id, (await ask(item)).json.id)
}

async function modulesOf(t: Test, ask: Ask, resource: Resource, item: string, { full, change }: Bodies) {
  for (const module of resource.modules) {
    const path = `${item}/${module}`
    const { response } = moduleSchemas(resource, module)
    const remove = () => ask(path, { method: 'DELETE' })
    t.equal((await remove()).status, 204)
    t.equal((await remove()).status, 204, 'once more, as a client that repeats itself would')
    t.equal(word(t, await ask(path)), 'NOT_FOUND', 'it is not configured')
    t.equal((await ask(item)).json[module], null)
    const body = full[module] as Record<string, unknown>
    const { enabled: _, ...unspecified } = body
    const put = await ask(path, { method: 'PUT', body: unspecified })
    t.equal(put.status, 200, put.text)
    t.ok(fits(response, put.json), `${module} is as its schema says`)
    t.equal(put.json.enabled, true, 'true when unspecified')
    const got = await ask(path)
    t.same(got.json, put.json)
    t.equal(got.headers.etag, put.headers.etag)
    t.same((await ask(item)).json[module], put.json)
    const wrapped = await ask(path, { method: 'PUT', body: { id: item.split('/').at(-1), module: body } })
    t.equal(wrapped.status, 200, 'clients that wrap the module are understood')
    t.equal(word(t, await ask(path, { method: 'PUT', body: { ...body, surely_unknown: 1 } })), 'FIELD_UNKNOWN')
    t.equal(word(t, await ask(path, { method: 'PUT', body: [] })), 'FIELD_INVALID')
    t.equal((await ask(path, { method: 'PUT', body, headers: { 'if-match': '"1"' } })).status, 412)
    const before = (await ask(path)).json
    await ask(item, { method: 'PATCH', body: { [module]: null } })
    await ask(item, { method: 'PATCH', body: { description: 'else' } })
    t.same((await ask(path)).json, before, 'null and omission leave it')
    const replaced = await ask(item, { method: 'PATCH', body: { [module]: change[module] } })
    t.equal(replaced.status, 200, replaced.text)
    t.same((await ask(path)).json, replaced.json[module])
    // Some modules exclude each other.
    t.equal((await remove()).status, 204)
  }
  for (const field of resource.clearable) {
    t.equal((await ask(`${item}/${field}`, { method: 'DELETE' })).status, 204)
    t.equal((await ask(item)).json[field], null)
  }
}

async function deletion(t: Test, ask: Ask, resource: Resource, path: string, item: string) {
  t.equal((await ask(`${item}?dry_run=true`, { method: 'DELETE' })).json.status_code, 204)
  const answer = await ask(item, { method: 'DELETE' })
  t.match(answer, { status: 204, text: '' })
  for (const [method, body] of [['GET'], ['PATCH', {}], ['DELETE']] as const) {
    const gone = await ask(item, { method, body })
    t.equal(gone.status, 404, method)
    t.equal(word(t, gone), 'NOT_FOUND')
  }
  const other = path === '/vaults' ? '/ip_policies' : '/vaults'
  t.equal((await ask(`${other}/${item.split('/').at(-1)}`)).status, 404, 'an id names nothing in another collection')
  if (resource.operations.includes('list')) t.notMatch((await ask(path)).text, `"${item.split('/').at(-1)}"`)
}

async function onlyRead(t: Test, ask: Ask) {
  for (const { path, listKey } of resources.filter(({ operations }) => !operations.includes('create'))) {
    t.match((await ask(path)).json, { [listKey]: [], uri: `${BASE}${path}`, next_page_uri: null })
    t.equal((await ask(`${path}/nothing_1`)).status, 404)
    t.equal((await ask(path, { method: 'POST', body: {} })).status, 405)
  }
}
