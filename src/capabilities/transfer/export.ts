import { isDeepStrictEqual } from 'node:util'
import { USER, USER_NAMES } from '../../control/access.js'
import { ControlError, controlErrors } from '../../control/errors.js'
import { everyRecord, type Records } from '../../control/records.js'
import type { Clock } from '../../lib/clock.js'
import { newId } from '../../lib/id.js'
import { isObject, type Json } from '../../lib/json.js'
import type { Sealer } from '../../lib/seal.js'
import { Slices, type Steps } from '../../lib/slices.js'
import type { Resource } from '../../resources/resource.js'
import { checkValue } from '../../schema/check.js'
import { type Body, type Field, noContext, type Reading, type ResourceRecord } from '../../schema/field.js'
import type { StoredRecord } from '../../store/records.js'
import type { Store, StoreReader } from '../../store/store.js'
import {
  ACCOUNT_FORMAT,
  type AccountDocument,
  type PassphraseParameters,
  type RecordEntry,
  type UserEntry
} from './document.js'
import { endMarkOf } from './end-mark.js'
import { type PastRecord, PastRecords } from './past.js'

/** Values created by the service: `shown` ones are in API responses, `hidden` ones (token hashes) never. */
interface MadeValues {
  readonly shown: Readonly<Record<string, Json>>
  readonly hidden: Readonly<Record<string, Json>>
}

/** The fields that no client gives and the record holds. */
export function madeFields({ fields }: Resource): [string, Field][] {
  return Object.entries(fields).filter(([, { kept, settable }]) => kept && settable === 'never')
}

export function madeValues(resource: Resource, record: ResourceRecord): MadeValues {
  const shown: Record<string, Json> = {}
  const hidden: Record<string, Json> = {}
  for (const [name, field] of madeFields(resource)) {
    const stored = record.body[name] as Json
    if (stored === undefined || isDeepStrictEqual(stored, field.initial)) continue
    const isHidden = field.present(stored, name, record, noContext) === null
    if (isHidden) hidden[name] = stored
    else shown[name] = stored
  }
  return { shown, hidden }
}

/** Returns the reason why a made field cannot have this value; undefined if it can. */
export function madeRefusal(resource: Resource, name: string, value: unknown): string | undefined {
  const field = new Map(madeFields(resource)).get(name)
  if (field === undefined) {
    const names = madeFields(resource).map(([known]) => known)
    return `is nothing that the service makes; made are ${names.length === 0 ? 'none' : names.join(', ')}`
  }
  const fits = typeof field.initial === 'string' ? typeof value === 'string' : matches(field.response ?? {}, value)
  return fits ? undefined : 'is not what the service makes here'
}

/** Returns the body with made values. Values that reading has derived from other fields are kept: they cannot contradict them. */
export function withMade(resource: Resource, read: Readonly<Body>, made: Readonly<Record<string, unknown>>): Body {
  const body = { ...read }
  for (const [name, field] of madeFields(resource)) {
    if (Object.hasOwn(made, name) && isDeepStrictEqual(body[name], field.initial)) body[name] = made[name]
  }
  return body
}

interface AnswerSchema {
  readonly type?: string
  readonly anyOf?: readonly AnswerSchema[]
  readonly properties?: Readonly<Record<string, AnswerSchema>>
  readonly required?: readonly string[]
  readonly items?: AnswerSchema
}

function matches(schema: AnswerSchema, value: unknown): boolean {
  if (schema.anyOf !== undefined) return schema.anyOf.some((one) => matches(one, value))
  switch (schema.type) {
    case 'null':
      return value === null
    case 'array':
      return Array.isArray(value) && value.every((item) => matches(schema.items ?? {}, item))
    case 'object':
      return (
        isObject(value) &&
        (schema.required ?? []).every((name) => Object.hasOwn(value, name)) &&
        Object.entries(schema.properties ?? {}).every(
          ([name, inner]) => !Object.hasOwn(value, name) || matches(inner, value[name])
        )
      )
    case 'integer':
      return Number.isSafeInteger(value)
    case undefined:
      return true
    default:
      return typeof value === schema.type
  }
}

/** Subset of a request's JSON Schema that defines the encoding of values. */
interface RequestSchema {
  readonly type?: unknown
  readonly properties?: Readonly<Record<string, RequestSchema>>
  readonly writeOnly?: boolean
  readonly minProperties?: number
  readonly maxProperties?: number
}

/** A record as a request that would create it, without values missing in responses. */
interface RequestForm {
  readonly fields: Readonly<Record<string, Json>>
  /** Paths of secrets that are set and left out. */
  readonly secrets: readonly string[]
}

