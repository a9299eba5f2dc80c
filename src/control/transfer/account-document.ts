import type { Json } from '../../lib/json.js'
import { isObject } from '../../lib/json.js'
import type { Resource } from '../../resources/resource.js'
import { ImportRefused, type TransferPath, type TransferProblem } from './import-refused.js'
import { type PassphraseParameters, readParameters } from './passphrase.js'

/** Names the form of the document; another number means that older programs must not read it. */
export const ACCOUNT_FORMAT = 'sluice-account/1'

/**
 * A whole account as plain data. Nothing in it depends on the store that it comes from, so that the same account always
 * gives the same document; ids are kept, and references are ids.
 */
export interface AccountDocument {
  readonly format: typeof ACCOUNT_FORMAT
  /** Of the program that wrote it. */
  readonly version: string
  /** How the key of every `sealed` follows from a passphrase; absent: the document has no write-only value. */
  readonly secrets?: PassphraseParameters
  readonly users: readonly UserEntry[]
  /** By kind, in the order in which records can be made; of a kind oldest first. */
  readonly records: Readonly<Record<string, readonly RecordEntry[]>>
}

/** A person. Users are no resource: they own keys and stand in `created_by`. */
export interface UserEntry {
  readonly id: string
  /** RFC 3339 with milliseconds. */
  readonly created_at: string
  /** Absent: it is known by its id alone. */
  readonly name?: string
  readonly role: 'administrator' | 'member'
}

/** One record. Fields stand as a request of the API has them; what is absent has its default. */
export interface RecordEntry {
  readonly id: string
  /** RFC 3339 with milliseconds; the time of the import unless given. */
  readonly created_at?: string
  readonly fields: Readonly<Record<string, Json>>
  /** What the service has made or found out, in the form that the store holds. */
  readonly made?: Readonly<Record<string, Json>>
  /** Paths of the write-only values that the record has and the document has not. */
  readonly withheld?: readonly string[]
  /** Base64 of the sealed write-only values: `{secrets: {path: text}, made: {field: value}}` as JSON. */
  readonly sealed?: string
}

const ENTRY_KEYS = ['id', 'created_at', 'fields', 'made', 'withheld', 'sealed']
const USER_KEYS = ['id', 'created_at', 'name', 'role']
const TOP_KEYS = ['format', 'version', 'secrets', 'users', 'records']
const ROLES = ['administrator', 'member']

/** Checks the form of a document, not what its records say. Throws an `ImportRefused` with every place that is wrong. */
export function readAccountDocument(data: unknown, resources: readonly Resource[]): AccountDocument {
  const problems: TransferProblem[] = []
  const refuse = (path: TransferPath, message: string, code = 'FIELD_INVALID') => problems.push({ path, code, message })
  if (!isObject(data)) throw new ImportRefused([problem([], 'must be a map with format, users and records')])
  if (data.format !== ACCOUNT_FORMAT) {
    const message = `must be ${ACCOUNT_FORMAT}; this program reads no other form`
    throw new ImportRefused([{ path: ['format'], code: 'FORMAT_UNKNOWN', message }])
  }
  onlyKeys(data, TOP_KEYS, [], refuse)
  const { version = '', users = [], records = {} } = data
  if (typeof version !== 'string') refuse(['version'], 'must be text')
  const secrets = data.secrets === undefined ? undefined : readParameters(data.secrets)
  if (typeof secrets === 'string') refuse(['secrets'], secrets)
  if (!Array.isArray(users)) refuse(['users'], 'must be a list')
  else for (const [index, user] of users.entries()) checkUser(user, ['users', index], refuse)
  if (isObject(records)) checkRecords(records, resources, refuse)
  else refuse(['records'], 'must be a map of lists by kind')
  if (problems.length > 0) throw new ImportRefused(problems)
  return { ...data, version, users, records } as AccountDocument
}

type Refuse = (path: TransferPath, message: string, code?: string) => void

function checkUser(user: unknown, path: TransferPath, refuse: Refuse): void {
  if (!isObject(user)) {
    refuse(path, 'must be a map with id and role')
    return
  }
  onlyKeys(user, USER_KEYS, path, refuse)
  if (typeof user.id !== 'string' || !/^usr_[0-9A-Za-z]{1,64}$/.test(user.id)) refuse([...path, 'id'], 'must be usr_…')
  if (!ROLES.includes(user.role as string)) refuse([...path, 'role'], `must be one of ${ROLES.join(', ')}`)
  if (user.name !== undefined && (typeof user.name !== 'string' || user.name === '')) {
    refuse([...path, 'name'], 'must be text')
  }
  checkTime(user.created_at, [...path, 'created_at'], refuse)
}

function checkRecords(records: Record<string, unknown>, resources: readonly Resource[], refuse: Refuse): void {
  for (const [kind, entries] of Object.entries(records)) {
    const resource = resources.find(({ name }) => name === kind)
    if (resource?.operations.includes('create') !== true) {
      const known = resources.filter(({ operations }) => operations.includes('create')).map(({ name }) => name)
      refuse(['records', kind], `there is no such kind; the kinds are ${known.join(', ')}`, 'KIND_UNKNOWN')
    } else if (Array.isArray(entries)) checkEntries(resource, entries, refuse)
    else refuse(['records', kind], 'must be a list')
  }
}

function checkEntries({ name, idPrefix }: Resource, entries: readonly unknown[], refuse: Refuse): void {
  const ids = new Set<unknown>()
  const form = new RegExp(`^${idPrefix}_[0-9A-Za-z]{1,64}$`)
  for (const [index, entry] of entries.entries()) {
    const path = ['records', name, index]
    if (!isObject(entry)) {
      refuse(path, 'must be a map with id and fields')
      continue
    }
    onlyKeys(entry, ENTRY_KEYS, path, refuse)
    const { id, created_at, fields, made, withheld, sealed } = entry
    if (typeof id !== 'string' || !form.test(id)) refuse([...path, 'id'], `must be ${idPrefix}_ and letters or digits`)
    else if (ids.has(id)) refuse([...path, 'id'], 'is there twice')
    ids.add(id)
    checkTime(created_at, [...path, 'created_at'], refuse)
    if (!isObject(fields)) refuse([...path, 'fields'], 'must be a map')
    if (made !== undefined && !isObject(made)) refuse([...path, 'made'], 'must be a map')
    const listed = Array.isArray(withheld) && withheld.every((one) => typeof one === 'string')
    if (withheld !== undefined && !listed) refuse([...path, 'withheld'], 'must be a list of texts')
    if (sealed !== undefined && typeof sealed !== 'string') refuse([...path, 'sealed'], 'must be base64 text')
  }
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/

function checkTime(value: unknown, path: TransferPath, refuse: Refuse): void {
  if (value === undefined || (typeof value === 'string' && TIME.test(value) && !Number.isNaN(Date.parse(value)))) return
  refuse(path, 'must be a time in RFC 3339 format, in UTC, such as 2026-01-31T12:00:00.000Z')
}

function onlyKeys(data: object, known: readonly string[], path: TransferPath, refuse: Refuse): void {
  for (const key of Object.keys(data)) {
    if (!known.includes(key))
      refuse([...path, key], `is not known here; known are ${known.join(', ')}`, 'FIELD_UNKNOWN')
  }
}

function problem(path: TransferPath, message: string): TransferProblem {
  return { path, code: 'FIELD_INVALID', message }
}
