import { ControlError, controlErrors } from '../../control/errors.js'
import { type RecordedChange, readNote, storedFields } from '../../control/revision-note.js'
import { missingRevision, revisionsDown } from '../../control/revision-range.js'
import type { Json } from '../../lib/json.js'
import type { Resource } from '../../resources/resource.js'
import type { ResourceRecord } from '../../schema/field.js'
import type { RecordKey, StoredRecord } from '../../store/records.js'
import type { RevisionEntry, Store } from '../../store/store.js'

/** A past record, and its values that are no longer known. */
export interface PastRecord {
  readonly record: ResourceRecord
  /** Milliseconds since the Unix epoch, to the second for deleted records; undefined if unknown. */
  readonly createdAt: number | undefined
  /** Paths of secrets whose values, if they were set, are not kept. */
  readonly lost: readonly string[]
  /** Fields that no response contains, such as hashes of keys, whose values are not kept. */
  readonly hidden: readonly string[]
}

/** Result of undoing changes of a record: `here` changes the current record, `gone` restores a deleted one, `unmade` leaves none. */
interface Undone {
  readonly base: 'here' | 'gone' | 'unmade'
  /** Fields as stored; undefined if not set. */
  readonly fields: ReadonlyMap<string, Json | undefined>
  readonly lost: ReadonlySet<string>
  readonly hidden: ReadonlySet<string>
  readonly createdAt?: number | undefined
  /** A revision that changed the record in a way that the history does not keep. */
  readonly unknown?: number
}

const NOTHING: Pick<Undone, 'fields' | 'lost' | 'hidden'> = { fields: new Map(), lost: new Set(), hidden: new Set() }
const NOTHING_LOST = { lost: [], hidden: [] }
const SHOWN_OBSTACLES = 10

/**
 * Records for an export at an earlier revision: current records, with later changes undone from the history. Unchanged
 * secrets are the current ones.
 */
export class PastRecords {
  readonly #store: Store
  readonly #kinds: ReadonlyMap<string, Resource>
  readonly #revision: number
  #changes = new Map<string, Undone>()
  #read: number

  /** `resources`: those that an export has. */
  constructor(store: Store, resources: readonly Resource[], revision: number) {
    this.#store = store
    this.#kinds = new Map(resources.map((resource) => [resource.name, resource]))
    this.#revision = revision
    this.#read = revision
  }

  /** The last revision that was read. */
  get read(): number {
    return this.#read
  }

