import { type Json, timestampText } from '../lib/json.js'
import type { Body, Makers, Problem, ResourceRecord } from './field.js'
import type { Input, Refused } from './read.js'
import type { Resource } from './resource.js'

export type Written =
  | {
      readonly ok: true
      readonly record: ResourceRecord
      /** Members that the answer to this one request shows in place of what every later answer has. */
      readonly once: Readonly<Record<string, Json>>
    }
  | Refused

/**
 * The record of a creation whose references have been found to exist: id, time and every value that the service makes.
 * Refused when something that it is made from does not fit.
 */
export async function createRecord(resource: Resource, input: Input, makers: Makers): Promise<Written> {
  const id = makers.newId(resource.idPrefix)
  const body = { ...input.body }
  const once: Record<string, Json> = {}
  for (const [name, field] of Object.entries(resource.fields)) {
    if (field.onCreate === undefined || input.given.has(name)) continue
    const made = field.onCreate(id, makers)
    body[name] = made.stored
    if (made.once !== undefined) once[name] = made.once
  }
  const createdAt = timestampText(makers.clock.wall())
  return make(resource, { kind: resource.name, id, createdAt, body, secrets: { ...input.secrets } }, once, makers)
}

/** The record after an update. Sealed values of the fields that the request gives are replaced, the others stay. */
export async function updateRecord(
  resource: Resource,
  current: ResourceRecord,
  input: Input,
  makers: Makers
): Promise<Written> {
  const body = { ...input.body }
  for (const [name, field] of Object.entries(resource.fields)) {
    if (field.onUpdate !== undefined) body[name] = field.onUpdate(makers).stored
  }
  const secrets = { ...secretsWithout(current.secrets, replaced(current.body, body, input)), ...input.secrets }
  return make(resource, { ...current, body, secrets }, {}, makers, current.body)
}

/** The record without the module, or without the clearable field, `name`, whose rules may refuse that. */
export function clearField(resource: Resource, current: ResourceRecord, name: string): Written {
  const body: Body = { ...current.body, [name]: resource.fields[name]?.initial }
  const given = new Set([name])
  const problems: Problem[] = []
  const rules = resource.clearable.includes(name) ? resource.rules.filter(({ on }) => on.includes(name)) : []
  for (const { check } of rules) {
    check({
      body,
      given,
      before: current.body,
      secret: (path) => current.secrets[path],
      report: (field, code, message) => problems.push({ field, code, message })
    })
  }
  if (problems.length > 0) return { ok: false, problems }
  const gone = replaced(current.body, body, { given })
  return { ok: true, record: { ...current, body, secrets: secretsWithout(current.secrets, gone) }, once: {} }
}

/** Fields that the request gives, and those that a rule has changed on the way. */
function replaced(before: Readonly<Body>, after: Body, { given }: Pick<Input, 'given'>): ReadonlySet<string> {
  return new Set([...given, ...Object.keys(after).filter((name) => after[name] !== before[name])])
}

function secretsWithout(secrets: ResourceRecord['secrets'], fields: ReadonlySet<string>): Record<string, string> {
  return Object.fromEntries(Object.entries(secrets).filter(([path]) => !fields.has(path.split('.')[0] as string)))
}

async function make(
  resource: Resource,
  record: ResourceRecord & { readonly body: Body },
  once: Readonly<Record<string, Json>>,
  makers: Makers,
  before?: Readonly<Body>
): Promise<Written> {
  if (resource.make === undefined) return { ok: true, record, once }
  const problems: Problem[] = []
  const secrets = { ...record.secrets }
  await resource.make({
    id: record.id,
    body: record.body,
    before,
    makers,
    secret(path, text) {
      secrets[path] = text
    },
    report: (field, code, message) => problems.push({ field, code, message })
  })
  return problems.length > 0 ? { ok: false, problems } : { ok: true, record: { ...record, secrets }, once }
}
