import { errorGroups, metricEntries } from '../app/catalogue.js'
import { languageCatalogue } from '../app/policy-language.js'
import { EXAMPLE_FLOW } from '../expression/meanings/meaning.js'
import { actions, features, moduleFields, modules } from '../features/registry.js'
import type { ErrorRow } from '../lib/errors.js'
import { packageVersion } from '../lib/files.js'
import { formatDuration, formatSize } from '../lib/units.js'
import { optionEntries } from '../options/catalogue.js'
import type { Action } from '../policy/action.js'
import { resources } from '../resources/registry.js'
import { EVENT_TYPES, eventMeaning, type Resource } from '../resources/resource.js'
import type { Schema } from '../schema/schema.js'
import { TRAFFIC_FIELDS } from '../telemetry/event-fields.js'
import { manPage } from './man-page.js'
import { createProgram } from './program.js'

/** Returns the pages of `docs/reference`, made from the declarations of the code: text by name of file, the same at each call. */
export async function referencePages(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ['errors.md', page('Error codes', await errors())],
    ['options.md', page('Options', options())],
    ['actions.md', page('Actions', actionsPage())],
    ['modules.md', page('Modules', modulesPage())],
    ['expressions.md', page('Expressions', expressions())],
    ['resources.md', page('Resources', resourcesPage())],
    ['metrics.md', page('Metrics', await metrics())],
    ['events.md', page('Events', events())],
    ['sluice.1', manPage(createProgram(), packageVersion())]
  ])
}

function page(title: string, lines: readonly string[]): string {
  const origin = '<!-- Made by `npm run docs` from the source; do not edit. -->'
  return `${[`# ${title}`, '', origin, '', ...lines].join('\n').trimEnd()}\n`
}

/** A table of Markdown, with an empty line after it. */
function table(heads: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(' | ')} |`
  return [line(heads), `| ${heads.map(() => '---').join(' | ')} |`, ...rows.map(line), '']
}

function cell(text: string): string {
  return text.replace(/[|<]/g, '\\$&').replace(/\s*\n\s*/g, ' ')
}

function code(text: string): string {
  return `\`${text}\``
}

function codes(texts: readonly string[]): string {
  return texts.map(code).join(', ')
}

async function errors(): Promise<string[]> {
  const lines = ['Use these codes in programs; messages are for people and may change.', '']
  for (const { title, where, tables } of await errorGroups()) {
    const rows = tables.flatMap(Object.values<ErrorRow>).sort((a, b) => (a.code < b.code ? -1 : 1))
    const answered = rows.some(({ status }) => status !== undefined)
    const named = rows.some(({ ngrok }) => ngrok !== undefined)
    lines.push(`## ${title}`, '', where, '')
    lines.push(
      ...table(
        ['Code', ...(answered ? ['Status'] : []), ...(named ? ['For clients of ngrok'] : []), 'Meaning', 'What to do'],
        rows.map((row) => [
          code(row.code),
          ...(answered ? [statusesOf(row)] : []),
          ...(named ? [ngrokCodesOf(row)] : []),
          row.text,
          row.help
        ])
      )
    )
  }
  return lines
}

function statusesOf({ status, otherStatuses = [] }: ErrorRow): string {
  return [...(status === undefined ? [] : [status]), ...otherStatuses].join(', ')
}

/** Codes of ngrok with their situations, such as `ERR_NGROK_1406` (ip_policy_rule.cidr). */
function ngrokCodesOf({ ngrok = [] }: ErrorRow): string {
  return ngrok
    .map(
      ({ number, resource, field, sent }) =>
        `${code(`ERR_NGROK_${number}`)} (${[resource, field].filter(Boolean).join('.')}${sent === undefined ? '' : ` with ${sent}`})`
    )
    .join(', ')
}

function options(): string[] {
  const intro =
    'Set an option in the options file (`--config`, [config/sluice.yaml](../../config/sluice.yaml)) or as an environment variable. `sluice start --help` lists options with a flag. Flags override variables, and variables override the file.'
  const rows = optionEntries().map(({ path, variable, schema }) => {
    const field: Schema = schema
    return [code(path), code(variable), allowed(field), preset(field), meaning(field)]
  })
  return [intro, '', ...table(['Option', 'Variable', 'Value', 'Default', 'Meaning'], rows)]
}

function actionsPage(): string[] {
  const intro =
    'Actions for rules of traffic policies. Later expressions can read their results. Strings of a config may contain expressions as `${…}` if their description says so.'
  return [intro, '', ...actions.flatMap((action) => actionLines(action))]
}

