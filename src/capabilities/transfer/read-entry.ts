import { isDeepStrictEqual } from 'node:util'
import { CodedError } from '../../lib/errors.js'
import { isObject, timestampText } from '../../lib/json.js'
import type { Sealer } from '../../lib/seal.js'
import { createRecord, readCreate, readUpdate } from '../../resources/read.js'
import type { Resource } from '../../resources/resource.js'
import type { Body, Makers, PolicyCheck, Problem, ResourceRecord } from '../../schema/field.js'
import type { RecordEntry, TransferPath, TransferProblem } from './document.js'
import {
  isGiven,
  isSecretField,
  madeFields,
  madeRefusal,
  madeValues,
  requestForm,
  sealedFor,
  type WriteOnlyValues,
  withMade
} from './export.js'

export interface EntryOptions {
  readonly checkPolicy: PolicyCheck
  /** Decrypts sealed values; undefined if there are none. */
  readonly sealer: Sealer | undefined
  readonly makers: Makers
}

export type EntryRead =
  | { readonly ok: true; readonly record: ResourceRecord }
  | { readonly ok: false; readonly problems: readonly TransferProblem[] }

const NOTHING: WriteOnlyValues = { secrets: {}, made: {} }

/**
 * Reads and validates an entry by the rules of the API. `current` is the record with its id, if it exists: it is replaced,
 * but keeps write-only values that the entry does not have. References and uniqueness are not checked here.
 */
export async function readEntry(
  resource: Resource,
  entry: RecordEntry,
  current: ResourceRecord | undefined,
  path: TransferPath,
  options: EntryOptions
): Promise<EntryRead> {
  const reader = new EntryReader(resource, entry, current, path, options)
  const record = await reader.read()
  return record === undefined || reader.problems.length > 0
    ? { ok: false, problems: reader.problems }
    : { ok: true, record }
}

class EntryReader {
  readonly problems: TransferProblem[] = []
  readonly #resource: Resource
  readonly #entry: RecordEntry
  readonly #current: ResourceRecord | undefined
  readonly #path: TransferPath
  readonly #options: EntryOptions

  constructor(
    resource: Resource,
    entry: RecordEntry,
    current: ResourceRecord | undefined,
    path: TransferPath,
    options: EntryOptions
  ) {
    this.#resource = resource
    this.#entry = entry
    this.#current = current
    this.#path = path
    this.#options = options
  }

