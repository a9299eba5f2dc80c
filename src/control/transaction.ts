import { isDeepStrictEqual } from 'node:util'
import { type Json, timestampText } from '../lib/json.js'
import { endpoint } from '../resources/endpoints.js'
import {
  type Claim,
  claimsOf,
  type EventNoun,
  eventType,
  linksOf,
  newLinks,
  type Resource,
  recordText
} from '../resources/resource.js'
import { fieldErrors } from '../schema/errors.js'
import type { Link, ResourceRecord } from '../schema/field.js'
import { ClaimConflict } from '../store/errors.js'
import type { RecordKey, StoredRecord } from '../store/records.js'
import type { StoreReader, StoreTransaction } from '../store/store.js'
import type { Answers } from './answers.js'
import type { WholeOwn } from './apply.js'
import type { ChangeEvent, Principal } from './calls.js'
import type { DeclaredRecords } from './declared-records.js'
import { ControlError, controlErrors, inUse, notFound } from './errors.js'
import { mustPassTests, type PolicyTesting } from './policy-tests.js'
import { claimText, isShared, passOn } from './pooled-claims.js'
import {
  addressMustBeFree,
  HOSTPORT_SPACE,
  hostsMustBeReserved,
  matchesMustBePossible,
  mustCarryBytes,
  mustNotBeLinkLocal,
  mustNotBeOpened,
  mustNotServe,
  type WantedUrl
} from './record-rules.js'
import type { Catalogue, Records, Versioned } from './records.js'
import { type RecordedChange, recordedChange } from './revision-note.js'
import type { Touched } from './units.js'

/**
 * Returns the records to delete with `root`, the root first, dependent records after it. Fails with `IN_USE` if a remaining
 * record needs one of them.
 */
async function doomedWith(
  reader: StoreReader,
  { catalogue, records }: { readonly catalogue: Catalogue; readonly records: Records },
  root: ResourceRecord
): Promise<ResourceRecord[]> {
  const doomed = new Map([[recordText(root), root]])
  const needed = new Map<string, RecordKey>()
  // Iterating over a Map includes entries added meanwhile.
  for (const target of doomed.values()) {
    const users = (await reader.referencesTo(target.kind, target.id)).map(({ from }) => from)
    for (const stored of await reader.getMany(users)) {
      const resource = catalogue.find(stored.kind)
      if (resource === undefined || doomed.has(recordText(stored))) continue
      const { record } = records.openAny(stored)
      const links = linksOf(resource, record).filter(({ kind, id }) => kind === target.kind && id === target.id)
      if (links.some(({ onTargetDelete }) => onTargetDelete === 'cascade')) doomed.set(recordText(record), record)
      else if (links.some(({ onTargetDelete }) => onTargetDelete === 'refuse')) needed.set(recordText(stored), stored)
    }
  }
  const users = [...needed.keys()].filter((user) => !doomed.has(user)).sort()
  if (users.length > 0) throw inUse(root, users)
  return [...doomed.values()]
}

/** Fails with `REF_NOT_FOUND` if `after` references a missing record. Unchanged references of `before` may be dangling. */
export async function mustLeadSomewhere(
  reader: StoreReader,
  resource: Resource,
  before: ResourceRecord | undefined,
  after: ResourceRecord
): Promise<void> {
  const links = newLinks(resource, before, after)
  if (links.length === 0) return
  const found = new Set((await reader.getMany(links)).map(recordText))
  const missing = links.filter((link) => !found.has(recordText(link)))
  const [first] = missing
  if (first === undefined) return
  const problems = missing.map((link) => {
    return { field: requestPath(resource, link), code: 'REF_NOT_FOUND', message: `there is no ${link.kind} ${link.id}` }
  })
  const field = requestPath(resource, first)
  throw new ControlError(fieldErrors.REF_NOT_FOUND, `there is no ${first.kind} ${first.id}`, { field, problems })
}

/** The path of a link's field as requests have it: `backend.backend` is `backend.backend_id` there. */
function requestPath(resource: Resource, { field, position }: Link): string {
  const [first = '', ...rest] = field.split('.')
  const declared = resource.fields[first]
  if (declared === undefined) return field
  const names = [declared.requestName(first)]
  let schema: RequestSchema | undefined = declared.request
  for (const name of rest) {
    const members = schema?.properties ?? {}
    const key = requestForms(name).find((form) => Object.hasOwn(members, form)) ?? name
    names.push(key)
    schema = members[key]
  }
  return `${names.join('.')}${schema?.type === 'array' ? `[${position}]` : ''}`
}

/** Subset of a request's JSON Schema that leads to a field. */
interface RequestSchema {
  readonly type?: unknown
  readonly properties?: Readonly<Record<string, RequestSchema>>
}

/** Names that a reference may have in requests, the likeliest first. */
function requestForms(name: string): string[] {
  const singular = name.endsWith('ies') ? `${name.slice(0, -3)}y` : name.replace(/s$/, '')
  return [`${name}_id`, `${singular}_ids`, name]
}

