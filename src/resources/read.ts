import { isObject, type Json, timestampText } from '../lib/json.js'
import type { Body, FileCheck, Makers, PolicyCheck, Problem, Reading, ResourceRecord } from '../schema/field.js'
import { readMembers } from '../schema/objects.js'
import type { Resource } from './resource.js'

/** Context for reading a body. */
export interface ReadOptions {
  readonly checkPolicy: PolicyCheck
  /** Checks files. @default the writing process, which is not known here, checks them */
  readonly checkFile?: FileCheck | undefined
  readonly checkFolder?: FileCheck | undefined
  /** See `Reading`: for client requests, not for files, whose authors write zero on purpose. */
  readonly zeroIsAbsent?: boolean
  readonly nullIsUnset?: boolean | undefined
  /** Path parameters of the request by name (`id`, `edge_id`, …). A body may repeat them. */
  readonly path: Readonly<Record<string, string>>
}

/** Stored form of the fields of a valid request, before it becomes a record. */
export interface Input {
  /** For a creation all stored fields, for an update the complete resulting body. */
  readonly body: Body
  /** Names of the fields in the request. */
  readonly given: ReadonlySet<string>
  /** Sealed values in the request, by path. */
  readonly secrets: Readonly<Record<string, string>>
}

/** Result of reading a body. */
export type Read = { readonly ok: true; readonly input: Input } | Refused

interface Refused {
  readonly ok: false
  /** At least one, in the order of the fields. */
  readonly problems: readonly Problem[]
}

/** Maximum number of reported problems; a hostile body could have a hundred thousand. */
const MOST_PROBLEMS = 50

/** Reads the body of a creation. Reports all problems in one pass; never throws because of the body. */
export function readCreate(resource: Resource, body: unknown, options: ReadOptions): Read {
  const collected = collect(options)
  const unwrapped = unwrap(body, options)
  if (unwrapped !== body) repeated(body, options, collected)
  const parents = readPath(resource, options, collected)
  const read = readMembers(
    {
      fields: resource.fields,
      rules: resource.rules,
      mode: 'create',
      at: '',
      path: '',
      tolerated: repeated(unwrapped, options, collected),
      secrets: (path) => collected.secrets[path]
    },
    unwrapped,
    collected.reading
  )
  return finish(read && { ...read, body: { ...read.body, ...parents } }, collected)
}

/** Reads the body of an update of `current`; missing fields are unchanged. */
export function readUpdate(resource: Resource, current: ResourceRecord, body: unknown, options: ReadOptions): Read {
  const collected = collect(options)
  const unwrapped = unwrap(body, options)
  if (unwrapped !== body) repeated(body, options, collected)
  const read = readMembers(
    {
      fields: resource.fields,
      rules: resource.rules,
      mode: 'update',
      at: '',
      path: '',
      tolerated: repeated(unwrapped, options, collected),
      before: current.body,
      secrets: (path) => collected.secrets[path] ?? current.secrets[path]
    },
    unwrapped,
    collected.reading
  )
  return finish(read, collected)
}

/** Reads the body of a PUT of the module `name`, which it replaces completely. `{module: {…}}` is read like its content. */
export function readModule(
  resource: Resource,
  current: ResourceRecord,
  name: string,
  body: unknown,
  options: ReadOptions
): Read {
  const outer = unwrap(body, options)
  if (!isObject(outer)) {
    return { ok: false, problems: [{ field: '', code: 'FIELD_INVALID', message: 'the body must be a JSON object' }] }
  }
  const { problems: astray, ...collected } = collect(options)
  for (const level of new Set([body, outer])) repeated(level, options, { ...collected, problems: astray })
  if (astray.length > 0) return { ok: false, problems: astray }
  const inner = Object.fromEntries(Object.entries(outer).filter(([key]) => !Object.hasOwn(options.path, key)))
  const read = readUpdate(resource, current, { [name]: inner }, options)
  // This request writes only the module, so an empty body is an empty module, not a missing one.
  if (read.ok && !read.input.given.has(name))
    return readModule(resource, current, name, body, { ...options, zeroIsAbsent: false })
  if (read.ok) return read
  // The module is the request body here, so paths of problems are relative to it.
  const problems = read.problems.map((problem) => {
    return { ...problem, field: problem.field === name ? '' : problem.field.replace(`${name}.`, '') }
  })
  return { ok: false, problems }
}

interface Collected {
  readonly reading: Reading
  readonly problems: Problem[]
  readonly secrets: Record<string, string>
}

function collect({ checkPolicy, checkFile, checkFolder, zeroIsAbsent, nullIsUnset }: ReadOptions): Collected {
  const problems: Problem[] = []
  const secrets: Record<string, string> = {}
  const reading: Reading = {
    checkPolicy,
    checkFile,
    checkFolder,
    zeroIsAbsent,
    nullIsUnset,
    report(problem) {
      if (problems.length < MOST_PROBLEMS) problems.push(problem)
    },
    secret(path, text) {
      secrets[path] = text
    }
  }
  return { reading, problems, secrets }
}

function finish(read: { body: Body; given: ReadonlySet<string> } | undefined, { problems, secrets }: Collected): Read {
  return read === undefined || problems.length > 0 ? { ok: false, problems } : { ok: true, input: { ...read, secrets } }
}

/** Unwraps `{…path ids, module: {…}}`, the form in which official clients send a module and some a whole resource. */
function unwrap(body: unknown, { path }: ReadOptions): unknown {
  if (!isObject(body) || !isObject(body.module)) return body
  return Object.keys(body).every((key) => key === 'module' || Object.hasOwn(path, key)) ? body.module : body
}

/** Returns the path ids that the body repeats; reports one that differs from the path. */
function repeated(body: unknown, { path }: ReadOptions, { reading }: Collected): ReadonlySet<string> {
  const names = isObject(body) ? Object.keys(path).filter((name) => Object.hasOwn(body, name)) : []
  for (const name of names) {
    if (isObject(body) && body[name] !== path[name]) {
      reading.report({ field: name, code: 'FIELD_INVALID', message: 'must be what the path says' })
    }
  }
  return new Set(names)
}

function readPath(resource: Resource, { path }: ReadOptions, { reading }: Collected): Body {
  const parents: Body = {}
  for (const [name, field] of Object.entries(resource.fields)) {
    if (field.settable === 'path') parents[name] = field.read(path[name], name, name, reading)
  }
  return parents
}

export type Written =
  | {
      readonly ok: true
      readonly record: ResourceRecord
      /** Members that only the response to the creation shows, in place of the usual values. */
      readonly once: Readonly<Record<string, Json>>
    }
  | Refused

/** Creates a record, whose references must exist: id, time and generated values. Returns a refusal if a generated value is impossible. */
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

/** Returns the record after an update. Sealed values of the given fields are replaced, others are kept. */
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

/** Returns the record without the module or clearable field `name`; its rules may reject that. */
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
      report: (field, code, message) => problems.push({ field, code, message }),
      // A cleared field leaves no new document.
      checkPolicy: () => undefined
    })
  }
  if (problems.length > 0) return { ok: false, problems }
  const gone = replaced(current.body, body, { given })
  return { ok: true, record: { ...current, body, secrets: secretsWithout(current.secrets, gone) }, once: {} }
}

/** Returns the fields given in the request and those changed by a rule. */
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
    report: (field, code, message, details) =>
      problems.push({ field, code, message, ...(details === undefined ? {} : { details }) })
  })
  return problems.length > 0 ? { ok: false, problems } : { ok: true, record: { ...record, secrets }, once }
}
