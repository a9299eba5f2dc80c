import { randomBytes } from 'node:crypto'
import { policyCheck } from '../../../src/app/policy-check.js'
import { offline, policyServices } from '../../../src/app/services.js'
import { policyTesting } from '../../../src/capabilities/policy-tests/stored-tests.js'
import {
  type AccountDocument,
  ImportRefused,
  LEAST_COST,
  newPassphraseKey,
  openPassphraseKey,
  readAccountDocument,
  type TransferProblem
} from '../../../src/capabilities/transfer/document.js'
import { exportAccount } from '../../../src/capabilities/transfer/export.js'
import { type ImportDifference, importAccount } from '../../../src/capabilities/transfer/import.js'
import { Records } from '../../../src/control/records.js'
import { actions } from '../../../src/features/registry.js'
import { newId } from '../../../src/lib/id.js'
import { Sealer, sealKey } from '../../../src/lib/seal.js'
import { createRecord, type Input, readCreate } from '../../../src/resources/read.js'
import { resources } from '../../../src/resources/registry.js'
import { claimsOf, linksOf, type Resource } from '../../../src/resources/resource.js'
import type { Store } from '../../../src/store/store.js'
import { ManualClock } from '../../helpers/clock.js'
import { idOf } from '../../resources/bench.js'
import { bodies } from '../../resources/bodies.js'
import { operation } from '../../store/opened.js'

const checkPolicy = policyCheck(policyServices(offline(actions)), actions)
const clock = new ManualClock()
export const PASSPHRASE = 'correct horse battery'

export interface Ways {
  /** Of the store; one that nothing was sealed by unless given. */
  readonly seal?: Sealer
  readonly passphrase?: string
  readonly prune?: boolean
  /** Also what its end mark does not vouch for? True unless given, because tests write into documents. */
  readonly partial?: boolean
  readonly dryRun?: boolean
  readonly requireReserved?: boolean
  /** Of an export: an earlier revision. */
  readonly at?: number
}

export const newSealer = () => new Sealer(sealKey(randomBytes(32)))

export async function exported(
  store: Store,
  { seal = newSealer(), passphrase, at }: Ways = {}
): Promise<AccountDocument> {
  const secrets = passphrase === undefined ? {} : { secrets: await newPassphraseKey(passphrase, LEAST_COST) }
  return await exportAccount(store, clock, { resources, records: new Records(seal), version: '1.2.3', at, ...secrets })
}

/** Imports what has gone through text, as between machines. */
export async function imported(store: Store, data: unknown, ways: Ways = {}): Promise<ImportDifference> {
  const {
    seal = newSealer(),
    passphrase,
    prune = false,
    partial = true,
    dryRun = false,
    requireReserved = false
  } = ways
  const document = readAccountDocument(structuredClone(data), resources, { partial })
  const opened =
    passphrase === undefined || document.secrets === undefined
      ? {}
      : { sealer: await openPassphraseKey(passphrase, document.secrets) }
  const { value } = await store.transact(operation(), async (tx) => {
    if (dryRun) tx.abandon()
    const own = { records: new Records(seal), checkPolicy, testPolicy: policyTesting() }
    const options = { resources, clock, ...own, zone: 'sluice.test', requireReserved }
    return await importAccount(tx, document, { ...options, ...opened, random: randomBytes, prune })
  })
  return value.difference
}

/** What an import was refused for. */
export async function refused(run: Promise<unknown>): Promise<readonly TransferProblem[]> {
  try {
    await run
  } catch (error) {
    if (error instanceof ImportRefused) return error.problems
    throw error
  }
  throw new Error('it was not refused')
}

/** Without what sealing makes anew each time. */
export function comparable(document: AccountDocument): string {
  return JSON.stringify(document, (key, value: unknown) =>
    ['sealed', 'secrets', 'digest'].includes(key) ? '…' : value
  )
}

export type Ids = Record<string, string>

/** References of the bodies that tests share, turned into those of records that are there. */
function pointing(value: unknown, ids: Ids): unknown {
  const text = JSON.stringify(value).replace(/"([a-z]+)_0{20,}[12]"/g, (whole, prefix: string) => {
    return ids[prefix] === undefined ? whole : JSON.stringify(ids[prefix])
  })
  return JSON.parse(text)
}

const ADMINISTRATOR = idOf('usr', 7)

async function administrator(store: Store): Promise<Ids> {
  const key = { kind: 'user', id: ADMINISTRATOR }
  await store.transact(operation(), async (tx) => {
    await tx.insert({ ...key, body: { role: 'administrator' } })
    await tx.claim(key, 'user_name', 'administrator')
  })
  return { usr: ADMINISTRATOR }
}

/** A user and one record of every resource with every field, as the API would have made them. Answers with their ids. */
export async function everything(store: Store, seal: Sealer): Promise<Ids> {
  const ids = await administrator(store)
  for (const resource of creatable)
    ids[resource.idPrefix] = await make(store, seal, resource, bodies[resource.name]?.full ?? {}, ids)
  return ids
}

