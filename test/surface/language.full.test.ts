import t from 'tap'
import { Build } from './build.js'
import { actions, languageCatalogue, modules } from './product.js'
import { jsonLines, sameAsRecorded } from './recorded.js'

/**
 * The language of policies: the schema of documents, actions with their results, modules in their order, variables and
 * functions of expressions. Recorded again with SLUICE_RECORD=1 (see `recorded.ts`).
 */

const { variables, functions } = languageCatalogue()

t.test('the JSON Schema of policy documents', async (t) => {
  const { code, out } = await new Build('dist-test/src').run(['schema', 'policy'], t.testdir())
  t.equal(code, 0)
  await sameAsRecorded(t, 'policy-schema', jsonLines(JSON.parse(out)))
})

t.test('actions: phases, whether they end a rule, results', async (t) => {
  const lines = actions.flatMap((action) => {
    if (action.availability === 'unsupported') return [`${action.type} unsupported: ${action.reason}`]
    const { type, availability, phases, configOptional, terminates, results } = action
    const config = configOptional ? 'config optional' : 'config required'
    const fields = Object.entries(results?.fields ?? {}).map(([name, [of]]) => `  ${results?.name}.${name} ${of}`)
    return [`${type} ${availability}, ${phases.join(' ')}, ${config}, terminates ${terminates}`, ...fields]
  })
  await sameAsRecorded(t, 'actions', lines)
})

t.test('config fields of each action, one by one', async (t) => {
  const lines = actions.flatMap((action) =>
    action.availability === 'unsupported' ? [] : fieldsOf(action.config as Shape, action.type)
  )
  await sameAsRecorded(t, 'action-fields', lines)
})

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>
  readonly items?: Shape
  readonly required?: readonly string[]
  readonly anyOf?: readonly Shape[]
  readonly type?: unknown
  readonly default?: unknown
}

function fieldsOf(shape: Shape, at: string): string[] {
  const own = Object.entries(shape.properties ?? {}).flatMap(([name, field]) => {
    const required = shape.required?.includes(name) === true ? ' required' : ''
    const preset = field.default === undefined ? '' : ` default ${JSON.stringify(field.default)}`
    const type = field.type === undefined ? '' : ` ${JSON.stringify(field.type)}`
    return [`${at}.${name}${type}${required}${preset}`, ...fieldsOf(field, `${at}.${name}`)]
  })
  const items = shape.items === undefined ? [] : fieldsOf(shape.items, `${at}[]`)
  return [...own, ...items, ...(shape.anyOf ?? []).flatMap((choice) => fieldsOf(choice, at))]
}

t.test('modules in the order in which they see a request', async (t) => {
  await sameAsRecorded(
    t,
    'modules',
    modules.map(({ name }) => name)
  )
})

t.test('variables of expressions', async (t) => {
  const lines = variables.map(({ path, type, phases = 'every phase', optional, missing, closed }) => {
    const notes = [optional && 'optional', closed && 'closed', missing !== undefined && `missing: ${missing}`]
    return [path, type, phases, ...notes.filter((note) => typeof note === 'string')].join(', ')
  })
  await sameAsRecorded(t, 'cel-variables', lines.sort())
})

t.test('functions of expressions', async (t) => {
  const lines = functions.map((definition) => {
    const phases = 'phases' in definition && definition.phases !== undefined ? `, ${definition.phases}` : ''
    return `${definition.signature}${phases}`
  })
  // An overload that stands earlier wins over a later one of the same signature.
  t.ok(new Set(lines).size > 50)
  await sameAsRecorded(t, 'cel-functions', lines.sort())
})
