import t from 'tap'
import { formatDuration, formatSize } from '../../src/lib/units.js'
import { createSchema } from '../../src/schema/json-schema.js'
import type { Schema } from '../../src/schema/schema.js'
import { actions, optionEntries, resources } from './product.js'
import { sameAsRecorded } from './recorded.js'

/**
 * The reference pages in `docs/reference`, made from the declarations that check options, policies and resources. Recorded
 * again with SLUICE_RECORD=1 (see `recorded.ts`).
 */

/** A field of a table: its path, what it takes, whether it must be given. */
interface Row {
  readonly path: string
  readonly schema: Schema
  readonly required: boolean
}

function rowsOf(schema: Schema, at = ''): Row[] {
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, member]) => {
    const path = at === '' ? name : `${at}.${name}`
    return [{ path, schema: member, required: schema.required?.includes(name) === true }, ...rowsOf(member, path)]
  })
  const items = schema.items === undefined ? [] : rowsOf(schema.items, `${at}[]`)
  const branches = (schema.anyOf ?? []).flatMap((branch) => (isPlainList(branch, schema) ? [] : rowsOf(branch, at)))
  return [...own, ...items, ...branches]
}

/** A list of what another branch takes alone says nothing new. */
function isPlainList({ items }: Schema, { anyOf = [] }: Schema): boolean {
  return items !== undefined && anyOf.some((branch) => JSON.stringify(branch) === JSON.stringify(items))
}

const KINDS: Readonly<Record<string, string>> = {
  template: 'text with `${…}`',
  expression: 'CEL',
  regex: 'RE2 with `${…}`'
}

function takes(schema: Schema): string {
  const { type, items, anyOf, minimum, maximum, 'x-kind': kind, 'x-form': form } = schema
  if (anyOf !== undefined) {
    const branches = anyOf.filter(({ deprecated, type: of }) => deprecated !== true && of !== 'null')
    return [...new Set(branches.map(takes))].join(' or ')
  }
  const words = schema.enum
  if (words !== undefined) return words.map((word) => `\`${String(word)}\``).join(', ')
  const bounds = [schema['x-min'] ?? minimum, schema['x-max'] ?? maximum]
  if (kind === 'duration') return `duration${range(bounds, formatDuration)}`
  if (kind === 'size') return `size${range(bounds, formatSize)}`
  if (type === 'integer') return `whole number${range(bounds, String)}`
  if (type === 'number') return `number${range(bounds, String)}`
  if (type === 'boolean') return '`true`, `false`'
  if (type === 'array') return `list of ${items === undefined ? 'values' : takes(items)}${count(schema)}`
  if (type === 'object') return schema.properties === undefined ? `map${count(schema)}` : 'object'
  const known = KINDS[kind ?? '']
  if (known !== undefined) return known
  return kind ?? (type === undefined ? 'any value' : `text${form === undefined ? '' : ` (${form})`}${length(schema)}`)
}

function range([min, max]: readonly (number | undefined)[], format: (n: number) => string): string {
  return min === undefined || max === undefined ? '' : `, ${format(min)} to ${format(max)}`
}

function count({ minItems, maxItems, minProperties = minItems, maxProperties = maxItems }: Schema): string {
  const [min, max] = [minProperties ?? 0, maxProperties]
  if (max !== undefined) return `, ${min} to ${max}`
  return min === 0 ? '' : `, at least ${min}`
}

function length({ maxLength }: Schema): string {
  return maxLength === undefined ? '' : `, at most ${maxLength} characters`
}

const cell = (text: string) => text.replace(/[|<]/g, '\\$&').replaceAll('\n', ' ')

function table(rows: readonly Row[]): string[] {
  if (rows.length === 0) return ['It takes no fields.', '']
  return [
    '| field | takes | default | meaning |',
    '| --- | --- | --- | --- |',
    ...rows.map(({ path, schema, required }) => {
      const preset = required ? 'required' : schema.default === undefined ? '' : `\`${JSON.stringify(schema.default)}\``
      return `| \`${path}\` | ${cell(takes(schema))} | ${preset} | ${cell(meaning(schema))} |`
    }),
    ''
  ]
}

/** What may be null is described beside the null. */
function meaning({ description, anyOf = [] }: Schema): string {
  return description ?? anyOf.map(meaning).find((text) => text !== '') ?? ''
}

const page = (title: string, intro: string, lines: readonly string[]) => [
  `# ${title}`,
  '',
  intro,
  'This page is made from the declarations in the source; `npm test` holds it to them.',
  '',
  ...lines.slice(0, -1)
]

t.test('options', async (t) => {
  const rows = optionEntries().map(({ path, schema }): Row => ({ path, schema, required: false }))
  const intro =
    'Options of `sluice start`: in the file of `--config`, or as a variable of the environment (`limits.headers` is `SLUICE_LIMITS_HEADERS`).'
  await sameAsRecorded(t, 'options', page('Options', intro, table(rows)), 'docs/reference/options.md')
})

t.test('actions', async (t) => {
  const lines = actions.flatMap((action) => {
    if (action.availability === 'unsupported') return []
    const { type, phases, config, configOptional } = action
    const stands = `In ${phases.map((phase) => `\`${phase}\``).join(', ')}. \`config\` ${configOptional ? 'may be left out' : 'is required'}.`
    return [`## ${type}`, '', stands, '', ...table(rowsOf(config as Schema))]
  })
  const intro = 'Actions of traffic policies with the fields of their `config`.'
  await sameAsRecorded(t, 'actions', page('Actions', intro, lines), 'docs/reference/actions.md')
})

t.test('resources', async (t) => {
  const lines = resources.flatMap((resource) => {
    const { name, path, description, operations } = resource
    if (operations !== undefined && !operations.includes('create')) return []
    return [`## ${name}`, '', `\`${path}\`: ${description}`, '', ...table(rowsOf(createSchema(resource) as Schema))]
  })
  const intro =
    'Fields that a request to the management API can give when it creates a record. `/openapi.json` of the API describes answers and updates too.'
  await sameAsRecorded(t, 'resources', page('Resources', intro, lines), 'docs/reference/resources.md')
})
