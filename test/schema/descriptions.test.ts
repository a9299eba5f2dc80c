import t from 'tap'
import { providersFile } from '../../src/features/login/operator-providers.js'
import { actions, modules } from '../../src/features/registry.js'
import { optionsSchema } from '../../src/options/options.js'
import { resources } from '../../src/resources/registry.js'
import { createSchema, responseSchema, updateSchema } from '../../src/schema/json-schema.js'
import { KEYWORDS, type Schema } from '../../src/schema/schema.js'
import { choice, flag, list, map, object, text } from '../../src/schema/values.js'

/** Every place of a schema where a value stands: its path and its schema, members, items, values of maps and branches included. */
function* placesOf(schema: Schema, at: string): Generator<readonly [path: string, schema: Schema]> {
  for (const [name, member] of Object.entries(schema.properties ?? {})) {
    const path = at === '' ? name : `${at}.${name}`
    yield [path, member]
    yield* placesOf(member, path)
  }
  if (schema.items !== undefined) {
    yield [`${at}[]`, schema.items]
    yield* placesOf(schema.items, `${at}[]`)
  }
  if (typeof schema.additionalProperties === 'object') {
    yield [`${at}.*`, schema.additionalProperties]
    yield* placesOf(schema.additionalProperties, `${at}.*`)
  }
  for (const branch of schema.anyOf ?? []) yield* placesOf(branch, at)
}

/** A value that may be null is described beside the null or around both. */
function isDescribed({ description, anyOf = [] }: Schema): boolean {
  if (description !== undefined) return /\S{2}/.test(description)
  const branches = anyOf.filter(({ type }) => type !== 'null')
  return branches.length > 0 && branches.every(isDescribed)
}

function undescribed(schema: unknown, at: string): string[] {
  return [...placesOf(schema as Schema, at)].filter(([, place]) => !isDescribed(place)).map(([path]) => path)
}

t.test('the walk finds what has no description, at any depth', async (t) => {
  const bare = { type: 'string' } as const
  const schema = {
    properties: {
      plain: bare,
      blank: { type: 'string', description: ' ' },
      entries: { type: 'array', description: 'Entries.', items: bare },
      names: { type: 'object', description: 'Names.', additionalProperties: bare },
      nullable: { anyOf: [{ type: 'string', description: 'Or null.' }, { type: 'null' }] },
      neither: { anyOf: [bare, { type: 'null' }] },
      either: { description: 'One of two.', anyOf: [{ type: 'object', properties: { inner: bare } }] }
    }
  }
  t.same(undescribed(schema, ''), ['plain', 'blank', 'entries[]', 'names.*', 'neither', 'either.inner'])
})

t.test('every field of the config of an action is described', async (t) => {
  let found = 0
  for (const action of actions) {
    if (action.availability === 'unsupported') continue
    t.same(undescribed(action.config, action.type), [])
    found += [...placesOf(action.config as Schema, action.type)].length
  }
  t.ok(found > 100)
})

t.test('every option and every section of options is described', async (t) => {
  t.same(undescribed(optionsSchema, ''), [])
  t.ok([...placesOf(optionsSchema as unknown as Schema, '')].length > 70)
})

t.test('every field of the file of identity providers is described', async (t) => {
  t.same(undescribed(providersFile, ''), [])
})

t.test('every field of a resource is described, in requests and in answers', async (t) => {
  for (const resource of resources) {
    for (const [kind, schema] of [
      ['create', createSchema(resource)],
      ['update', updateSchema(resource)],
      ['answer', responseSchema(resource)]
    ] as const) {
      t.same(undescribed(schema, ''), [], `${resource.name} ${kind}`)
    }
    for (const [name, { description }] of Object.entries(resource.fields)) {
      t.ok(isDescribed({ description }), `${resource.name}.${name}`)
    }
  }
})

t.test('every module is described, and each of its fields', async (t) => {
  for (const { name, on, field } of modules) {
    for (const carrier of on) {
      const { description, request, response } = field(carrier)
      t.ok(isDescribed({ description }), name)
      t.same(undescribed(request, name), [])
      t.same(undescribed(response, name), [])
    }
  }
})

t.test('declarations use the keywords that are checked, and no other', async (t) => {
  const request = resources.flatMap((resource) => [createSchema(resource), updateSchema(resource)])
  const configs = actions.flatMap((action) => (action.availability === 'unsupported' ? [] : [action.config]))
  for (const schema of [...request, ...configs] as Schema[]) {
    for (const [path, place] of placesOf(schema, '')) {
      for (const keyword of Object.keys(place)) t.ok(KEYWORDS.has(keyword), `${path}: ${keyword}`)
    }
  }
})

t.test('a word of the vocabulary is one schema', async (t) => {
  const told = { description: 'Told.' }
  t.same(text({ ...told, min: 1, max: 8, bytes: 16, form: 'label' }), {
    type: 'string',
    description: 'Told.',
    minLength: 1,
    maxLength: 8,
    'x-max-bytes': 16,
    'x-form': 'label'
  })
  t.same(list(choice(['a', 'b'], told), { ...told, min: 1, distinct: true }), {
    type: 'array',
    items: { enum: ['a', 'b'], description: 'Told.' },
    description: 'Told.',
    minItems: 1,
    uniqueItems: true
  })
  t.same(object({ on: flag({ ...told, default: true }), more: map(text(told), { ...told, max: 2 }) }, told), {
    type: 'object',
    required: ['on', 'more'],
    properties: {
      on: { type: 'boolean', description: 'Told.', default: true },
      more: {
        type: 'object',
        additionalProperties: { type: 'string', description: 'Told.' },
        description: 'Told.',
        maxProperties: 2
      }
    },
    additionalProperties: false,
    description: 'Told.'
  })
})
