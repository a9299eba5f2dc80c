import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../lib/clock.js'
import { newId } from '../lib/id.js'
import { type Resource, recordText } from '../resources/resource.js'
import type { Body, ResourceRecord } from '../schema/field.js'
import type { Store } from '../store/store.js'
import { principalOf } from './access.js'
import type { Call, Done, WriteMode } from './calls.js'
import type { DeclaredRecords } from './declared-records.js'
import { ControlError, controlErrors, impossible, notFound, orUnavailable } from './errors.js'
import type { GuardedRevert } from './guard-note.js'
import type { Catalogue, Records, Versioned } from './records.js'
import type { RevisionReverted } from './revision-answers.js'
import { type RecordedChange, readNote, storedFields } from './revision-note.js'
import { mayOperate, mayTouch } from './rights.js'
import type { Draft } from './transaction.js'
import type { Writer } from './writer.js'

interface RevertsParts {
  readonly store: Store
  readonly catalogue: Catalogue
  readonly records: Records
  readonly declared: DeclaredRecords
  readonly writer: Pick<Writer, 'write'>
  readonly clock: Clock
  /** Scheme, host and port of the API as clients see it, without a slash at the end. */
  readonly baseUrl: () => string
}

/**
 * Undoes a revision whose only change is of a record that has no resource. `why`: reason of a revert by the service. Fails with a
 * `ControlError` when it cannot be undone, and as any write.
 */
export type RestoreRecord = (
  revision: number,
  change: RecordedChange,
  mode: WriteMode,
  call: Call,
  why: GuardedRevert | undefined
) => Promise<{ readonly number: number; readonly changes: readonly RecordedChange[]; readonly done: Done }>

/** Result of a revert. */
export interface Reverted extends Done {
  /** The reverting revision; undefined if there was nothing to revert. */
  readonly by: number | undefined
  readonly body: RevisionReverted
}

/** Why a revision cannot be undone as a whole, for each of its records. */
interface Obstacle {
  readonly kind: string
  readonly id: string
  readonly why: string
}

const SHOWN_OBSTACLES = 10

/** Undoes revisions. Each revert is a write like any other, and can be reverted itself. */
export class Reverts {
  readonly #parts: RevertsParts
  readonly #restorers = new Map<string, RestoreRecord>()

  constructor(parts: RevertsParts) {
    this.#parts = parts
  }

  /** Revisions that change a record of this kind, which has no resource, are undone by `restore`. */
  restores(kind: string, restore: RestoreRecord): void {
    this.#restorers.set(kind, restore)
  }

  /**
   * Restores the records that a revision changed, all or none. Records keep their ids. Fails with `NOT_FOUND`, with
   * `REVERT_IMPOSSIBLE` if the history lacks the required data, with `REVERT_CONFLICT` when a record has changed since in
   * the same fields, and as any write of these records does. `why`: reason of a revert by the service.
   */
  async revert(revision: number, mode: WriteMode, call: Call, why?: GuardedRevert): Promise<Reverted> {
    const changes = await orUnavailable(this.#changesOf(revision))
    const [first] = changes
    const restore = first === undefined ? undefined : this.#restorerOf(changes)
    if (first !== undefined && restore !== undefined) {
      const { done, ...value } = await restore(revision, first, mode, call, why)
      return { ...done, by: value.number, body: this.#answer(revision, value, mode) }
    }
    for (const { kind, change } of changes) mayOperate(call.principal, this.#resource(kind), OPPOSITE[change])
    const { value, done } = await this.#parts.writer.write(call, mode, async (draft) => {
      draft.reverts = revision
      draft.reason = why?.reason
      if (why !== undefined) draft.author = await principalOf(draft.tx, why.author)
      await new Revert(this.#parts, draft, call, changes).run()
      await why?.also(draft.tx)
      return { number: draft.tx.number, changes: draft.changes }
    })
    const by = value.changes.length === 0 ? undefined : value.number
    return { ...done, by, body: this.#answer(revision, value, mode) }
  }

  #answer(
    revision: number,
    { number, changes }: { number: number; changes: readonly RecordedChange[] },
    mode: WriteMode
  ): RevisionReverted {
    const base = this.#parts.baseUrl()
    const uri = (id: number) => `${base}/revisions/${id}`
    return {
      reverts: { id: revision, uri: uri(revision) },
      revision: mode.dryRun === true || changes.length === 0 ? null : { id: number, uri: uri(number) },
      changes: changes.map(({ kind, id, name = null, path, change }) => ({
        resource: kind,
        id,
        name,
        uri: `${base}${path}`,
        change
      }))
    }
  }

  async #changesOf(revision: number): Promise<readonly RecordedChange[]> {
    const { store, catalogue } = this.#parts
    const [entry] = await store.history({ limit: 1, before: revision + 1 })
    if (entry?.revision !== revision) throw notFound(`revision ${revision}`)
    const changes = readNote(entry.detail)?.changes
    if (!changes)
      throw impossible(
        revision,
        'the history keeps no fields of it: the service made it, or it changed very many records'
      )
    const strange = this.#restorerOf(changes)
      ? undefined
      : changes.find(({ kind }) => catalogue.find(kind) === undefined)
    if (strange !== undefined)
      throw impossible(revision, `it changed a ${strange.kind}; apply the site file from before instead`)
    return changes
  }

  #restorerOf(changes: readonly RecordedChange[]): RestoreRecord | undefined {
    return changes.length === 1 ? this.#restorers.get(changes[0]?.kind ?? '') : undefined
  }