export interface DraftParts {
  readonly catalogue: Catalogue
  readonly records: Records
  readonly answers: Answers
  readonly declared: DeclaredRecords
  /** The edge that serves a host. */
  readonly edgeOn: (host: string) => string | undefined
  /** The endpoint of an agent of this process at a TCP port, otherwise with the host on any port; none that shares the URL. */
  readonly agentAt: (url: WantedUrl) => string | undefined
  /** Must the hosts of edges be reserved domains? */
  readonly requireReserved: boolean
  /** May static backends have link-local addresses? */
  readonly linkLocalBackends: boolean
  /** Does a listener take the lenient form of paths? */
  readonly lenientPaths: () => boolean
  /** Runs the tests that policies are stored with. */
  readonly testPolicy: PolicyTesting | undefined
  /** Does a subscription take such an event? Its object costs reads. */
  readonly eventful: (tx: StoreTransaction, record: Pick<ChangeEvent, 'kind' | 'type'>) => Promise<boolean>
}

/** One write before its commit: changes records together with their claims and references, and tracks its changes. */
export class Draft {
  readonly tx: StoreTransaction
  readonly touched: Touched[] = []
  readonly events: ChangeEvent[] = []
  /** For the history. */
  readonly changes: RecordedChange[] = []
  /** The revision that this write undoes. */
  reverts: number | undefined
  /** Reason, if the service itself makes the write. */
  reason: string | undefined
  /** Principal whose rights to vaults and restrictions count if the service writes for a caller. @default that of the call */
  author: Principal | undefined
  /** Units of the process itself after this write. @default unchanged */
  own: WholeOwn | undefined
  /** Events of commands. */
  readonly commands: Pick<ChangeEvent, 'type' | 'object'>[] = []
  readonly #parts: DraftParts
  #redelivered = 0

  constructor(tx: StoreTransaction, parts: DraftParts) {
    this.tx = tx
    this.#parts = parts
  }

  /** Is there something to commit? */
  get wrote(): boolean {
    return this.touched.length > 0 || this.commands.length > 0 || this.#redelivered > 0
  }

  /** Moves one dead letter of an event destination, or all, back to its outbox; returns their number. */
  async redeliver(destination: string, letter: number | undefined): Promise<number> {
    const redelivered = await this.tx.redeliver(destination, letter)
    this.#redelivered += redelivered
    return redelivered
  }

