import t from 'tap'
import Schema from 'typebox/schema'
import type { Readiness } from '../../src/api/health-routes.js'
import { nestedLists } from '../../src/api/resource-routes.js'
import { EXCHANGE_CRITERIA } from '../../src/capabilities/recorder/exchanges.js'
import { aliases, resources } from '../../src/resources/registry.js'
import { BASE, make, openAccount } from './account.js'

interface Parameter {
  readonly name: string
  readonly in: string
}

interface Operation {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly parameters: readonly { readonly $ref: string }[]
  readonly requestBody?: { readonly content: Record<string, { readonly schema: object }> }
  readonly responses: Record<string, { readonly content?: Record<string, { readonly schema: object }> }>
}

/** For supervisors and for everybody: they send no version, and their queries are not looked at. */
const UNVERSIONED = ['/healthz', '/readyz', '/metrics', '/status']
const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const
const REASONS = [{ name: 'store_full', means: 'the disk is full' }]
const degradation = { reasons: ['store_full'], revisionsBehind: 0 }
let state: Readiness = 'degraded'
/** Queries of paths that are no lists of pages. */
const OTHER_QUERIES: Readonly<Record<string, readonly string[]>> = {
  '/exchanges/stream': ['explain', 'rate'],
  '/exchanges/har': ['limit'],
  '/limits': ['order', 'limit', 'before_id'],
  '/limits/{id}/buckets': ['key', 'values', 'bucket'],
  '/limits/{id}/top': ['limit'],
  '/revisions/{id}/diff': ['from'],
  '/traffic': ['seconds'],
  '/traffic/day': ['minutes', 'step']
}

/** Lists of records, which take a filter. */
const RECORD_LISTS: readonly string[] = [
  ...resources.filter(({ operations }) => operations.includes('list')).map(({ path }) => path),
  ...aliases.map(({ alias }) => alias.path),
  ...nestedLists(resources).map(({ parent, nested }) => `${parent.path}/{id}/${nested.name}`)
]

const { ask } = await openAccount(t, {
  metrics: async () => 'up 1\n',
  readiness: () => state,
  degradation: () => degradation,
  reasons: REASONS
})
const answer = await ask('/openapi.json', { key: undefined })
const document = answer.json

/** What a reference inside of the document stands for. */
const resolve = (reference: string): unknown =>
  reference
    .slice(2)
    .split('/')
    .reduce<unknown>((node, key) => (node as Record<string, unknown> | undefined)?.[key], document)

/** A schema with its references filled in. */
function whole(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(whole)
  if (typeof schema !== 'object' || schema === null) return schema
  if ('$ref' in schema) return whole(resolve(String(schema.$ref)))
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, whole(value)]))
}

const operations = Object.entries<Record<string, unknown>>(document.paths).flatMap(([path, item]) =>
  METHODS.flatMap((method) => {
    const operation = item[method] as Operation | undefined
    return operation === undefined ? [] : [{ path, method, operation, item }]
  })
)

t.test('the document is served without a key, whole and of this version', async (t) => {
  t.equal(answer.status, 200)
  t.match(document, { openapi: '3.1.0', servers: [{ url: BASE }], info: { version: '0.0.0' } })
  t.match(answer.headers['content-type'], /^application\/json/)
  t.equal((await ask('/openapi.json', { headers: { host: 'evil.example' } })).status, 403)
})

t.test('every reference leads somewhere, and every name is used once', async (t) => {
  const references = [...answer.text.matchAll(/"\$ref":"([^"]+)"/g)].map(([, reference]) => String(reference))
  t.ok(references.length > 200)
  for (const reference of new Set(references)) t.type(resolve(reference), 'object', reference)
  const used = new Set(references.map((reference) => reference.replace('#/components/schemas/', '')))
  for (const name of Object.keys(document.components.schemas)) t.ok(used.has(name), `${name} is used`)
  const ids = operations.map(({ operation }) => operation.operationId)
  t.equal(new Set(ids).size, ids.length, 'operation ids')
  const tags = new Set(document.tags.map(({ name }: { name: string }) => name))
  for (const { operation } of operations) for (const tag of operation.tags) t.ok(tags.has(tag), tag)
})

t.test('every path names its parameters, every operation its version', async (t) => {
  for (const { path, operation, item } of operations) {
    const wanted = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    const named = ((item.parameters ?? []) as Parameter[]).map((parameter) => parameter.name)
    t.same(named, wanted, path)
    const parameters = operation.parameters.map(({ $ref }) => resolve($ref) as Parameter)
    t.equal(
      parameters.some(({ name }) => name === 'service-version'),
      !UNVERSIONED.includes(path),
      path
    )
  }
})

t.test('what is described is there, and what is there is described', async (t) => {
  for (const { path, method } of operations) {
    const real = path.replace(/\{\w+\}/g, 'nothing_1')
    const asked = method === 'get' || method === 'delete' ? {} : { body: {} }
    const { status, json } = await ask(real, { method: method.toUpperCase(), ...asked })
    t.not(status, 405, `${method} ${path}`)
    if (status === 404) t.notMatch(json.msg, 'nothing under this path', `${method} ${path}`)
  }
  for (const [path, item] of Object.entries<object>(document.paths)) {
    const { headers } = await ask(path.replace(/\{\w+\}/g, 'nothing_1'), { method: 'PROPFIND' })
    const allowed = String(headers.allow).split(', ')
    const described = METHODS.filter((method) => method in item).map((method) => method.toUpperCase())
    t.same(allowed.filter((method) => method !== 'HEAD').sort(), described.sort(), path)
  }
  const paths = Object.keys(document.paths)
  for (const { path } of resources)
    t.ok(
      paths.some((known) => known.startsWith(path)),
      path
    )
})

