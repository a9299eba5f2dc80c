import t from 'tap'
import { readCreate, readUpdate } from '../../src/resources/read.js'
import { resources } from '../../src/resources/registry.js'
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

const bodyOf = (read: ReturnType<typeof readCreate>) => (read.ok ? read.input.body : undefined)

t.test('an update by a client that sends null for all that is unset changes nothing', async (t) => {
  for (const resource of resources.filter(({ operations }) => operations.includes('update'))) {
    const { record } = await created(resource, bodies[resource.name]!.full)
    const names = Object.keys((updateSchema(resource) as Schema).properties ?? {})
    const nulls = Object.fromEntries(names.map((name) => [name, null]))
    const read = readUpdate(resource, record, nulls, { ...client, nullIsUnset: true })
    t.same([bodyOf(read), problemsOf(read)], [record.body, []], `${resource.name}: ${names.length} fields`)
  }
})

/** Fields whose zero differs from their default, and is meant. */
const MEANT = ['bot_user.active', 'ssh_user_certificate.extensions', 'kubernetes_operator.region']

t.test('a creation may send the zero value of every other field at once', async (t) => {
  for (const resource of resources.filter(({ operations }) => operations.includes('create'))) {
    const { properties = {}, required = [] } = createSchema(resource) as Schema
    const full = bodies[resource.name]!.full as Readonly<Record<string, unknown>>
    const needed = Object.fromEntries(required.map((name) => [name, full[name]]))
    const others = Object.entries(properties).filter(([name]) => !MEANT.includes(`${resource.name}.${name}`))
    const zeros = others.map(([name, declared]) => {
      const { type, properties: members } = declared.anyOf?.find(({ type }) => type !== 'null') ?? declared
      return [name, members === undefined ? (ZEROS[type ?? ''] ?? null) : null] as const
    })
    const [alone, whole] = [needed, { ...Object.fromEntries(zeros), ...needed }].map((body) =>
      readCreate(resource, body, client)
    )
    t.same([bodyOf(whole!), problemsOf(whole!)], [bodyOf(alone!), problemsOf(alone!)], resource.name)
  }
})