  #resource(kind: string): Resource {
    return this.#parts.catalogue.find(kind) as Resource
  }
}

const OPPOSITE = { created: 'delete', updated: 'update', deleted: 'create' } as const

/** One revert before its commit. */
class Revert {
  readonly #parts: RevertsParts
  readonly #draft: Draft
  readonly #call: Call
  readonly #changes: readonly RecordedChange[]
  readonly #conflicts: Obstacle[] = []
  readonly #lost: Obstacle[] = []

  constructor(parts: RevertsParts, draft: Draft, call: Call, changes: readonly RecordedChange[]) {
    this.#parts = parts
    this.#draft = draft
    this.#call = call
    this.#changes = changes
  }

  async run(): Promise<void> {
    const of = (wanted: RecordedChange['change']) => this.#changes.filter(({ change }) => change === wanted)
    const { tx } = this.#draft
    for (const change of this.#changes) {
      this.#parts.declared.mustNotHave(change.kind, change.id)
      const current = await this.#parts.records.findAny(tx, change.kind, change.id)
      if (change.change === 'deleted') this.#judgeDeleted(change, current)
      else if (current === undefined) this.#conflicts.push({ ...change, why: 'it is gone' })
      else if (change.change === 'updated') this.#judgeUpdated(change, current)
    }
    this.#mustBePossible()
    // Changed records may need restored ones, and may release records to be removed.
    await this.#insertAll(of('deleted'))
    for (const change of of('updated')) await this.#restore(change)
    await this.#removeAll(of('created').reverse())
    this.#mustBePossible()
  }