function actionLines(action: Action): string[] {
  const head = [`## ${action.type}`, '']
  if (action.availability === 'unsupported') return [...head, `Not supported: ${action.reason}.`, '']
  const { summary, phases, config, configOptional, terminates, results, example } = action
  const ends = { always: 'It always ends the policy.', sometimes: 'It may end the policy.', never: '' }[terminates]
  const fields = fieldRows(config as Schema, '')
  const published = Object.entries(results?.fields ?? {})
  return [
    ...head,
    `${summary} Phases: ${codes(phases)}. ${ends}`.trimEnd(),
    '',
    ...(fields.length === 0 ? ['It has no config.', ''] : []),
    ...(fields.length > 0 && configOptional ? ['The config may be left out.', ''] : []),
    ...(fields.length === 0 ? [] : table(FIELD_HEADS, fields)),
    ...(published.length === 0
      ? []
      : table(
          ['Result', 'Type', 'Meaning'],
          published.map(([name, [type, text]]) => [code(`actions.service.${results?.name}.${name}`), code(type), text])
        )),
    ...exampleLines(example),
    ...codesOf(action.type)
  ]
}

function exampleLines({ policy, request, status }: Extract<Action, { availability: 'ready' }>['example']): string[] {
  const answer = status === 0 ? 'the connection is closed' : `the answer is ${status}`
  const asked = request?.split('\n').map(code).join(', ')
  return ['```yaml', policy.trimEnd(), '```', '', ...(status === undefined ? [] : [`${asked}: ${answer}.`, ''])]
}

/** The codes of the feature that has the action or module of this name. */
function codesOf(name: string): string[] {
  const feature = features.find(({ actions = [], modules = [] }) => {
    return actions.some(({ type }) => type === name) || modules.some((module) => module.name === name)
  })
  const all = [...(feature?.errors ?? []), ...(feature?.problems ?? [])].flatMap((rows) => Object.keys(rows))
  return all.length === 0 ? [] : [`[Codes](errors.md): ${codes(all)}.`, '']
}

/** Owners of modules, as the page of modules names them. */
const MODULE_OWNERS = { https: 'routes of HTTPS edges', tcp: 'TCP edges', tls: 'TLS edges' } as const

/** Joins names: `a`, `a and b`, `a, b and c`. */
const listed = (names: readonly string[]) => names.join(', ').replace(/, ([^,]*)$/, ' and $1')

function modulesPage(): string[] {
  const intro =
    'Modules for routes of HTTPS edges, for TCP edges and for TLS edges, beside the policy, in the order in which they process a request.'
  const fieldsOf = { https: moduleFields('https'), tcp: moduleFields('tcp'), tls: moduleFields('tls') }
  const lines = modules.flatMap(({ name, on }) => {
    const places = listed(on.map((carrier) => MODULE_OWNERS[carrier]))
    const [first] = on
    const schema = (first === undefined ? undefined : fieldsOf[first][name]?.request) as Schema | undefined
    const fields = schema === undefined ? [] : fieldRows(schema, '')
    return [
      `## ${name}`,
      '',
      `${schema === undefined ? '' : meaning(schema)} On ${places}.`,
      '',
      ...table(FIELD_HEADS, fields),
      ...codesOf(name)
    ]
  })
  return [intro, '', ...lines]
}

const FIELD_HEADS = ['Field', 'Value', 'Default', 'Meaning']

/** The fields below an object, those of inner objects and lists with their paths. */
function fieldRows(schema: Schema, path: string): string[][] {
  const required = new Set(schema.required)
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const at = path === '' ? name : `${path}.${name}`
    const need = required.has(name) ? 'required' : preset(field)
    return [[code(at), allowed(field), need, meaning(field)], ...innerRows(field, at)]
  })
}

function innerRows(field: Schema, at: string): string[][] {
  const lists = field.items === undefined ? [] : [field.items, ...(field.items.anyOf ?? [])]
  const rows = [
    ...fieldRows(field, at),
    ...(field.anyOf ?? []).flatMap((choice) => innerRows({ ...choice }, at)),
    ...lists.flatMap((item) => fieldRows(item, `${at}[]`))
  ]
  // Two forms of one value may have the same fields.
  return rows.filter(([name], index) => rows.findIndex(([other]) => other === name) === index)
}

const KINDS: Readonly<Record<string, string>> = {
  template: 'text with `${…}`',
  expression: 'CEL',
  regex: 'RE2 with `${…}`'
}