/** Converts a record into a creation request: unset fields are left out, ids of parents are among the fields. */
export function requestForm(resource: Resource, { body }: Pick<ResourceRecord, 'body'>): RequestForm {
  const fields: Record<string, Json> = {}
  const secrets: string[] = []
  for (const [name, field] of Object.entries(resource.fields)) {
    const stored = Object.hasOwn(body, name) ? body[name] : field.initial
    if (!isGiven(field) || isUnset(field, name, stored)) continue
    const written =
      field.request === undefined ? stored : asWritten(field.request as RequestSchema, stored, name, secrets)
    if (written !== undefined) fields[field.requestName(name)] = written as Json
  }
  return { fields, secrets }
}

/** Names that a member of a stored object may have in requests, the likeliest first. */
function requestNames(name: string): string[] {
  const singular = name.endsWith('ies') ? `${name.slice(0, -3)}y` : name.replace(/s$/, '')
  return [name, `${name}_id`, `${singular}_ids`]
}

/** Can a client set the field, in the body or in the path? */
export function isGiven({ kept, settable }: Field): boolean {
  return kept && (settable === 'always' || settable === 'create' || settable === 'path')
}

/** Is the value equal to that of a creation without the field, or inexpressible in a request? */
function isUnset(field: Field, name: string, stored: unknown): boolean {
  if (stored === null || stored === undefined) return true
  if (JSON.stringify(stored) !== JSON.stringify(field.initial)) return false
  if (stored === '' || (typeof stored === 'object' && Object.keys(stored).length === 0)) return true
  if (field.request === undefined || (field.request as RequestSchema).writeOnly === true) return false
  let refused = false
  const reading: Reading = { checkPolicy: () => undefined, secret: () => undefined, report: () => (refused = true) }
  field.read(stored, name, name, reading)
  return refused
}

function asWritten(schema: RequestSchema, stored: unknown, path: string, secrets: string[]): unknown {
  if (schema.writeOnly === true) {
    if (stored !== true) return ''
    secrets.push(path)
    return undefined
  }
  if (schema.properties === undefined || !isObject(stored)) return stored
  if (isChoice(schema, stored)) {
    const { name, value } = stored
    const inner = schema.properties[name]
    return inner === undefined ? {} : { [name]: asWritten(inner, value, `${path}.${name}`, secrets) }
  }
  const members: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(stored)) {
    const key = requestNames(name).find((form) => Object.hasOwn(schema.properties ?? {}, form))
    const inner = key === undefined ? undefined : schema.properties[key]
    if (key === undefined || inner === undefined || value === null || isUnsayable(inner, value)) continue
    const written = asWritten(inner, value, `${path}.${name}`, secrets)
    if (written !== undefined) members[key] = written
  }
  return members
}

/** An object of which exactly one member is given is stored as that member with its name. */
function isChoice(
  { minProperties, maxProperties, properties }: RequestSchema,
  stored: Record<string, unknown>
): stored is { name: string; value: unknown } {
  return properties !== undefined && minProperties === 1 && maxProperties === 1 && typeof stored.name === 'string'
}

/** An empty text where none can be given: the member is unset. */
function isUnsayable(schema: RequestSchema, value: unknown): boolean {
  if (value !== '' || schema.writeOnly === true || schema.type !== 'string') return false
  return checkValue(schema as object, value, '', () => undefined) === undefined
}

interface ExportOptions {
  readonly resources: readonly Resource[]
  readonly records: Records
  /** Version of this program. */
  readonly version: string
  /** Encrypts the write-only values of the document. @default they are left out */
  readonly secrets?: { readonly parameters: PassphraseParameters; readonly sealer: Sealer }
}

/** Maximum number of retries if other writes occur between reading history and records. */
const ATTEMPTS = 5

/**
 * Exports the account at one revision. Reads within a write transaction that writes nothing: other writers wait, so that all
 * records belong to one revision. `at`: an earlier revision, from the history; fails with `NOT_FOUND` if it never existed or
 * is no longer in the history, and with `REVISION_INCOMPLETE`.
 */
export async function exportAccount(
  store: Store,
  clock: Clock,
  { at, ...options }: ExportOptions & { readonly at?: number | undefined }
): Promise<AccountDocument> {
  const past = at === undefined ? undefined : new PastRecords(store, exportedOf(options.resources), at)
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    await past?.follow()
    past?.mustBeKnown()
    const { value } = await store.transact(newId('op', clock.wall()), async (tx) => {
      tx.abandon()
      const isBehind = past !== undefined && past.read !== tx.previous
      return isBehind ? undefined : await readAccount(tx, options, past)
    })
    if (value !== undefined) return value
  }
  throw new ControlError(controlErrors.BUSY, 'other processes write all the time; try again')
}

/** Those that a client makes. */
function exportedOf(resources: readonly Resource[]): readonly Resource[] {
  return resources.filter(({ operations }) => operations.includes('create'))
}