  #judgeDeleted(change: RecordedChange, current: Versioned | undefined): void {
    if (current !== undefined) this.#conflicts.push({ ...change, why: 'it is there again' })
    this.#judgeKept(change)
  }

  #judgeUpdated(change: RecordedChange, { record }: Versioned): void {
    this.#judgeKept(change)
    const resource = this.#parts.catalogue.find(change.kind) as Resource
    const changed = [...(storedFields(change, 'after') ?? [])].filter(
      ([name, value]) => resource.fields[name]?.onUpdate === undefined && !isDeepStrictEqual(record.body[name], value)
    )
    if (changed.length > 0) {
      const names = changed.map(([name]) => name).join(', ')
      this.#conflicts.push({ ...change, why: `${names} has changed since` })
    }
  }

  #judgeKept(change: RecordedChange): void {
    const { secrets, stored } = change
    const missing = [...secrets, ...(stored?.hidden ?? [])]
    if (missing.length > 0) this.#lost.push({ ...change, why: `${missing.join(', ')} is not kept` })
    else if (stored === undefined) this.#lost.push({ ...change, why: 'its fields were not kept' })
  }

  /** Inserts records that refer to each other in the order of their references. */
  async #insertAll(changes: readonly RecordedChange[]): Promise<void> {
    let waiting = changes
    while (waiting.length > 0) {
      const next: RecordedChange[] = []
      let refused: unknown
      for (const change of waiting) {
        try {
          await this.#insert(change)
        } catch (error) {
          if (!(error instanceof ControlError) || !WAITS.has(error.code)) throw error
          refused = error
          next.push(change)
        }
      }
      if (next.length === waiting.length) throw refused
      waiting = next
    }
  }

  async #insert(change: RecordedChange): Promise<void> {
    const { kind, id } = change
    const resource = this.#parts.catalogue.find(kind) as Resource
    const body = this.#touched(resource, withFields({}, change))
    const record: ResourceRecord = { kind, id, createdAt: '', body, secrets: {} }
    mayTouch(this.#call.principal, 'create', record)
    await this.#draft.insert(resource, record)
  }

  async #restore(change: RecordedChange): Promise<void> {
    const { kind, id } = change
    const resource = this.#parts.catalogue.find(kind) as Resource
    const current = await this.#parts.records.findAny(this.#draft.tx, kind, id)
    if (current === undefined) throw notFound(kind)
    mayTouch(this.#call.principal, 'update', current.record)
    const body = this.#touched(resource, withFields(current.record.body, change))
    const record = { ...current.record, body }
    mayTouch(this.#call.principal, 'update', record)
    await this.#draft.update(resource, current, record)
  }

  async #removeAll(changes: readonly RecordedChange[]): Promise<void> {
    const expected = new Set(changes.map(recordText))
    for (const { kind, id } of changes) {
      const current = await this.#parts.records.findAny(this.#draft.tx, kind, id)
      // It was deleted with an earlier record.
      if (current === undefined) continue
      mayTouch(this.#call.principal, 'delete', current.record)
      await this.#draft.remove(current.record)
    }
    for (const { kind, id, change } of this.#draft.changes) {
      if (change === 'deleted' && !expected.has(`${kind} ${id}`))
        this.#conflicts.push({ kind, id, why: 'it was made later and needs what would go' })
    }
  }

  /** Returns the body with values that each write creates, such as the time of an update. */
  #touched(resource: Resource, body: Body): Body {
    const { clock } = this.#parts
    const makers = {
      clock,
      zone: '',
      principal: this.#call.principal.id,
      newId: (prefix: string) => newId(prefix, clock.wall()),
      random: () => new Uint8Array(0),
      find: async () => undefined
    }
    for (const [name, { onUpdate }] of Object.entries(resource.fields)) {
      if (onUpdate !== undefined) body[name] = onUpdate(makers).stored
    }
    return body
  }

  #mustBePossible(): void {
    if (this.#lost.length > 0) {
      const { details, text } = listed(this.#lost)
      throw new ControlError(controlErrors.REVERT_IMPOSSIBLE, `what is needed is not in the history: ${text}`, {
        details
      })
    }
    if (this.#conflicts.length === 0) return
    const { details, text } = listed(this.#conflicts)
    throw new ControlError(controlErrors.REVERT_CONFLICT, `later writes stand in the way: ${text}`, { details })
  }
}

/** A copy of a body with the fields that a change has changed as they were before it. */
function withFields(body: Readonly<Body>, change: RecordedChange): Body {
  const copy: Body = { ...body }
  for (const [name, value] of storedFields(change, 'before') ?? []) {
    if (value === undefined) delete copy[name]
    else copy[name] = value
  }
  return copy
}

const WAITS: ReadonlySet<string> = new Set(['REF_NOT_FOUND', 'NOT_FOUND'])

function listed(obstacles: readonly Obstacle[]): { readonly details: Record<string, string>; readonly text: string } {
  const shown = obstacles.slice(0, SHOWN_OBSTACLES).map(({ kind, id, why }) => `${kind} ${id}: ${why}`)
  const more = obstacles.length - shown.length
  const text = `${shown.join('; ')}${more > 0 ? ` and ${more} more` : ''}`
  return {
    details: {
      records: obstacles.slice(0, SHOWN_OBSTACLES).map(recordText).join(', ')
    },
    text
  }
}