  /** Remembers a command that changes no record. Where a subscription takes its event, the write becomes a revision without changes. */
  async commanded(type: string, object: Json): Promise<void> {
    if (!(await this.#parts.eventful(this.tx, { kind: '', type }))) return
    this.commands.push({ type, object })
    this.tx.revise()
  }

  /** Records a change outside of resources that `tx` has written. `object`: its public form. */
  async noted(recorded: RecordedChange, noun: EventNoun, object: Json): Promise<void> {
    const { kind, id, change } = recorded
    this.changes.push(recorded)
    this.touched.push({ kind, id, after: undefined })
    const type = eventType(noun, change)
    if (await this.#parts.eventful(this.tx, { kind, type })) this.events.push({ kind, id, change, type, object })
  }

  /** Inserts a record. Fails with `REF_NOT_FOUND`, `ALREADY_EXISTS`, or `NOT_FOUND` if the parent was deleted. */
  async insert(resource: Resource, record: ResourceRecord): Promise<Versioned> {
    await this.#touchParent(resource, record, true)
    await this.#mustHold(resource, undefined, record)
    await mustPassTests(undefined, record, this.#parts.testPolicy)
    const { kind, id } = record
    const { createdAt } = await this.tx.insert({ kind, id, ...this.#parts.records.stored(record) })
    // The record's time is the store's, so that all responses agree.
    const stored = { ...record, createdAt: timestampText(createdAt) }
    await this.#relate(resource, undefined, stored)
    await this.#note(resource, undefined, stored)
    return { record: stored, revision: this.tx.number }
  }

  /**
   * Updates a record if it differs. Undecryptable secrets can only be replaced: every other update is rejected, because
   * their key may be restored. Fails with `REF_NOT_FOUND` or `ALREADY_EXISTS`, or as the sealer does.
   */
  async update(resource: Resource, before: Versioned, after: ResourceRecord): Promise<Versioned> {
    if (isDeepStrictEqual(before.record, after)) return before
    if (before.unopened !== undefined && Object.keys(after.secrets).length === 0) throw before.unopened
    await this.#mustHold(resource, before.record, after)
    await mustPassTests(before.record, after, this.#parts.testPolicy)
    await this.tx.update(after.kind, after.id, this.#parts.records.stored(after))
    await this.#relate(resource, before.record, after)
    await this.#touchParent(resource, after, false)
    await this.#note(resource, before.record, after)
    return { record: after, revision: this.tx.number }
  }

  /** Deletes a record with its dependent records. Fails with `IN_USE`. */
  async remove(record: ResourceRecord): Promise<void> {
    mustNotServe(record, this.#parts.edgeOn)
    await addressMustBeFree(this.tx, record)
    const doomed = await doomedWith(this.tx, this.#parts, record)
    // Recorded before the deletion: an event shows its record with its former children.
    for (const one of doomed) await this.#note(this.#resource(one.kind), one, undefined)
    await this.tx.deleteMany(doomed.reverse())
    await passOn(
      this.tx,
      doomed.flatMap((one) => claimsOf(this.#resource(one.kind), one))
    )
    await this.#touchParent(this.#resource(record.kind), record, false)
  }

  #resource(kind: string): Resource {
    const resource = this.#parts.catalogue.find(kind)
    if (resource === undefined) throw new RangeError(`there is no resource ${kind}`)
    return resource
  }

  async #mustHold(resource: Resource, before: ResourceRecord | undefined, after: ResourceRecord): Promise<void> {
    await mustLeadSomewhere(this.tx, resource, before, after)
    await mustCarryBytes(this.tx, before, after)
    mustNotBeOpened(before, after, this.#parts.agentAt)
    if (!this.#parts.linkLocalBackends) mustNotBeLinkLocal(before, after)
    await matchesMustBePossible(this.tx, before, after, this.#parts.lenientPaths)
    if (this.#parts.requireReserved) await hostsMustBeReserved(this.tx, before, after)
  }

  /** Updates the revision of the parent, whose response contains its children. */
  async #touchParent(resource: Resource, { body }: ResourceRecord, mustExist: boolean): Promise<void> {
    const family = this.#parts.catalogue.parentOf(resource)
    if (family === undefined) return
    const id = String(body[family.field])
    if ((await this.tx.get(family.parent.name, id)) !== undefined) await this.tx.update(family.parent.name, id, {})
    else if (mustExist) throw notFound(family.parent.name)
  }

  /** Returns the record that contains another one, without its secrets. */
  async #parentOf(resource: Resource, record: ResourceRecord | undefined): Promise<ResourceRecord | undefined> {
    const family = this.#parts.catalogue.parentOf(resource)
    if (family === undefined || record === undefined) return undefined
    const stored = await this.tx.get(family.parent.name, String(record.body[family.field]))
    return stored === undefined ? undefined : withoutSecrets(stored)
  }

  async #relate(resource: Resource, before: ResourceRecord | undefined, after: ResourceRecord): Promise<void> {
    const links = linksOf(resource, after)
    const former = before === undefined ? [] : linksOf(resource, before)
    if (!isDeepStrictEqual(links, former)) await this.tx.replaceReferences(keyOf(after), links.map(reference))
    const claims = claimsOf(resource, after)
    const kept = new Set(claims.map(claimText))
    const held = before === undefined ? [] : claimsOf(resource, before)
    const left = held.filter((claim) => !kept.has(claimText(claim)))
    for (const { space, value } of left) await this.tx.release(keyOf(after), space, value)
    await passOn(this.tx, left)
    const had = new Set(held.map(claimText))
    for (const claim of claims) if (!had.has(claimText(claim))) await this.#claim(after, claim)
  }

  async #claim(record: ResourceRecord, claim: Claim): Promise<void> {
    const { space, value, field } = claim
    this.#parts.declared.mustNotClaim(space, value, field)
    try {
      await this.tx.claim(keyOf(record), space, value)
    } catch (error) {
      if (!(error instanceof ClaimConflict)) throw error
      const { kind, id } = error.keeper
      if (await isShared(this.tx, claim, error.keeper)) return
      const details = { taken_by: `${kind} ${id}` }
      const pools = kind === endpoint.name && record.kind === endpoint.name
      const alone = space === HOSTPORT_SPACE ? ': a host and port belongs to one edge or endpoint of any kind' : ''
      const why = pools ? ': endpoints share a URL only if all of them have pooling_enabled' : alone
      throw new ControlError(controlErrors.ALREADY_EXISTS, `${field} is taken by ${kind} ${id}${why}`, {
        field,
        details
      })
    }
  }

  async #note(
    resource: Resource,
    before: ResourceRecord | undefined,
    after: ResourceRecord | undefined
  ): Promise<void> {
    const recorded = recordedChange(resource, before, after, await this.#parentOf(resource, after ?? before))
    const { kind, id, change } = recorded
    this.changes.push(recorded)
    this.touched.push({
      kind,
      id,
      after: after === undefined ? undefined : { record: after, revision: this.tx.number }
    })
    const record = after ?? before
    const type = resource.events === undefined ? null : eventType(resource.events, change)
    if (record === undefined || !(await this.#parts.eventful(this.tx, { kind, type }))) return
    const object: Json = await this.#parts.answers.one(this.tx, resource, record, undefined)
    this.events.push({ kind, id, change, type, object })
  }
}

function withoutSecrets({ kind, id, body }: StoredRecord): ResourceRecord {
  return { kind, id, createdAt: '', body: body as ResourceRecord['body'], secrets: {} }
}

function keyOf({ kind, id }: ResourceRecord): RecordKey {
  return { kind, id }
}

function reference({ field, kind, id }: Link) {
  return { field, to: { kind, id } }
}
