import { isObject, type Json, timestampText } from '../lib/json.js'
import type { Body, FileCheck, Makers, PolicyCheck, Problem, Reading, ResourceRecord } from '../schema/field.js'
import { readMembers } from '../schema/objects.js'
import type { Resource } from './resource.js'

/** What reading a body needs beside the body. */
export interface ReadOptions {
  readonly checkPolicy: PolicyCheck
  /** Absent where the machine that will write is not known: then that machine refuses. */
  readonly checkFile?: FileCheck | undefined
  readonly checkFolder?: FileCheck | undefined
  /** As in `Reading`: for requests of clients, not for files, whose authors mean what they write. */
  readonly zeroIsAbsent?: boolean
  /** Parameters of the request's path, by name (`id`, `edge_id`, …). A body may repeat them. */
  readonly path: Readonly<Record<string, string>>
}

/** What a valid request says: the stored form of its fields, not yet a record. */
export interface Input {
  /** Of a creation all kept fields, of an update the whole body that results. */
  readonly body: Body
  /** Names of the fields that the request gives. */
  readonly given: ReadonlySet<string>
  /** Sealed values that the request gives, by path. */
  readonly secrets: Readonly<Record<string, string>>
}

/** The outcome of reading a body. */
export type Read = { readonly ok: true; readonly input: Input } | Refused

interface Refused {
  readonly ok: false
  /** In the order of the fields; at least one. */
  readonly problems: readonly Problem[]
}

/** More problems are of no use; a hostile body could have a hundred thousand. */
const MOST_PROBLEMS = 50

/** Reads the body of a creation. Finds every problem in one pass and never throws for what the body says. */
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

/** Reads the body of an update of `current`: what is absent stays. */
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

/** Reads the body of a PUT of the module `name`: it replaces the module whole. `{module: {…}}` is read as its content. */
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
  // Nothing but the module is written here, so that an empty body is no absent one.
  if (read.ok && !read.input.given.has(name))
    return readModule(resource, current, name, body, { ...options, zeroIsAbsent: false })
  if (read.ok) return read
  // In a request of its own the module is the body.
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

function collect({ checkPolicy, checkFile, checkFolder, zeroIsAbsent }: ReadOptions): Collected {
  const problems: Problem[] = []
  const secrets: Record<string, string> = {}
  const reading: Reading = {
    checkPolicy,
    checkFile,
    checkFolder,
    zeroIsAbsent,
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

/** Official clients send a module, and some a whole resource, inside `{…path ids, module: {…}}`. */
function unwrap(body: unknown, { path }: ReadOptions): unknown {
  if (!isObject(body) || !isObject(body.module)) return body
  return Object.keys(body).every((key) => key === 'module' || Object.hasOwn(path, key)) ? body.module : body
}

/** Path ids that the body repeats; another value than in the path is a problem. */
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
