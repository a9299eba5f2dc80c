import t from 'tap'
import { Build } from './build.js'
import { EVENT_TYPES, resources, TRAFFIC_FIELDS } from './product.js'
import { sameAsRecorded } from './recorded.js'
import * as source from './source.js'

/** Resources, the OpenAPI document, events and the log. Recorded again with SLUICE_RECORD=1 (see `recorded.ts`). */

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { operationId?: string; responses?: object }>>>>
  readonly components: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

t.test('the OpenAPI document and its routes', async (t) => {
  const serving = await new Build('dist-test/src').start(t.testdir())
  t.teardown(() => serving.stop())
  const { text } = await serving.call('/openapi.json')
  const { paths, components, ...head } = JSON.parse(text.replaceAll(serving.api, 'http://api.example.com')) as Document
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation }))
  )
  const routes = operations.flatMap(({ name, operation: { operationId, responses } }) =>
    responses === undefined ? [] : [`${name} ${operationId} ${Object.keys(responses).join(' ')}`]
  )
  await sameAsRecorded(t, 'routes', routes)
  await sameAsRecorded(t, 'openapi', [
    `document ${JSON.stringify(head)}`,
    ...operations.map(({ name, operation }) => `${name} ${JSON.stringify(operation)}`),
    ...Object.entries(components).flatMap(([kind, all]) =>
      Object.entries(all).map(([name, component]) => `${kind} ${name} ${JSON.stringify(component)}`)
    )
  ])
})

t.test('resources, their fields and the events of their changes', async (t) => {
  const lines = resources.flatMap(
    ({ name, path, listKey, idPrefix, operations, events, parts, modules, clearable, fields }) => [
      `${name} ${path} ${listKey} ${idPrefix} ${operations.join(' ')}${events === undefined ? '' : `, events ${events}`}`,
      ...Object.entries(fields).map(([field, { settable }]) => `  ${field} ${settable ?? ''}`.trimEnd()),
      ...parts.map((part) => `  part ${part.name}: ${part.field} by ${part.key}`),
      ...modules.map((module) => `  module ${module}`),
      ...clearable.map((module) => `  clearable ${module}`)
    ]
  )
  await sameAsRecorded(t, 'resources', lines)
})

t.test('types of events, and the fields of traffic events', async (t) => {
  const fields = [...TRAFFIC_FIELDS].flatMap(([type, all]) =>
    Object.entries(all).map(([name, { type: of, description }]) => `${type} ${name} ${of}: ${description}`)
  )
  await sameAsRecorded(t, 'events', [...EVENT_TYPES, ...fields.sort()])
})

/** Methods of a logger, by their levels. */
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal']

t.test('messages of the log with their fields', async (t) => {
  const lines = new Set<string>()
  await source.everyNode((node) => {
    const call = source.called(node)
    const level = call?.name.split(/\??\./).at(-1) ?? ''
    if (call === undefined || !LEVELS.includes(level)) return
    const [first, second] = call.args
    const message = source.textOf(second) ?? source.textOf(first)
    if (message === undefined || message === '' || !/log/i.test(call.name)) return
    const fields = first !== undefined && source.isObject(first) ? source.memberNames(first) : ['…']
    lines.add(`${level} "${message}"${source.textOf(first) === undefined ? ` {${fields.join(', ')}}` : ''}`)
  })
  t.ok(lines.size > 40, 'the source is read')
  await sameAsRecorded(t, 'log-messages', [...lines].sort())
})