t.test('parameters that are described are understood, others are not', async (t) => {
  for (const { path, method, operation } of operations) {
    if (method !== 'get' || UNVERSIONED.includes(path)) continue
    const names = operation.parameters.map(({ $ref }) => resolve($ref) as Parameter)
    const query = names.filter((parameter) => parameter.in === 'query').map(({ name }) => name)
    const other = query.filter((name) => !(EXCHANGE_CRITERIA as readonly string[]).includes(name))
    const pages = RECORD_LISTS.includes(path) ? ['limit', 'before_id', 'filter'] : ['limit', 'before_id']
    t.same(other, OTHER_QUERIES[path] ?? (query.length === 0 ? [] : pages), path)
    const real = path.replace(/\{\w+\}/g, 'nothing_1')
    const { json } = await ask(`${real}?limit=0`)
    t.equal(json.error_code, `ERR_SLUICE_${query.includes('limit') ? 'PAGE_LIMIT' : 'QUERY_UNKNOWN'}`, path)
  }
})

t.test('what supervisors ask is described as it is answered', async (t) => {
  const of = (path: string) => document.paths[path].get
  const fits = (path: string, status: number, value: unknown) =>
    Schema.Check(whole(of(path).responses[status].content['application/json'].schema) as never, value as never)
  for (const [word, status] of [
    ['degraded', 200],
    ['ready', 200],
    ['starting', 503],
    ['draining', 503]
  ] as const) {
    state = word
    for (const path of ['/healthz', '/readyz']) {
      const asked = await ask(path, { key: undefined, headers: { 'service-version': '' } })
      t.equal(asked.status, status)
      t.ok(fits(path, status, asked.json), `${path} ${word}`)
      t.notOk(fits(path, status === 200 ? 503 : 200, asked.json))
      t.same(of(path).security, [], 'no key')
    }
  }
  state = 'ready'
  t.notOk(fits('/readyz', 200, { status: 'ready', reasons: ['another'], revisions_behind: 0 }))
  t.match(
    of('/readyz').responses[200].content['application/json'].schema.properties.reasons.description,
    'the disk is full'
  )
  const metrics = await ask('/metrics', { headers: { 'service-version': '' } })
  t.same(Object.keys(of('/metrics').responses[200].content), [metrics.headers['content-type']])
  t.notOk('security' in of('/metrics'), 'a key')
  const without = await openAccount(t)
  t.notOk('/metrics' in (await without.ask('/openapi.json')).json.paths, 'only what is there')
})

t.test('answers are as they are described, errors too', async (t) => {
  const fits = (schema: unknown, value: unknown) => Schema.Check(whole(schema) as never, value as never)
  const schemaOf = (path: string, method: string, status: string) =>
    (document.paths[path][method] as Operation).responses[status]?.content?.['application/json']?.schema
  const edge = await make(ask, '/edges/https', { hostports: ['app.test:443'] })
  await make(ask, `/edges/https/${edge.id}/routes`, { match: '/', compression: {} })
  const got = await ask(`/edges/https/${edge.id}`)
  t.equal(got.json.routes.length, 1)
  t.ok(fits(schemaOf('/edges/https/{id}', 'get', '200'), got.json))
  t.notOk(fits(schemaOf('/edges/https/{id}', 'get', '200'), { ...got.json, routes: [{}] }))
  t.ok(fits(schemaOf('/edges/https', 'get', '200'), (await ask('/edges/https')).json))
  t.ok(fits(schemaOf('/processes', 'get', '200'), (await ask('/processes')).json))
  const dry = await ask('/edges/https?dry_run=true', { method: 'POST', body: {} })
  t.ok(fits(document.paths['/edges/https'].post['x-dry-run-response']['200'], dry.json))
  t.notOk(fits(document.paths['/edges/https'].post['x-dry-run-response']['200'], dry.json.body))
  const sources = [{ type: 'vault_created.v0' }]
  const { id } = await make(ask, '/event_subscriptions', { sources })
  const parts = await ask(`/event_subscriptions/${id}/sources`)
  t.ok(fits(schemaOf('/event_subscriptions/{id}/sources', 'get', '200'), parts.json))
  for (const failed of [await ask('/nothing'), await ask('/vaults', { method: 'POST', body: {} })]) {
    t.ok(fits(schemaOf('/vaults', 'get', 'default'), failed.json))
  }
  const { content } = (document.paths['/vaults'].post as Operation).requestBody ?? { content: {} }
  const body = content['application/json']?.schema
  t.ok(fits(body, { name: 'v', description: '' }))
  t.notOk(fits(body, { name: 'v', more: 1 }))
  t.notOk(fits(body, {}))
})

t.test('what a site file can declare says so, for reading alone', async (t) => {
  const { schemas } = (
    document as { components: { schemas: Record<string, { properties?: Record<string, unknown> }> } }
  ).components
  const marked = Object.entries(schemas).filter(([, schema]) => schema.properties?.declared !== undefined)
  t.ok(marked.length >= 10, `${marked.length} are marked`)
  for (const [name, schema] of marked) {
    t.match(schema.properties?.declared, { readOnly: true, properties: { file: Object, line: Object } }, name)
  }
})