/** Returns the allowed values as text: `text, at most 255 characters`, `whole number, 1 to 10`, `duration, 1s to 2m`. */
function allowed(schema: Schema): string {
  const { type, items, anyOf, minimum, maximum, 'x-kind': kind, 'x-form': form } = schema
  if (anyOf !== undefined) {
    const branches = anyOf.filter(({ deprecated, type: of }) => deprecated !== true && of !== 'null')
    return [...new Set(branches.map(allowed))].join(' or ')
  }
  if (schema.enum !== undefined) return codes(schema.enum.filter((word) => word !== null).map(String))
  if (schema.const !== undefined) return code(String(schema.const))
  const bounds = [schema['x-min'] ?? minimum, schema['x-max'] ?? maximum] as const
  if (kind === 'duration') return `duration${range(bounds, formatDuration)}`
  if (kind === 'interval') return `duration${range(bounds, formatDuration)}, or \`off\``
  if (kind === 'size') return `size${range(bounds, formatSize)}`
  if (type === 'integer') return `whole number${range(bounds, String)}`
  if (type === 'number') return `number${range(bounds, String)}`
  if (type === 'boolean') return '`true`, `false`'
  if (type === 'null') return code('null')
  if (type === 'array') return `list of ${items === undefined ? 'values' : allowed(items)}${count(schema)}`
  if (type === 'object') return `map${schema.properties === undefined ? count(schema) : ''}`
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

/** Returns the description of a field; that of a nullable field is in its other branch. */
function meaning({ description, anyOf = [] }: Schema): string {
  return description ?? anyOf.map(meaning).find((text) => text !== '') ?? ''
}

function preset(field: Schema): string {
  return field.default === undefined || field.default === null
    ? ''
    : code(typeof field.default === 'string' ? field.default : JSON.stringify(field.default))
}

const WHERE = { http: 'HTTP phases', response: '`on_http_response` and `on_event_stream_message`' } as const

function expressions(): string[] {
  const { variables, functions } = languageCatalogue()
  const sorted = [...variables].sort((a, b) => (a.path < b.path ? -1 : 1))
  const roots = [...new Set(sorted.map(({ path }) => rootOf(path)))]
  const lines = roots.flatMap((root) => [
    `### ${root}`,
    '',
    ...table(
      ['Variable', 'Type', 'Where', 'Meaning'],
      sorted
        .filter(({ path }) => rootOf(path) === root)
        .map(({ path, type, phases, optional, missing, description }) => [
          code(path),
          code(type),
          phases === undefined ? 'everywhere' : WHERE[phases],
          [
            description,
            ...(optional === true ? ['May be absent.'] : []),
            ...(missing === undefined ? [] : [`Always empty without ${missing}.`])
          ].join(' ')
        ])
    )
  ])
  const forms = functions.map((one) => {
    const phases = 'phases' in one ? one.phases : undefined
    const { signature, description, example, value } = one
    const where = phases === undefined ? 'everywhere' : WHERE[phases]
    return [code(signature), where, description, `${code(example)} is ${code(value)}`]
  })
  const intro = 'Expressions are CEL (https://cel.dev). Reading an absent variable is an error; test it with `has()`.'
  const unique = [...new Map(forms.map((form) => [form[0], form])).values()].sort(([a = ''], [b = '']) =>
    a < b ? -1 : 1
  )
  return [
    intro,
    '',
    '## Variables',
    '',
    ...lines,
    '## Functions',
    '',
    EXAMPLE_FLOW,
    '',
    ...table(['Function', 'Where', 'Meaning', 'Example'], unique)
  ]
}

function rootOf(path: string): string {
  return path.startsWith('actions.') ? path.split('.').slice(0, 3).join('.') : (path.split('.')[0] ?? path)
}

function resourcesPage(): string[] {
  const intro = 'Objects of the management API. A field can be set at creation only, at any time, or is read-only.'
  return [intro, '', ...resources.flatMap(resourceLines)]
}

function resourceLines({ name, description, path, operations, fields, modules: ofRecord, parts }: Resource): string[] {
  const rows = Object.entries(fields).flatMap(([field, { settable, required, request, response, requestName }]) => {
    // Fields in neither requests nor responses are internal to the process.
    if (request === undefined && response === undefined) return []
    const schema = (request ?? response ?? {}) as Schema
    const given =
      request === undefined || settable === undefined ? 'answered' : settable === 'create' ? 'at creation' : 'always'
    const asked = requestName(field)
    const names = asked === field || request === undefined ? code(field) : `${code(field)}, in requests ${code(asked)}`
    // Modules have a page of their own.
    const inner = ofRecord.includes(field) ? [] : innerRows(schema, asked)
    return [[names, allowed(schema), required ? `${given}, required` : given, meaning(schema)], ...inner]
  })
  const extra = [
    ...(ofRecord.length === 0 ? [] : [`[Modules](modules.md) with URLs of their own: ${codes(ofRecord)}.`, '']),
    ...(parts.length === 0 ? [] : [`Lists with URLs of their own: ${codes(parts.map((part) => part.name))}.`, ''])
  ]
  return [
    `## ${name}`,
    '',
    `${description} ${code(path)}: ${operations.join(', ')}.`,
    '',
    ...table(['Field', 'Value', 'Given', 'Meaning'], rows),
    ...extra
  ]
}

async function metrics(): Promise<string[]> {
  const entries = await metricEntries()
  const rows = entries.map(({ name, type, labels, help }) => [code(name), type, codes(labels), help])
  return [
    'Metrics of `/metrics` on the API listener, in the Prometheus text format.',
    '',
    ...table(['Metric', 'Type', 'Labels', 'Meaning'], rows)
  ]
}

function events(): string[] {
  const intro = 'Types for event subscriptions. An event of a changed record contains the record as the API returns it.'
  const lines = [...TRAFFIC_FIELDS].flatMap(([type, fields]) => [
    `## Fields of ${type}`,
    '',
    ...table(
      ['Field', 'Type', 'Meaning'],
      Object.entries(fields)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, { type: of, description }]) => [code(name), code(of), description])
    )
  ])
  const types = EVENT_TYPES.map((type) => [code(type), eventMeaning(type)])
  return [intro, '', ...table(['Type', 'When'], types), ...lines]
}
