import t from 'tap'
import { readCreate, readModule, readUpdate } from '../../src/resources/read.js'
import { resources } from '../../src/resources/registry.js'
import type { Resource } from '../../src/resources/resource.js'
import type { Field, ResourceRecord } from '../../src/schema/field.js'
import { createSchema, updateSchema } from '../../src/schema/json-schema.js'
import type { Schema } from '../../src/schema/schema.js'
import { created, options, problemsOf } from './bench.js'
import { bodies } from './bodies.js'

const client = { ...options, zeroIsAbsent: true }
const ZEROS: Readonly<Record<string, unknown>> = {
  string: '',
  integer: 0,
  number: 0,
  boolean: false,
  array: [],
  object: {}
}

/** A place of a body whose value has a type, with what stands there in a sample. */
interface Place {
  readonly steps: readonly string[]
  readonly zero: unknown
  readonly required: boolean
}

/** Every place of the bodies of a schema that the sample reaches: fields, modules, and members of objects at any depth. */
function* placesOf(schema: Schema, sample: unknown, steps: readonly string[] = []): Generator<Place> {
  for (const [key, declared] of Object.entries(schema.properties ?? {})) {
    const found = declared.anyOf?.find(({ type }) => type !== 'null') ?? declared
    const at = [...steps, key]
    const below = (sample as Record<string, unknown> | undefined)?.[key]
    // The one member that is given of several says which it is.
    const chosen = schema.maxProperties === 1 && below !== undefined
    yield { steps: at, zero: ZEROS[found.type ?? ''], required: chosen || schema.required?.includes(key) === true }
    if (found.properties !== undefined && below !== null && below !== undefined) yield* placesOf(found, below, at)
  }
}

/** The body with `value` at a place; `undefined` leaves the place out. */
function withValue(body: unknown, [step = '', ...rest]: readonly string[], value: unknown): Record<string, unknown> {
  const { [step]: below, ...others } = body as Record<string, unknown>
  const next = rest.length === 0 ? value : withValue(below, rest, value)
  return next === undefined ? others : { ...others, [step]: next }
}

const bodyOf = (read: ReturnType<typeof readCreate>) => (read.ok ? read.input.body : undefined)
/** Zeros that are allowed by themselves and refused beside the other fields of the sample. */
const REFUSED_BY_RULES: readonly string[] = ['hash_key', 'hsts.max_age']
let places = 0
let absent = 0

for (const resource of resources.filter(({ operations }) => operations.includes('create'))) {
  const sample = bodies[resource.name]!
  t.test(resource.name, async (t) => {
    const { record } = await created(resource, sample.full)
    for (const { steps, zero, required } of placesOf(createSchema(resource) as Schema, sample.full)) {
      for (const value of [zero, null]) await onCreate(steps, value, required)
    }
    for (const { steps, zero, required } of placesOf(updateSchema(resource) as Schema, sample.change)) {
      for (const value of [zero, null]) await onUpdate(steps, value, required)
    }
    for (const name of Object.keys(resource.fields)) takesZerosOfWhatIsFixed(name)

    async function onCreate(steps: readonly string[], value: unknown, required: boolean) {
      places++
      const at = `POST ${steps.join('.')}: ${JSON.stringify(value)}`
      const body = withValue(sample.full, steps, value)
      const [file, read] = [readCreate(resource, body, options), readCreate(resource, body, client)]
      if (file.ok) return t.same(bodyOf(read), bodyOf(file), `${at} means what it says`)
      if (required || REFUSED_BY_RULES.includes(steps.join('.')))
        return t.same(problemsOf(read), problemsOf(file), `${at} is refused`)
      absent++
      const without = readCreate(resource, withValue(sample.full, steps, undefined), client)
      return t.same([bodyOf(read), problemsOf(read)], [bodyOf(without), problemsOf(without)], `${at} is absent`)
    }

    async function onUpdate(steps: readonly string[], value: unknown, required: boolean) {
      places++
      const at = `PATCH ${steps.join('.')}: ${JSON.stringify(value)}`
      const body = withValue(sample.change, steps, value)
      const [file, read] = [readUpdate(resource, record, body, options), readUpdate(resource, record, body, client)]
      if (file.ok) return t.same(bodyOf(read), bodyOf(file), `${at} means what it says`)
      if (required || REFUSED_BY_RULES.includes(steps.join('.')))
        return t.same(problemsOf(read), problemsOf(file), `${at} is refused in a whole object`)
      absent++
      const without = readUpdate(resource, record, withValue(sample.change, steps, undefined), client)
      return t.same([bodyOf(read), problemsOf(read)], [bodyOf(without), problemsOf(without)], `${at} is absent`)
    }

    function takesZerosOfWhatIsFixed(name: string) {
      const field = resource.fields[name] as Field | undefined
      if (field === undefined || field.settable === 'always' || field.settable === 'path') return
      const key = field.requestName(name)
      const { type } = (field.request ?? {}) as Schema
      for (const zero of new Set(Object.values(ZEROS))) {
        const isIts = type === undefined || zero === ZEROS[type]
        const read = readUpdate(resource, record, { [key]: zero }, client)
        if (isIts) t.same(bodyOf(read), record.body, `PATCH ${key}: ${JSON.stringify(zero)} changes nothing`)
      }
    }
  })
}

t.test('the table has every field', async (t) => {
  t.ok(places > 500, `${places} places`)
  t.ok(absent > 150, `${absent} of them were refused before`)
})

t.test('a PUT of a module replaces it, so that its body is not absent', async (t) => {
  for (const resource of resources as readonly Resource[]) {
    const record: ResourceRecord = { kind: resource.name, id: 'x', createdAt: '', body: {}, secrets: {} }
    for (const name of resource.modules) {
      t.same(
        problemsOf(readModule(resource, record, name, {}, client)),
        problemsOf(readModule(resource, record, name, {}, options)),
        name
      )
    }
  }
})

t.test('a zero of another type is a mistake', async (t) => {
  const authority = resources.find(({ name }) => name === 'ssh_certificate_authority')!
  t.same(problemsOf(readCreate(authority, { key_size: '' }, client)), ['key_size FIELD_INVALID'])
  t.same(problemsOf(readCreate(authority, { elliptic_curve: 0 }, client)), ['elliptic_curve FIELD_INVALID'])
  t.same(problemsOf(readCreate(authority, { elliptic_kurve: '' }, client)), ['elliptic_kurve FIELD_UNKNOWN'])
})