  async read(): Promise<ResourceRecord | undefined> {
    const opened = this.#opened()
    if (opened === undefined) return undefined
    const { fields, made } = this.#entry
    for (const [name, value] of Object.entries(made ?? {})) this.#checkMade(name, value)
    const request = structuredClone(fields) as Record<string, unknown>
    const kept = this.#fillSecrets(request, opened)
    this.#mustHaveWithheld(request, kept, opened)
    const { body, path } = this.#split(request)
    const read = readCreate(this.#resource, body, { checkPolicy: this.#options.checkPolicy, path })
    if (!read.ok) {
      this.#refuse(read.problems)
      return undefined
    }
    if (this.problems.length > 0) return undefined
    const isNew = this.#current === undefined && this.#entry.made === undefined && this.#entry.sealed === undefined
    if (isNew) return await this.#make(read.input)
    const given = { ...read.input.body, ...path }
    const hidden = { ...hiddenOf(this.#resource, this.#current), ...opened.made }
    const whole = withMade(this.#resource, given, { ...(this.#entry.made ?? this.#current?.body), ...hidden })
    const record = { ...this.#identity(), body: whole, secrets: { ...kept, ...read.input.secrets } }
    return this.#current === undefined ? await this.#checked(record) : await this.#updated(record, this.#current)
  }

  #identity(): Pick<ResourceRecord, 'kind' | 'id' | 'createdAt'> {
    const { created_at: given, id } = this.#entry
    const at = given === undefined ? this.#options.makers.clock.wall() : Date.parse(given)
    return { kind: this.#resource.name, id, createdAt: this.#current?.createdAt ?? timestampText(at) }
  }

  /** The write-only values that the entry has; undefined after a report. */
  #opened(): WriteOnlyValues | undefined {
    const { sealed, id } = this.#entry
    if (sealed === undefined) return NOTHING
    const { sealer } = this.#options
    const refuse = (message: string) => {
      this.problems.push({ path: [...this.#path, 'sealed'], code: 'SEAL_BROKEN', message })
      return undefined
    }
    if (sealer === undefined) return refuse('is there, but the document does not say how it is sealed')
    try {
      const plain = sealer.open(Buffer.from(sealed, 'base64'), sealedFor(this.#resource.name, id))
      return JSON.parse(Buffer.from(plain).toString('utf8')) as WriteOnlyValues
    } catch (error) {
      if (!(error instanceof CodedError)) throw error
      return refuse('has been changed, or belongs to another record or document')
    }
  }

  /**
   * Adds secrets to the request, unless it has them. Returns those that no request field holds, because the service created
   * them.
   */
  #fillSecrets(request: Record<string, unknown>, opened: WriteOnlyValues): Record<string, string> {
    const { sealed, withheld = [] } = this.#entry
    const current = Object.entries(this.#current?.secrets ?? {})
    // An export may have left out values beside sealed ones: those are kept.
    const staying = current.filter(([path]) => sealed === undefined || withheld.includes(path))
    const known = { ...Object.fromEntries(staying), ...opened.secrets }
    const rest: Record<string, string> = {}
    for (const [path, text] of Object.entries(known)) {
      const names = path.split('.')
      if (isSecretField(this.#resource, names)) fill(request, names, text)
      else rest[path] = text
    }
    return rest
  }

  /** Checks that values left out by the export are available. */
  #mustHaveWithheld(request: object, kept: Readonly<Record<string, string>>, { made }: WriteOnlyValues): void {
    const current = this.#current?.body ?? {}
    for (const [index, name] of (this.#entry.withheld ?? []).entries()) {
      const there = valueAt(request, name.split('.')) !== undefined || Object.hasOwn(kept, name)
      const isHash = Object.hasOwn(made, name) || (current[name] ?? null) !== null
      if (there || isHash) continue
      const message = `${name} was left out of this document and ${this.#resource.name} ${this.#entry.id} has none here: import a document with secrets, or give the value under fields`
      this.problems.push({ path: [...this.#path, 'withheld', index], code: 'SECRET_MISSING', message })
    }
  }

  #checkMade(name: string, value: unknown): void {
    const refusal = madeRefusal(this.#resource, name, value)
    if (refusal === undefined) return
    this.problems.push({ path: [...this.#path, 'made', name], code: 'FIELD_INVALID', message: refusal })
  }

  /** Ids of parents belong to the path of a request. */
  #split(request: Record<string, unknown>): { body: Record<string, unknown>; path: Record<string, string> } {
    const parents = Object.entries(this.#resource.fields).filter(([, { settable }]) => settable === 'path')
    const names = new Set(parents.map(([name]) => name))
    const entries = Object.entries(request)
    return {
      body: Object.fromEntries(entries.filter(([name]) => !names.has(name))),
      path: Object.fromEntries(entries.filter(([name]) => names.has(name))) as Record<string, string>
    }
  }

  /** A record that no service has seen yet: everything that the service makes is made now. */
  async #make(input: Parameters<typeof createRecord>[1]): Promise<ResourceRecord | undefined> {
    const { id } = this.#entry
    const made = await createRecord(this.#resource, input, { ...this.#options.makers, newId: () => id })
    if (!made.ok) {
      this.#refuse(made.problems)
      return undefined
    }
    const [shownOnce] = Object.keys(made.once)
    if (shownOnce === undefined) return { ...made.record, ...this.#identity() }
    const message = `a new ${this.#resource.name} has a ${shownOnce} that is shown once: create it through the API`
    this.problems.push({ path: this.#path, code: 'SECRET_MISSING', message })
    return undefined
  }

  async #updated(record: ResourceRecord, current: ResourceRecord): Promise<ResourceRecord | undefined> {
    const { created_at: createdAt } = this.#entry
    if (createdAt !== undefined && timestampText(Date.parse(createdAt)) !== current.createdAt) {
      this.#immutable(['created_at'])
    }
    const changed = changedFields(this.#resource, current, record)
    for (const name of changed) {
      const field = this.#resource.fields[name]
      if (field !== undefined && isGiven(field) && field.settable !== 'always') {
        this.#immutable(['fields', field.requestName(name)])
      }
    }
    if (this.problems.length > 0) return undefined
    if (changed.length === 0) return current
    const body: Body = { ...record.body, ...this.#reset(record, current, changed) }
    for (const [name, field] of Object.entries(this.#resource.fields)) {
      if (field.onUpdate !== undefined) body[name] = field.onUpdate(this.#options.makers).stored
    }
    return await this.#checked({ ...record, body }, current)
  }

  /**
   * Applies rules that compare with the former record, as an update with the changed fields. Returns the made values that
   * the rules have changed.
   */
  #reset(record: ResourceRecord, current: ResourceRecord, changed: readonly string[]): Body {
    const { fields } = requestForm(this.#resource, record)
    const request: Record<string, unknown> = {}
    for (const name of changed) {
      const field = this.#resource.fields[name]
      if (field?.settable !== 'always') continue
      const key = field.requestName(name)
      if (fields[key] !== undefined) request[key] = structuredClone(fields[key])
      else if (field.onNull === 'clears' && !field.required) request[key] = null
    }
    for (const [path, text] of Object.entries(record.secrets)) {
      const names = path.split('.')
      if (changed.includes(names[0] as string)) fill(request, names, text)
    }
    const read = readUpdate(this.#resource, current, request, { checkPolicy: () => undefined, path: {} })
    if (!read.ok) {
      this.#refuse(read.problems)
      return {}
    }
    const { body } = read.input
    const reset = madeFields(this.#resource).filter(([name]) => !isDeepStrictEqual(body[name], current.body[name]))
    return Object.fromEntries(reset.map(([name]) => [name, body[name]]))
  }

  /** Runs the resource's own checks on a whole record, as an update that creates no values. */
  async #checked(record: ResourceRecord, current: ResourceRecord = record): Promise<ResourceRecord> {
    const { make } = this.#resource
    if (make === undefined) return record
    const body: Body = { ...record.body }
    const secrets = { ...record.secrets }
    await make({
      id: record.id,
      body,
      before: current.body,
      makers: this.#options.makers,
      secret(path, text) {
        secrets[path] = text
      },
      report: (field, code, message) => this.#refuse([{ field, code, message }])
    })
    return { ...record, body, secrets }
  }

  #immutable(place: readonly string[]): void {
    const message = 'is given at creation and cannot be changed'
    this.problems.push({ path: [...this.#path, ...place], code: 'IMMUTABLE', message })
  }

  #refuse(problems: readonly Problem[]): void {
    for (const { field, code, message, details } of problems) {
      const path = [...this.#path, 'fields', ...segmentsOf(field)]
      const { line, column } = details ?? {}
      const within =
        line === undefined || column === undefined ? {} : { within: { line: Number(line), column: Number(column) } }
      this.problems.push({ path, code, message, ...within })
    }
  }
}

/** Returns the values that API responses never contain: an entry without them keeps them. */
function hiddenOf(resource: Resource, record: ResourceRecord | undefined): Readonly<Record<string, unknown>> {
  return record === undefined ? {} : madeValues(resource, record).hidden
}

/** `a.b[2].c` to its steps. */
export function segmentsOf(field: string): (string | number)[] {
  const steps = field.match(/[^.[\]]+|\[\d+\]/g) ?? []
  return steps.map((step) => (step.startsWith('[') ? Number(step.slice(1, -1)) : step))
}

/** Names of the fields in which two records differ; secrets count for their field, times of writing do not. */
export function changedFields(resource: Resource, before: ResourceRecord, after: ResourceRecord): string[] {
  const made = new Set(madeFields(resource).map(([name]) => name))
  return Object.entries(resource.fields)
    .filter(([name, field]) => {
      if (!field.kept || (made.has(name) && field.onUpdate !== undefined)) return false
      const [then, now] = [before, after].map(({ body }) => (Object.hasOwn(body, name) ? body[name] : field.initial))
      return !isDeepStrictEqual(then, now) || !isDeepStrictEqual(secretsOf(before, name), secretsOf(after, name))
    })
    .map(([name]) => name)
}

function secretsOf({ secrets }: ResourceRecord, name: string): [string, string][] {
  return Object.entries(secrets)
    .filter(([path]) => path === name || path.startsWith(`${name}.`))
    .sort(([a], [b]) => (a < b ? -1 : 1))
}

function valueAt(root: unknown, names: readonly string[]): unknown {
  let value = root
  for (const name of names) value = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
  return value
}

/** Sets a missing value if its parent object exists. */
function fill(root: Record<string, unknown>, names: readonly string[], text: string): void {
  const holder = valueAt(root, names.slice(0, -1))
  const name = names.at(-1) as string
  if (isObject(holder) && !Object.hasOwn(holder, name)) holder[name] = text
}