async function readAccount(reader: StoreReader, options: ExportOptions, past?: PastRecords): Promise<AccountDocument> {
  const { resources, version, secrets } = options
  const users: UserEntry[] = []
  for (const stored of await oldestFirst(reader, USER)) {
    if (past?.isNewer(stored) !== true) users.push(await userEntry(reader, stored))
  }
  const records: Record<string, RecordEntry[]> = {}
  for (const resource of exportedOf(resources)) {
    const there = await oldestFirst(reader, resource.name)
    const entries = await new Slices().run(entriesOf(resource, there, options, past))
    if (entries.length > 0) records[resource.name] = entries
  }
  const header = { format: ACCOUNT_FORMAT, version } as const
  const end = await new Slices().run(endMarkOf({ users, records }))
  return { ...header, ...(secrets === undefined ? {} : { secrets: secrets.parameters }), users, records, end }
}

function* entriesOf(
  resource: Resource,
  there: readonly StoredRecord[],
  { records, secrets }: ExportOptions,
  past: PastRecords | undefined
): Steps<RecordEntry[]> {
  const all: PastRecord[] = []
  for (const stored of there) {
    const found = pastRecord(stored, records.open(stored).record, past)
    if (found !== undefined) all.push(found)
    yield
  }
  if (past !== undefined) {
    all.push(...past.gone(resource))
    all.sort((a, b) => (a.createdAt ?? 0) - (b.createdAt ?? 0))
  }
  const entries: RecordEntry[] = []
  for (const one of all) {
    entries.push(recordEntry(resource, one, secrets?.sealer))
    yield
  }
  return entries
}

function pastRecord(
  { createdAt }: StoredRecord,
  record: ResourceRecord,
  past: PastRecords | undefined
): PastRecord | undefined {
  return past === undefined ? { record, createdAt, lost: [], hidden: [] } : past.of(record, createdAt)
}

async function oldestFirst(reader: StoreReader, kind: string): Promise<StoredRecord[]> {
  const all: StoredRecord[] = []
  for await (const page of everyRecord(reader, kind)) all.push(...page)
  return all.reverse()
}

async function userEntry(reader: StoreReader, { id, createdAt, body }: StoredRecord): Promise<UserEntry> {
  const name = (await reader.claimsOf(USER, id)).find(({ space }) => space === USER_NAMES)?.value
  const { role } = body as unknown as Pick<UserEntry, 'role'>
  return { id, created_at: exactTime(createdAt), ...(name === undefined ? {} : { name }), role }
}

function recordEntry(resource: Resource, past: PastRecord, sealer: Sealer | undefined): RecordEntry {
  const { record, createdAt } = past
  const { fields, secrets } = requestForm(resource, record)
  const { shown, hidden } = madeValues(resource, record)
  const wasSet = (path: string) => !isSecretField(resource, path.split('.')) || secrets.includes(path)
  const missing = [...past.lost.filter(wasSet), ...past.hidden]
  return {
    id: record.id,
    ...(createdAt === undefined ? {} : { created_at: exactTime(createdAt) }),
    fields,
    ...(Object.keys(shown).length === 0 ? {} : { made: shown }),
    ...writeOnly(record, { hidden, missing }, sealer)
  }
}

/** Is this the path of a write-only request field? */
export function isSecretField(resource: Resource, [first = '', ...others]: readonly string[]): boolean {
  let schema = resource.fields[first]?.request as RequestSchema | undefined
  for (const name of others) schema = schema?.properties?.[name]
  return schema?.writeOnly === true
}

function writeOnly(
  { kind, id, secrets }: ResourceRecord,
  { hidden, missing }: { readonly hidden: Readonly<Record<string, Json>>; readonly missing: readonly string[] },
  sealer: Sealer | undefined
): Pick<RecordEntry, 'sealed' | 'withheld'> {
  const names = [...Object.keys(secrets), ...Object.keys(hidden)]
  const withheld = sealer === undefined ? [...names, ...missing] : missing
  const listed = withheld.length === 0 ? {} : { withheld: [...new Set(withheld)].sort() }
  if (sealer === undefined || names.length === 0) return listed
  const plain = Buffer.from(JSON.stringify({ secrets, made: hidden } satisfies WriteOnlyValues))
  return { ...listed, sealed: Buffer.from(sealer.seal(plain, sealedFor(kind, id))).toString('base64') }
}

/** Sealed values of one record. */
export interface WriteOnlyValues {
  readonly secrets: Readonly<Record<string, string>>
  readonly made: Readonly<Record<string, Json>>
}

/** Returns the context to which sealed values of a document are bound. */
export function sealedFor(kind: string, id: string): string {
  return `export ${kind}/${id}`
}

/** RFC 3339 with milliseconds: the order of records hangs on them. */
function exactTime(wall: number): string {
  return new Date(wall).toISOString()
}
