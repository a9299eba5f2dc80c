import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import t, { type Test } from 'tap'
import { resources } from '../../src/resources/registry.js'
import { createSchema, listSchema, responseSchema, title, updateSchema } from '../../src/schema/json-schema.js'
import type { Schema } from '../../src/schema/schema.js'

/** Types of the published TypeScript client: what it reads of each answer, and what it sends. */
const declarations = readFileSync(createRequire(import.meta.url).resolve('@ngrok/ngrok-api/lib/datatypes.d.ts'), 'utf8')

/** Members of each type by its name in lower case: the name on the wire, and the type of the value. */
const types = new Map<string, ReadonlyMap<string, string>>()
for (const [, name = '', body = ''] of declarations.matchAll(/^export interface (\w+) \{\n(.*?)^\}/gms)) {
  const members = [...body.matchAll(/^ {4}(\w+)\??: (?:Array<)?(\w+)/gm)]
  types.set(name.toLowerCase(), new Map(members.map(([, member = '', type = '']) => [onTheWire(member), type])))
}

function onTheWire(member: string): string {
  return member.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** Members of bodies and answers that may be absent. */
const ABSENT: readonly RegExp[] = [
  // Ids of the path, which a body may repeat.
  /^(POST|PATCH) \w+\.(edge_)?id$/,
  // The structured form of policies before traffic_policy; always null in answers.
  /^(POST|PATCH) \w+\.policy$/
]

/** Paths of the members of a type that a schema lacks. */
function* lacking(schema: Schema | undefined, type: string, at: string): Generator<string> {
  const whole = schema?.anyOf?.find((one) => one.type !== 'null') ?? schema
  const shape = whole?.items ?? whole
  const members = types.get(type.toLowerCase())
  if (members === undefined || shape?.properties === undefined) return
  for (const [name, inner] of members) {
    const property = shape.properties[name]
    if (property === undefined) yield `${at}.${name}`
    else yield* lacking(property, inner, `${at}.${name}`)
  }
}

const checked: string[] = []
for (const resource of resources) {
  const name = title(resource.name)
  if (!types.has(name.toLowerCase())) continue
  checked.push(resource.name)
  t.test(resource.name, async (t) => {
    const has = (operation: 'create' | 'update' | 'list') => resource.operations.includes(operation)
    const answer = responseSchema(resource)
    all(t, lacking(answer as Schema, name, resource.name))
    if (has('create')) all(t, lacking(createSchema(resource) as Schema, `${name}Create`, `POST ${resource.name}`))
    if (has('update')) all(t, lacking(updateSchema(resource) as Schema, `${name}Update`, `PATCH ${resource.name}`))
    if (has('list')) all(t, lacking(listSchema(resource, answer) as Schema, `${name}List`, `GET ${resource.name}`))
  })
}

function all(t: Test, found: Iterable<string>) {
  t.same(
    [...found].filter((path) => !ABSENT.some((form) => form.test(path))),
    []
  )
}

t.test('the types of most resources are checked', async (t) => {
  t.ok(checked.length >= 20, checked.join(', '))
})
