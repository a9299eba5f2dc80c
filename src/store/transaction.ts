import type { Kysely, Transaction } from 'kysely'
import type { Json } from '../lib/json.js'
import { ClaimConflict, StoreError } from './errors.js'
import { moveToOutbox } from './kysely-dead-letters.js'
import { idsByKind, keyText, pieces, Queries, storable, toRecord } from './queries.js'
import type {
  Claim,
  KeptClaim,
  KeyedUpdate,
  NewRecord,
  Operation,
  RecordKey,
  RecordUpdate,
  Reference,
  StoredRecord
} from './records.js'
import { addReferences, clearReferences, ROWS_PER_STATEMENT, releaseClaims, takeClaims } from './references.js'
import type { Place, Posted, StoreTransaction } from './store.js'
import type { Tables } from './tables.js'

interface Entry extends RecordKey {
  readonly operation: Operation
}

/** Combined effect of one transaction on each record: an insert followed by a delete is no change. */
class ChangeSet {
  readonly #entries = new Map<string, Entry>()

  get size(): number {
    return this.#entries.size
  }

  add({ kind, id }: RecordKey, operation: Operation): void {
    const key = keyText({ kind, id })
    const sum = together(this.#entries.get(key)?.operation, operation)
    if (sum === undefined) this.#entries.delete(key)
    else this.#entries.set(key, { kind, id, operation: sum })
  }

  entries(): Entry[] {
    return [...this.#entries.values()]
  }
}

function together(first: Operation | undefined, then: Operation): Operation | undefined {
  if (first === 'insert') return then === 'delete' ? undefined : 'insert'
  if (first === 'delete') return 'update'
  return then
}

interface TransactionStart {
  readonly number: number
  /** Last used sequence. */
  readonly sequence: number
  /** Milliseconds since the Unix epoch. */
  readonly at: number
  /** Mark of the previous revision. Null: none, or its writer committed while this transaction waited for its turn. */
  readonly previousMark: string | null
}

/** Transaction handle of one write, and the rows of its revision. */
export class KyselyTransaction extends Queries implements StoreTransaction {
  readonly number: number
  readonly previous: number
  readonly at: number
  readonly #trx: Transaction<Tables>
  readonly #changes = new ChangeSet()
  readonly #firstSequence: number
  readonly #previousMark: string | null
  #sequence: number
  #posted = 0
  #touched = false
  #ended = false
  #abandoned = false
  #spoiled = false
  #detail: Json = null

  constructor(trx: Transaction<Tables>, start: TransactionStart) {
    super(() => this.#open())
    this.#trx = trx
    this.number = start.number
    this.previous = start.number - 1
    this.at = start.at
    this.#sequence = start.sequence
    this.#firstSequence = start.sequence
    this.#previousMark = start.previousMark
  }

  /** Number of records changed so far. */
  get changed(): number {
    return this.#changes.size
  }

  override async placeOf(revision: number): Promise<Place> {
    const mark = revision === this.previous ? this.#previousMark : null
    return mark === null ? await super.placeOf(revision) : { revision, mark }
  }

  async insert(record: NewRecord): Promise<StoredRecord> {
    const [stored] = await this.insertMany([record])
    return stored as StoredRecord
  }

  async insertMany(records: readonly NewRecord[]): Promise<StoredRecord[]> {
    const trx = this.#open()
    for (const record of records) mustBeStorable(record)
    const stored: StoredRecord[] = []
    for (const some of pieces(records, ROWS_PER_STATEMENT)) {
      this.#touched = true
      const rows = some.map((record) => this.#rowOf(record))
      // A key violation would abort the transaction on PostgreSQL; a row that was not inserted gives the same information.
      const result = await trx
        .insertInto('records')
        .values(rows)
        .onConflict((conflict) => conflict.columns(['kind', 'id']).doNothing())
        .executeTakeFirst()
      if (Number(result.numInsertedOrUpdatedRows) !== rows.length) {
        // Some of the rows may be inserted: work that catches the error must not commit them.
        this.#spoiled ||= records.length > 1
        throw exists(some)
      }
      for (const row of rows) {
        this.#changes.add(row, 'insert')
        stored.push(toRecord(row))
      }
    }
    return stored
  }

  async update(kind: string, id: string, { body, sealed }: RecordUpdate): Promise<StoredRecord> {
    const trx = this.#open()
    this.#touched = true
    const row = await trx
      .updateTable('records')
      .set({
        revision: this.number,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(sealed === undefined ? {} : { sealed })
      })
      .where('kind', '=', kind)
      .where('id', '=', id)
      .returningAll()
      .executeTakeFirst()
    if (row === undefined) throw missing(kind, id)
    this.#changes.add({ kind, id }, 'update')
    return toRecord(row)
  }

  async updateMany(updates: readonly KeyedUpdate[]): Promise<void> {
    const trx = this.#open()
    for (const some of pieces(updates, ROWS_PER_STATEMENT)) await this.#mustBeThere(some)
    for (const some of pieces(updates, ROWS_PER_STATEMENT)) {
      this.#touched = true
      // None of these rows is new, so that their place and sequence numbers are never used.
      const place = { revision: this.number, created_at: 0 }
      const rows = some.map(({ kind, id, body, sealed }, at) => {
        return { kind, id, ...place, sequence: -1 - at, body: JSON.stringify(body), sealed }
      })
      await trx
        .insertInto('records')
        .values(rows)
        .onConflict((conflict) =>
          conflict.columns(['kind', 'id']).doUpdateSet(({ ref }) => {
            return { revision: ref('excluded.revision'), body: ref('excluded.body'), sealed: ref('excluded.sealed') }
          })
        )
        .execute()
      for (const key of some) this.#changes.add(key, 'update')
    }
  }

  async delete(kind: string, id: string): Promise<void> {
    await this.deleteMany([{ kind, id }])
  }

  async deleteMany(keys: readonly RecordKey[]): Promise<void> {
    const trx = this.#open()
    for (const [kind, ids] of idsByKind(keys)) {
      for (const some of pieces(ids, ROWS_PER_STATEMENT)) {
        this.#touched = true
        const gone = await trx
          .deleteFrom('records')
          .where('kind', '=', kind)
          .where('id', 'in', some)
          .returning(['kind', 'id', 'created_at', 'sequence'])
          .execute()
        if (gone.length !== some.length) {
          // Some of the rows may be deleted: work that catches the error must not commit that.
          this.#spoiled ||= keys.length > 1
          const there = new Set(gone.map(({ id }) => id))
          throw missing(kind, some.find((id) => !there.has(id)) ?? '')
        }
        await trx
          .insertInto('tombstones')
          .values(gone.map((row) => ({ ...row, revision: this.number })))
          .onConflict((conflict) =>
            conflict.columns(['kind', 'id']).doUpdateSet(({ ref }) => ({
              created_at: ref('excluded.created_at'),
              sequence: ref('excluded.sequence'),
              revision: ref('excluded.revision')
            }))
          )
          .execute()
        for (const id of some) this.#changes.add({ kind, id }, 'delete')
      }
    }
  }

  async clearReferences(from: readonly RecordKey[]): Promise<void> {
    const trx = this.#open()
    this.#touched ||= from.length > 0
    await clearReferences(trx, from)
  }

  async replaceReferences(from: RecordKey, references: readonly { field: string; to: RecordKey }[]): Promise<void> {
    const trx = this.#open()
    for (const { to } of references) mustBeStorable(to)
    this.#touched = true
    await clearReferences(trx, [from])
    await addReferences(
      trx,
      references.map((one) => ({ from, ...one }))
    )
  }

  async addReferences(references: readonly Omit<Reference, 'position'>[]): Promise<void> {
    const trx = this.#open()
    for (const { to } of references) mustBeStorable(to)
    this.#touched = true
    await addReferences(trx, references)
  }

  async touch(keys: readonly RecordKey[]): Promise<void> {
    const trx = this.#open()
    for (const [kind, ids] of idsByKind(keys)) {
      for (const some of pieces(ids, ROWS_PER_STATEMENT)) {
        this.#touched = true
        const rows = await trx
          .updateTable('records')
          .set({ revision: this.number })
          .where('kind', '=', kind)
          .where('id', 'in', some)
          .returning(['kind', 'id'])
          .execute()
        for (const row of rows) this.#changes.add(row, 'update')
      }
    }
  }

  async claimMany(claims: readonly KeptClaim[]): Promise<ClaimConflict[]> {
    const trx = this.#open()
    this.#touched ||= claims.length > 0
    const untaken = await takeClaims(trx, claims)
    const conflicts: ClaimConflict[] = []
    for (const { keeper, space, value } of untaken) {
      const holder = await this.#holderOf({ space, value })
      if (holder.kind !== keeper.kind || holder.id !== keeper.id) {
        conflicts.push(new ClaimConflict({ space, value }, holder))
      }
    }
    return conflicts
  }

  async claim(keeper: RecordKey, space: string, value: string): Promise<void> {
    const [conflict] = await this.claimMany([{ keeper, space, value }])
    if (conflict !== undefined) throw conflict
  }

  async release(keeper: RecordKey, space: string, value: string): Promise<void> {
    await this.releaseMany([{ keeper, space, value }])
  }

  async releaseMany(claims: readonly KeptClaim[]): Promise<void> {
    const trx = this.#open()
    this.#touched ||= claims.length > 0
    await releaseClaims(trx, claims)
  }

  async post(entries: readonly Posted[]): Promise<void> {
    const trx = this.#open()
    const rows = entries.map((entry) => ({ ...entry, revision: this.number, position: this.#posted++ }))
    for (const some of pieces(rows, ROWS_PER_STATEMENT)) await trx.insertInto('outbox').values(some).execute()
  }

  async withdraw(destination: string): Promise<void> {
    const trx = this.#open()
    for (const table of ['outbox', 'dead_letters', 'deliveries', 'leases'] as const) {
      await trx.deleteFrom(table).where('destination', '=', destination).execute()
    }
  }

  async redeliver(destination: string, letter?: number): Promise<number> {
    const trx = this.#open()
    const count = await moveToOutbox(trx, { destination, letter, revision: this.number, position: this.#posted })
    this.#posted += count
    this.#touched ||= count > 0
    return count
  }

  async sealUnder(key: string): Promise<void> {
    const trx = this.#open()
    this.#touched = true
    await trx.updateTable('meta').set({ seal_key: key }).execute()
  }

  revise(): void {
    this.#touched = true
  }

  note(detail: Json): void {
    this.#detail = detail
  }

  async amend(revision: number, from: Json, to: Json): Promise<boolean> {
    return await amendNote(this.#open(), revision, from, to)
  }

  abandon(): void {
    this.#abandoned = true
  }

  /** Closes the handle and writes the revision's own rows; returns false if there is nothing to commit. */
  async finish(operationId: string): Promise<boolean> {
    const trx = this.#open()
    this.end()
    if (this.#abandoned || !this.#touched) return false
    if (this.#spoiled) throw new StoreError('STORE_FAILED', 'the work went on after an insert that was half done')
    const { number: revision, at } = this
    const entry = { revision, operation_id: operationId, at, detail: JSON.stringify(this.#detail) }
    await trx.insertInto('revisions').values(entry).execute()
    const rows = this.#changes.entries().map((change, position) => ({ ...change, revision, position }))
    for (const some of pieces(rows, ROWS_PER_STATEMENT)) await trx.insertInto('changes').values(some).execute()
    if (this.#sequence !== this.#firstSequence) {
      await trx.updateTable('meta').set({ sequence: this.#sequence }).execute()
    }
    return true
  }

  /** Closes the handle; every later call fails. */
  end(): void {
    this.#ended = true
  }

  async #mustBeThere(keys: readonly RecordKey[]): Promise<void> {
    for (const [kind, ids] of idsByKind(keys)) {
      const rows = await this.#open()
        .selectFrom('records')
        .select('id')
        .where('kind', '=', kind)
        .where('id', 'in', ids)
        .execute()
      if (rows.length === ids.length) continue
      const there = new Set(rows.map(({ id }) => id))
      throw missing(kind, ids.find((id) => !there.has(id)) ?? '')
    }
  }

  /** Returns the record that holds a claimed value. */
  async #holderOf({ space, value }: Claim): Promise<RecordKey> {
    const holder = await this.keeperOf(space, value)
    if (holder === undefined) throw new StoreError('STORE_FAILED', `a claim in ${space} was neither taken nor free`)
    return holder
  }

  #rowOf({ kind, id, body, sealed = null, createdAt = this.at }: NewRecord) {
    this.#sequence += 1
    const place = { sequence: this.#sequence, revision: this.number, created_at: createdAt }
    return { kind, id, ...place, body: JSON.stringify(body), sealed }
  }

  #open(): Kysely<Tables> {
    if (this.#ended) throw new StoreError('STORE_CLOSED', 'the transaction has ended')
    return this.#trx
  }
}

/** Changes the note of a revision if it still is `from`. */
export async function amendNote(database: Kysely<Tables>, revision: number, from: Json, to: Json): Promise<boolean> {
  const { numUpdatedRows } = await database
    .updateTable('revisions')
    .set({ detail: JSON.stringify(to) })
    .where('revision', '=', revision)
    .where('detail', '=', JSON.stringify(from))
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

function mustBeStorable({ kind, id }: RecordKey): void {
  if (!storable(kind) || !storable(id)) throw new StoreError('STORE_FAILED', 'a kind or id holds what is not text')
}

function missing(kind: string, id: string): StoreError {
  return new StoreError('STORE_MISSING', `there is no ${kind} ${id}`)
}

function exists(rows: readonly RecordKey[]): StoreError {
  const [first] = rows
  const which = rows.length === 1 ? `${first?.kind} ${first?.id}` : `one of ${rows.length} records`
  return new StoreError('STORE_EXISTS', `${which} exists already`)
}