/** An account that follows from a seed: a few records of every resource, with fields left out and odd texts. */
export async function anything(store: Store, seal: Sealer, seed: number): Promise<void> {
  const random = seeded(seed)
  const ids = await administrator(store)
  for (const resource of creatable) {
    const count = 1 + Math.floor(random() * 3)
    for (let number = 0; number < count; number++) {
      const { full = {}, change = {} } = bodies[resource.name] ?? {}
      const body: Record<string, unknown> = { ...full, ...(random() < 0.5 ? {} : settable(resource, change)) }
      const claimed = claimedKeys(resource)
      for (const [name, field] of Object.entries(resource.fields)) {
        const key = field.requestName(name)
        if (!field.required && !claimed.has(key) && random() < 0.3) delete body[key]
        else if (claimed.has(key) && body[key] !== undefined) body[key] = distinct(body[key], number)
      }
      if (body.description !== undefined) body.description = oddText(random)
      if (resource.name === 'reserved_domain') delete body.certificate_management_policy
      // Fields left out may contradict what is left; then it is the whole record.
      const whole = Object.fromEntries(
        Object.entries(resource.fields)
          .map(([name, field]) => field.requestName(name))
          .map((key) => [key, claimed.has(key) ? distinct(full[key], number) : full[key]])
      )
      const isWhole = !isAccepted(resource, body, ids)
      ids[resource.idPrefix] = await make(store, seal, resource, isWhole ? whole : body, ids)
    }
  }
}

function settable({ fields }: Resource, change: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const always = Object.entries(fields).filter(([, field]) => field.settable === 'always')
  const names = new Set(always.map(([name, field]) => field.requestName(name)))
  return Object.fromEntries(Object.entries(change).filter(([name, value]) => names.has(name) && value !== null))
}

/** Fields of requests whose value only one record may have. The URL of a cloud endpoint is claimed as the host and port that it names. */
function claimedKeys({ fields }: Resource): ReadonlySet<string> {
  const unique = Object.entries(fields).flatMap(([name, field]) =>
    field.unique === undefined ? [] : [field.unique.givenAs ?? field.requestName(name)]
  )
  return new Set([...unique, 'url'])
}

/** The value of another record: nothing in an account may be there twice. */
function distinct(value: unknown, number: number): unknown {
  if (value === undefined) return undefined
  if (value === 'agent') return ['agent', 'endpoints', 'dashboard'][number]
  if (Array.isArray(value)) return value.map((one) => distinct(one, number))
  const text = String(value)
  if (number === 0) return value
  if (/^[\d.:a-f]+\/\d+$/.test(text)) return `10.${number}.0.0/16`
  if (text.startsWith('ssh-ed25519 ')) {
    const key = Buffer.from(text.slice('ssh-ed25519 '.length), 'base64')
    key[key.length - 1] = number
    return `ssh-ed25519 ${key.toString('base64')}`
  }
  if (text.startsWith('/')) return `${text}${number}`
  return text.includes('example') ? text.replace('example', `example${number}`) : `${text}${number}`
}

const ODD = [
  'a',
  ' ',
  '\n',
  '#',
  ':',
  ': ',
  '- ',
  "'",
  '"',
  '\t',
  '\\',
  '{',
  '%',
  '|',
  '\r',
  '\u0085',
  '\u2028',
  '\ufeff',
  '✓',
  '😀',
  '\u0007',
  '~',
  'null',
  '0x1f',
  '!!js',
  '---',
  '&a',
  '*a'
]

function oddText(random: () => number): string {
  return Array.from({ length: Math.floor(random() * 12) }, () => ODD[Math.floor(random() * ODD.length)]).join('')
}

/** Numbers in [0, 1) that follow from the seed (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const creatable = resources.filter(
  ({ name, operations }) => bodies[name] !== undefined && operations.includes('create')
)

function isAccepted(resource: Resource, body: Readonly<Record<string, unknown>>, ids: Ids): boolean {
  return readCreate(resource, given(body, ids), { checkPolicy, path: parents(resource, ids) }).ok
}

const parents = ({ path }: Resource, ids: Ids): Record<string, string> =>
  path.includes('{') ? { edge_id: ids.edghts ?? '' } : {}

/** The body with references to what is there. */
function given(body: Readonly<Record<string, unknown>>, ids: Ids): Record<string, unknown> {
  const request = pointing(body, ids) as Record<string, unknown>
  for (const [name, value] of Object.entries(request)) {
    // Two references of a body may lead to the one record that is there.
    const list = (value as { ip_policy_ids?: string[] } | null)?.ip_policy_ids
    if (list !== undefined) request[name] = { ...(value as object), ip_policy_ids: list.slice(0, 1) }
    if (name === 'ip_policy_ids') request[name] = (value as string[]).slice(0, 1)
  }
  return request
}

async function make(
  store: Store,
  seal: Sealer,
  resource: Resource,
  body: Readonly<Record<string, unknown>>,
  ids: Ids
): Promise<string> {
  const input = readCreate(resource, given(body, ids), { checkPolicy, path: parents(resource, ids) })
  if (!input.ok) throw new Error(`${resource.name}: ${JSON.stringify(input.problems)}`)
  clock.advance(1234)
  return await insert(store, new Records(seal), resource, input.input)
}

async function insert(store: Store, records: Records, resource: Resource, input: Input): Promise<string> {
  const { value } = await store.transact(operation(), async (tx) => {
    const made = await createRecord(resource, input, {
      clock,
      newId: (prefix) => newId(prefix, clock.wall()),
      random: (bytes) => randomBytes(bytes),
      principal: ADMINISTRATOR,
      zone: 'sluice.test',
      find: async (kind, id) => (await records.find(tx, kind, id))?.record
    })
    if (!made.ok) throw new Error(JSON.stringify(made.problems))
    const { kind, id } = made.record
    await tx.insert({ kind, id, ...records.stored(made.record), createdAt: clock.wall() })
    const links = linksOf(resource, made.record)
    await tx.replaceReferences(
      { kind, id },
      links.map((link) => ({ field: link.field, to: link }))
    )
    for (const { space, value } of claimsOf(resource, made.record)) await tx.claim({ kind, id }, space, value)
    return id
  })
  return value
}
