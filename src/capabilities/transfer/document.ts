import { randomBytes, scrypt } from 'node:crypto'
import type { PolicyTesting } from '../../control/policy-tests.js'
import type { Records } from '../../control/records.js'
import type { Clock } from '../../lib/clock.js'
import { CodedError, defineErrors } from '../../lib/errors.js'
import { isObject, type Json } from '../../lib/json.js'
import { Sealer, sealKey } from '../../lib/seal.js'
import { atOnce } from '../../lib/slices.js'
import type { Resource } from '../../resources/resource.js'
import type { PolicyCheck } from '../../schema/field.js'
import { END_MISSING, type EndMark, endMarkOf, endMarkProblem } from './end-mark.js'

/** Codes of documents that are exported and imported. */
export const transferErrors = defineErrors({
  IMPORT_REFUSED: {
    text: 'The document cannot be imported; nothing was changed.',
    help: 'Correct what the list of problems names.'
  },
  FORMAT_UNKNOWN: {
    text: 'The document is none of sluice export, or of another version.',
    help: 'Export it with this version.'
  },
  KIND_UNKNOWN: {
    text: 'The document has records of a kind that does not exist.',
    help: 'Correct the name; the message lists the kinds.'
  },
  SECRET_MISSING: {
    text: 'A record needs a secret that the document does not hold.',
    help: 'Export with a passphrase, or put the secret into the document.'
  },
  DOCUMENT_PARTIAL: {
    text: 'The end mark of the document is missing, or is that of another content: the document may be cut.',
    help: 'Export it anew, or give --partial to import what it holds.'
  },
  PASSPHRASE_SHORT: { text: 'The passphrase is too short.', help: 'Choose one with at least 8 characters.' },
  PASSPHRASE_WRONG: {
    text: 'The passphrase is not the one of the document, or was not repeated as it was.',
    help: 'Give the passphrase of the export.'
  }
})

/** Keys and indexes from the root of a document to a place in it. */
export type TransferPath = readonly (string | number)[]

/** One thing in a document that cannot be imported. */
export interface TransferProblem {
  readonly path: TransferPath
  /** Error code of the API: `FIELD_INVALID`, `REF_NOT_FOUND`, `ALREADY_EXISTS`, `POLICY_…`, or one specific to imports. */
  readonly code: string
  /** For people; holds no secret. */
  readonly message: string
  /** Place within a policy document that the value at `path` is, from 1. */
  readonly within?: { readonly line: number; readonly column: number }
}

/** Error of a rejected document (`IMPORT_REFUSED`); nothing was changed. */
export class ImportRefused extends CodedError {
  readonly problems: readonly TransferProblem[]

  constructor(problems: readonly TransferProblem[]) {
    const [first] = problems
    if (first === undefined) throw new RangeError('a refusal without a problem')
    super(transferErrors.IMPORT_REFUSED, `the document cannot be imported: ${first.path.join('.')} ${first.message}`)
    this.name = 'ImportRefused'
    this.problems = problems
  }
}

/** Key derivation from a passphrase (RFC 7914), and the id of the key, which detects a wrong passphrase. */
export interface PassphraseParameters {
  readonly kdf: 'scrypt'
  /** Base64 of 16 bytes; new for each document. */
  readonly salt: string
  /** N, a power of two. */
  readonly cost: number
  /** r */
  readonly block_size: number
  /** p */
  readonly parallelization: number
  readonly cipher: 'aes-256-gcm'
  readonly key_id: string
}

const SALT_BYTES = 16
const KEY_BYTES = 32
/** 128 MiB and a third of a second for each guess. */
const CHOSEN = 2 ** 17
/** Further parameters of scrypt (RFC 7914 2). */
const SHAPE = { block_size: 8, parallelization: 1 } as const
/** A document may ask for less memory than this many bytes, so that a hostile one cannot ask for all. */
const MOST_MEMORY = 1024 * 1024 * 1024
/** Minimum cost that an import accepts. */
export const LEAST_COST = 2 ** 14
/** Minimum length of a passphrase (characters). */
const LEAST_PASSPHRASE = 8

/** A key from a passphrase for a new document, by scrypt with N = `cost`. Fails with a CodedError `PASSPHRASE_SHORT`. */
export async function newPassphraseKey(
  passphrase: string,
  cost: number = CHOSEN
): Promise<{ readonly parameters: PassphraseParameters; readonly sealer: Sealer }> {
  if (passphrase.length < LEAST_PASSPHRASE) {
    throw new CodedError(transferErrors.PASSPHRASE_SHORT, `a passphrase has at least ${LEAST_PASSPHRASE} characters`)
  }
  const derivation = { ...SHAPE, cost, salt: randomBytes(SALT_BYTES).toString('base64') }
  const sealer = await derive(passphrase, derivation)
  return { parameters: { kdf: 'scrypt', ...derivation, cipher: 'aes-256-gcm', key_id: sealer.keyId }, sealer }
}

/** The sealer of a document. Fails with a CodedError `PASSPHRASE_WRONG`. */
export async function openPassphraseKey(passphrase: string, parameters: PassphraseParameters): Promise<Sealer> {
  const sealer = await derive(passphrase, parameters)
  if (sealer.keyId !== parameters.key_id) {
    throw new CodedError(transferErrors.PASSPHRASE_WRONG, 'the passphrase does not open the secrets of this document')
  }
  return sealer
}