  /** Reads the history to its end. Fails with `NOT_FOUND` if the revision never existed, or later ones are no longer kept. */
  async follow(): Promise<void> {
    const last = await this.#store.revision()
    if (this.#revision < 1 || this.#revision > last) throw await missingRevision(this.#store, this.#revision)
    const newer = new Map<string, Undone>()
    for await (const entry of revisionsDown(this.#store, this.#read, last)) {
      for (const [key, undone] of await this.#undoing(entry)) newer.set(key, joined(newer.get(key), undone))
    }
    for (const [key, undone] of this.#changes) newer.set(key, joined(newer.get(key), undone))
    this.#changes = newer
    this.#read = last
  }

  /** Was it made after the revision? For records that never change. */
  isNewer({ revision }: Pick<StoredRecord, 'revision'>): boolean {
    return revision > this.#revision
  }

  /** Returns an existing record, opened, at the earlier revision; undefined if it did not exist then, or is among `gone`. */
  of(record: ResourceRecord, createdAt: number): PastRecord | undefined {
    const undone = this.#changes.get(keyOf(record))
    if (undone === undefined) return { record, createdAt, ...NOTHING_LOST }
    return undone.base === 'here' ? asItWas(record, undone, createdAt) : undefined
  }

  /** Those of a kind that are not there today, or that are only the successors of their ids. */
  gone({ name: kind }: Resource): PastRecord[] {
    const found: PastRecord[] = []
    for (const [key, undone] of this.#changes) {
      const [of = '', id = ''] = key.split(' ')
      if (of !== kind || undone.base !== 'gone') continue
      found.push(asItWas({ kind, id, createdAt: '', body: {}, secrets: {} }, undone, undone.createdAt))
    }
    return found
  }

  /** Fails with `REVISION_INCOMPLETE` if the history lacks the former state of a record. */
  mustBeKnown(): void {
    const unknown = [...this.#changes].filter(([, { unknown }]) => unknown !== undefined)
    if (unknown.length === 0) return
    const shown = unknown.slice(0, SHOWN_OBSTACLES).map(([key, { unknown }]) => `${key} (revision ${unknown})`)
    const more = unknown.length > shown.length ? ` and ${unknown.length - shown.length} more` : ''
    throw new ControlError(
      controlErrors.REVISION_INCOMPLETE,
      `the history does not keep what was changed since revision ${this.#revision}: ${shown.join(', ')}${more}`,
      {
        details: {
          records: unknown
            .slice(0, SHOWN_OBSTACLES)
            .map(([key]) => key)
            .join(', ')
        }
      }
    )
  }

  /** Returns the inverse of a revision, the last change of a record first. */
  async #undoing({ revision, detail }: RevisionEntry): Promise<[string, Undone][]> {
    if (isResealing(detail)) return []
    const changes = readNote(detail)?.changes
    const wanted = ({ kind }: RecordKey) => this.#kinds.has(kind)
    if (changes) {
      return changes
        .filter(wanted)
        .reverse()
        .map((change) => [keyOf(change), undoneChange(change, revision)])
    }
    const bare = (await this.#store.changesOf(revision)).filter(wanted).reverse()
    return bare.map(({ operation, ...key }) => {
      if (operation === 'insert') return [keyOf(key), { base: 'unmade', ...NOTHING }]
      return [keyOf(key), { base: operation === 'delete' ? 'gone' : 'here', ...NOTHING, unknown: revision }]
    })
  }
}

function keyOf({ kind, id }: RecordKey): string {
  return `${kind} ${id}`
}

/** Is the revision a rotation of the sealing key, which changes no secret? */
function isResealing(detail: Json): boolean {
  return typeof detail === 'object' && detail !== null && 'command' in detail && detail.command === 'seal rotate'
}

function undoneChange(change: RecordedChange, revision: number): Undone {
  if (change.change === 'created') return { base: 'unmade', ...NOTHING }
  const base = change.change === 'deleted' ? 'gone' : 'here'
  const fields = storedFields(change, 'before')
  if (fields === undefined) return { base, ...NOTHING, unknown: revision }
  const lost = new Set(change.secrets)
  const hidden = new Set(change.stored?.hidden)
  const made = change.stored?.createdAt
  return { base, fields, lost, hidden, createdAt: made === undefined ? undefined : Date.parse(made) }
}

/** `older` is undone after `newer`. */
function joined(newer: Undone | undefined, older: Undone): Undone {
  if (newer === undefined || older.base !== 'here') return older
  const unknown = older.unknown ?? newer.unknown
  return {
    base: newer.base,
    createdAt: newer.createdAt,
    fields: new Map([...newer.fields, ...older.fields]),
    lost: new Set([...newer.lost, ...older.lost]),
    hidden: new Set([...newer.hidden, ...older.hidden]),
    ...(unknown === undefined ? {} : { unknown })
  }
}

function asItWas(record: ResourceRecord, { fields, lost, hidden }: Undone, createdAt: number | undefined): PastRecord {
  const body: Record<string, unknown> = { ...record.body }
  for (const name of hidden) delete body[name]
  for (const [name, value] of fields) {
    if (value === undefined) delete body[name]
    else body[name] = value
  }
  const secrets = Object.fromEntries(Object.entries(record.secrets).filter(([path]) => !lost.has(path)))
  return { record: { ...record, body, secrets }, createdAt, lost: [...lost], hidden: [...hidden] }
}