/** Reads the parameters of a document, or returns an error message. */
function readParameters(data: unknown): PassphraseParameters | string {
  if (!isObject(data)) return 'must be a map'
  const { kdf, salt, cost, block_size, parallelization, cipher, key_id } = data
  if (kdf !== 'scrypt' || cipher !== 'aes-256-gcm') return 'must have kdf scrypt and cipher aes-256-gcm'
  if (typeof salt !== 'string' || Buffer.from(salt, 'base64').length < SALT_BYTES) return 'has no salt of 16 bytes'
  if (typeof key_id !== 'string') return 'has no key_id'
  const [n, r, p] = [cost, block_size, parallelization] as number[]
  if (![n, r, p].every((number) => Number.isSafeInteger(number) && (number as number) >= 1)) {
    return 'must have cost, block_size and parallelization, whole numbers'
  }
  const power = Number.isInteger(Math.log2(n as number))
  const memory = 128 * (n as number) * (r as number)
  if (!power || (n as number) < LEAST_COST || memory > MOST_MEMORY || (p as number) > 16) {
    return `must have a cost that is a power of two from ${LEAST_COST} and needs at most 1 GiB`
  }
  return data as unknown as PassphraseParameters
}

type Derivation = Pick<PassphraseParameters, 'salt' | 'cost' | 'block_size' | 'parallelization'>

function derive(passphrase: string, { salt, cost, block_size, parallelization }: Derivation): Promise<Sealer> {
  // Two keyboards may write the same letter in two ways.
  const text = passphrase.normalize('NFKC')
  const options = { N: cost, r: block_size, p: parallelization, maxmem: 2 * MOST_MEMORY }
  return new Promise((resolve, reject) => {
    scrypt(text, Buffer.from(salt, 'base64'), KEY_BYTES, options, (error, key) => {
      if (error === null) resolve(new Sealer(sealKey(key)))
      else reject(error)
    })
  })
}

/** Format of the document; older programs must reject another number. */
export const ACCOUNT_FORMAT = 'sluice-account/1'

/**
 * A whole account as plain data. It is independent of its store, so that the same account always gives the same document;
 * ids are kept, and references are ids.
 */
export interface AccountDocument {
  readonly format: typeof ACCOUNT_FORMAT
  /** Version of the writing program. */
  readonly version: string
  /** Key derivation for all `sealed` values; undefined if the document has no write-only value. */
  readonly secrets?: PassphraseParameters
  readonly users: readonly UserEntry[]
  /** By kind, in the order in which records can be made; of a kind oldest first. */
  readonly records: Readonly<Record<string, readonly RecordEntry[]>>
  /** Last member; undefined if an export did not write it completely. */
  readonly end?: EndMark
}

/** A user. Users are no resource: they own keys and are named in `created_by`. */
export interface UserEntry {
  readonly id: string
  /** RFC 3339 with milliseconds. */
  readonly created_at: string
  /** Display name; undefined for a user with an id only. */
  readonly name?: string
  readonly role: 'administrator' | 'member'
}

/** One record. Fields have the form of API requests; missing ones have their defaults. */
export interface RecordEntry {
  readonly id: string
  /** RFC 3339 with milliseconds; the time of the import unless given. */
  readonly created_at?: string
  readonly fields: Readonly<Record<string, Json>>
  /** Values created by the service, in stored form. */
  readonly made?: Readonly<Record<string, Json>>
  /** Paths of the write-only values that the record has and the document has not. */
  readonly withheld?: readonly string[]
  /** Base64 of the sealed write-only values: `{secrets: {path: text}, made: {field: value}}` as JSON. */
  readonly sealed?: string
}

const ENTRY_KEYS = ['id', 'created_at', 'fields', 'made', 'withheld', 'sealed']
const USER_KEYS = ['id', 'created_at', 'name', 'role']
const TOP_KEYS = ['format', 'version', 'secrets', 'users', 'records', 'end']
const ROLES = ['administrator', 'member']

/**
 * Checks the form of a document, not the contents of its records. Throws an `ImportRefused` with all errors. `partial`:
 * accept a document whose end mark does not match.
 */
export function readAccountDocument(
  data: unknown,
  resources: readonly Resource[],
  { partial }: { readonly partial: boolean }
): AccountDocument {
  const problems: TransferProblem[] = []
  const refuse = (path: TransferPath, message: string, code = 'FIELD_INVALID') => problems.push({ path, code, message })
  if (!isObject(data)) throw new ImportRefused([problem([], 'must be a map with format, users and records')])
  if (data.format !== ACCOUNT_FORMAT) {
    const message = `must be ${ACCOUNT_FORMAT}; this program reads no other form`
    throw new ImportRefused([{ path: ['format'], code: 'FORMAT_UNKNOWN', message }])
  }
  // Other errors of a truncated document are consequences.
  if (!partial && data.end === undefined) throw doubtful(END_MISSING)
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
  const document = { ...data, version, users, records } as AccountDocument
  const doubt = partial ? undefined : endMarkProblem(data.end, atOnce(endMarkOf(document)))
  if (doubt === undefined) return document
  throw doubtful(doubt)
}

function doubtful(doubt: string): ImportRefused {
  const message = `${doubt}; export it anew, or give --partial to import what it holds`
  return new ImportRefused([{ path: ['end'], code: transferErrors.DOCUMENT_PARTIAL.code, message }])
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

/** Dependencies of an import. */
export interface ImportOptions {
  readonly resources: readonly Resource[]
  readonly records: Records
  readonly clock: Clock
  readonly checkPolicy: PolicyCheck
  /** Runs the tests stored with policies. Undefined if records with tests cannot be imported. */
  readonly testPolicy?: PolicyTesting
  readonly zone: string
  /** Must the hosts of HTTPS edges be reserved domains? */
  readonly requireReserved: boolean
  readonly random: (bytes: number) => Uint8Array
  /** Id of the importing user. @default the first administrator, for the operator at the store itself */
  readonly principal?: string
  /** Decrypts the document's sealed values; undefined if it has none. */
  readonly sealer?: Sealer
  /** Delete the records that the document does not have? */
  readonly prune: boolean
}
