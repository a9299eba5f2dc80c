import { setTimeout as sleep } from 'node:timers/promises'
import type { Transaction } from 'kysely'
import type { Clock } from '../lib/clock.js'
import { Mutex } from '../lib/concurrency.js'
import type { Json } from '../lib/json.js'
import type { ClusterBoard, ProcessReport, Reported } from './board.js'
import { EndedSessions } from './ended-sessions.js'
import { StoreError } from './errors.js'
import { KyselyBoard, KyselyOutbox } from './kysely-board.js'
import { KyselyDeadLetters } from './kysely-dead-letters.js'
import { LoginSessions } from './login-sessions.js'
import { newerSchema, SCHEMA_VERSION } from './migrations.js'
import type { DeadLetters, Outbox } from './outbox.js'
import { printable, Queries } from './queries.js'
import type { Change, RecordKey, SealedRecord, WholeRecord, WholeRequest } from './records.js'
import { wholeRecords } from './references.js'
import { undoNewerSchema } from './sqlite-backup.js'
import type {
  GivenAway,
  HistoryRequest,
  Outcome,
  Place,
  RevisionEntry,
  Store,
  StoreLog,
  StoreTransaction
} from './store.js'
import type { StoreHealth } from './store-health.js'
import type { Database, Tables } from './tables.js'
import { amendNote, KyselyTransaction } from './transaction.js'
import { Visitors } from './visitors.js'

/**
 * Time to wait for the outcome of a commit: longer than PostgreSQL keeps an abandoned transaction, so that the last attempt finds it ended
 * (ms).
 */
const PATIENCE_MILLISECONDS = 20_000
/** Delay between attempts (ms). */
const PAUSE_MILLISECONDS = 250
/** Maximum number of attempts; stops the wait even if the clock stands still. */
const ATTEMPTS = PATIENCE_MILLISECONDS / PAUSE_MILLISECONDS

/** Determines the outcome of commits whose response was lost. */
class Outcomes {
  readonly #database: Database
  readonly #log: StoreLog
  readonly #clock: Clock

  constructor(database: Database, log: StoreLog, clock: Clock) {
    this.#database = database
    this.#log = log
    this.#clock = clock
  }

  /**
   * Returns true if the operation was committed. Retries while the database is unreachable; fails with `STORE_OUTCOME_UNKNOWN` if it stays
   * so.
   */
  async landed(operationId: string, cause: unknown): Promise<boolean> {
    this.#log.warn({ err: cause, store: this.#database.name, operationId }, 'a commit was not answered; looking it up')
    let last: unknown = cause
    const end = this.#clock.monotonic() + PATIENCE_MILLISECONDS
    for (let attempt = 0; attempt < ATTEMPTS && this.#clock.monotonic() < end; attempt++) {
      if (attempt > 0) await sleep(PAUSE_MILLISECONDS)
      try {
        return await this.#lookUp(operationId)
      } catch (error) {
        last = error
      }
    }
    const message = `${this.#database.name} went away during a commit and cannot be asked what became of it`
    throw new StoreError('STORE_OUTCOME_UNKNOWN', message, { cause: last })
  }

  async #lookUp(operationId: string): Promise<boolean> {
    return await this.#database.writes.transaction().execute(async (trx) => {
      // The server may still be committing: the writer lock is free only after that.
      await trx
        .updateTable('meta')
        .set((eb) => ({ sequence: eb.ref('sequence') }))
        .execute()
      const query = trx.selectFrom('revisions').select('revision').where('operation_id', '=', operationId)
      return (await query.executeTakeFirst()) !== undefined
    })
  }
}

interface KyselyStoreParts {
  readonly log: StoreLog
  readonly clock: Clock
  /** Receives the results of writes, and probes the store while there is trouble. */
  readonly health?: StoreHealth
  /** Board for other processes. @default none */
  readonly board?: ClusterBoard
  /** Called with the place of each revision that this store commits. */
  readonly onCommit: (place: Place) => void
  /** Stops watching the database. */
  readonly onClose: () => Promise<void>
}

/** Number of records in one write that makes the planner's statistics useless. */
const MANY = 2_000

/** Store on any database that Kysely supports. */
export class KyselyStore extends Queries implements Store {
  readonly outbox: Outbox
  readonly deadLetters: DeadLetters
  readonly board: ClusterBoard
  readonly endedSessions: EndedSessions
  readonly loginSessions: LoginSessions
  readonly visitors: Visitors
  readonly #database: Database
  readonly #parts: KyselyStoreParts
  readonly #outcomes: Outcomes
  readonly #mutex = new Mutex()
  #closed: Promise<void> | undefined
  /** True while another process has the store. */
  #away = false
  /** Id of the key that this handle writes under; undefined: any key. */
  #sealKey: string | undefined

  constructor(database: Database, parts: KyselyStoreParts) {
    super(() => database.reads)
    this.outbox = new KyselyOutbox(database)
    this.deadLetters = new KyselyDeadLetters(database)
    this.board = parts.board ?? new KyselyBoard(database, () => parts.clock.wall())
    this.endedSessions = new EndedSessions(database)
    this.loginSessions = new LoginSessions(database)
    this.visitors = new Visitors(database)
    this.#database = database
    this.#parts = parts
    this.#outcomes = new Outcomes(database, parts.log, parts.clock)
    parts.health?.probeWith(() => this.#probe())
  }

  async transact<T>(operationId: string, work: (transaction: StoreTransaction) => Promise<T>): Promise<Outcome<T>> {
    this.#mustBeOpen()
    return await this.#mutex.run(async () => {
      const builder = this.#database.writes.startTransaction().setIsolationLevel('read committed')
      const trx = await builder.execute()
      const { transaction, value, kept } = await this.#work(trx, operationId, work)
      const { number: revision, previous } = transaction
      if (!kept) {
        await this.#undo(trx)
        return { value, committed: false, revision, previous }
      }
      await this.#commit(trx, operationId)
      this.#parts.health?.wrote()
      this.#parts.onCommit({ revision, mark: operationId })
      return { value, committed: true, revision, previous }
    })
  }

  async history(request: HistoryRequest): Promise<RevisionEntry[]> {
    const { limit, before = Number.MAX_SAFE_INTEGER, after = 0, noting } = request
    let query = this.#database.reads
      .selectFrom('revisions')
      .selectAll()
      .where('revision', '<', before)
      .where('revision', '>', after)
    if (noting !== undefined) query = query.where('detail', 'like', `%${noting}%`)
    const rows = await query.orderBy('revision', 'desc').limit(limit).execute()
    return rows.map(({ revision, operation_id, at, detail }) => {
      return { revision, operationId: operation_id, at, detail: JSON.parse(detail) as Json }
    })
  }

  async amend(revision: number, from: Json, to: Json): Promise<boolean> {
    this.#mustBeOpen()
    return await amendNote(this.#database.writes, revision, from, to)
  }

  async wholeRecords(request: WholeRequest): Promise<WholeRecord[]> {
    return await wholeRecords(this.#database.reads, request)
  }

  async changesOf(revision: number): Promise<Change[]> {
    return await this.#database.reads
      .selectFrom('changes')
      .select(['revision', 'kind', 'id', 'operation'])
      .where('revision', '=', revision)
      .orderBy('position')
      .execute()
  }

  async forgetHistory(revision: number): Promise<void> {
    this.#mustBeOpen()
    await this.#mutex.run(async () => {
      await this.#database.writes.transaction().execute(async (trx) => {
        const lock = trx.updateTable('meta').set((eb) => ({ sequence: eb.ref('sequence') }))
        const meta = await lock.returning(['revision', 'history_from']).executeTakeFirstOrThrow()
        const from = Math.max(meta.history_from, Math.min(revision, meta.revision + 1))
        await trx.deleteFrom('revisions').where('revision', '<', from).execute()
        await trx.deleteFrom('tombstones').where('revision', '<', from).execute()
        await trx.updateTable('meta').set({ history_from: from }).execute()
      })
    })
  }

  async reportProcess(report: Omit<ProcessReport, 'seenAt'>): Promise<Reported> {
    const row = {
      applied_revision: report.appliedRevision,
      last_error: report.lastError === null ? null : printable(report.lastError),
      diverged_at: report.divergedAt,
      seen_at: Math.floor(this.#parts.clock.wall())
    }
    const { writes } = this.#database
    const former = await writes
      .updateTable('processes')
      .set(row)
      .where('id', '=', report.id)
      .returning('calls')
      .executeTakeFirst()
    this.#parts.health?.wrote()
    if (former !== undefined) return { known: true, calls: former.calls }
    await writes
      .insertInto('processes')
      .values({ id: report.id, calls: 0, ...row })
      .onConflict((conflict) => conflict.column('id').doUpdateSet(row))
      .execute()
    return { known: false, calls: 0 }
  }

  async processes(): Promise<ProcessReport[]> {
    const rows = await this.#database.reads.selectFrom('processes').selectAll().orderBy('id').execute()
    return rows.map((row) => ({
      id: row.id,
      appliedRevision: row.applied_revision,
      lastError: row.last_error,
      divergedAt: row.diverged_at,
      seenAt: row.seen_at
    }))
  }

  async forgetProcesses(reports: readonly Pick<ProcessReport, 'id' | 'seenAt'>[]): Promise<void> {
    for (const { id, seenAt } of reports) {
      await this.#database.writes.deleteFrom('processes').where('id', '=', id).where('seen_at', '=', seenAt).execute()
    }
  }

  async sealKey(): Promise<string | null> {
    const meta = await this.#database.reads.selectFrom('meta').select('seal_key').executeTakeFirstOrThrow()
    return meta.seal_key
  }

  async writeUnder(key: string, instead: string | null): Promise<boolean> {
    this.#mustBeOpen()
    const { numUpdatedRows } = await this.#database.writes
      .updateTable('meta')
      .set({ seal_key: key })
      .where(({ eb, or }) => {
        return or([
          eb('seal_key', '=', key),
          instead === null ? eb('seal_key', 'is', null) : eb('seal_key', '=', instead)
        ])
      })
      .executeTakeFirstOrThrow()
    if (numUpdatedRows === 0n) return false
    this.#sealKey = key
    return true
  }

  async sealedRecords(request: { readonly limit: number; readonly after?: RecordKey }): Promise<SealedRecord[]> {
    const { limit, after } = request
    let query = this.#database.reads
      .selectFrom('records')
      .select(['kind', 'id', 'sealed'])
      .where('sealed', 'is not', null)
    if (after !== undefined) {
      query = query.where(({ eb, and, or }) => {
        return or([eb('kind', '>', after.kind), and([eb('kind', '=', after.kind), eb('id', '>', after.id)])])
      })
    }
    const rows = await query.orderBy('kind').orderBy('id').limit(limit).execute()
    return rows.map(({ kind, id, sealed }) => ({ kind, id, sealed: Buffer.from(sealed as Uint8Array) }))
  }

  async copyTo(path: string): Promise<void> {
    this.#mustBeOpen()
    await this.#database.copy(path)
  }

  async giveAway(): Promise<GivenAway> {
    this.#mustBeOpen()
    const { away, name } = this.#database
    if (away === undefined) return { back: () => Promise.resolve() }
    await away.give()
    this.#away = true
    return {
      back: async (undo) => {
        if (undo !== undefined) await undoNewerSchema(name, undo)
        await away.take()
        this.#away = false
      }
    }
  }

  async close(): Promise<void> {
    this.#parts.health?.probeWith(undefined)
    // Otherwise commands waiting for the return of the store would never finish.
    if (this.#away) await this.#database.close()
    this.#closed ??= this.#mutex.run(async () => {
      await this.#parts.onClose()
      await this.#database.close()
    })
    await this.#closed
  }

  /** Rewrites existing data, because only a write shows whether the store is writable. */
  async #probe(): Promise<void> {
    await this.#database.writes
      .updateTable('meta')
      .set((eb) => ({ sequence: eb.ref('sequence') }))
      .execute()
  }

  /** Runs a transaction except for its commit; errors roll it back. */
  async #work<T>(trx: Started, operationId: string, work: (transaction: StoreTransaction) => Promise<T>) {
    let transaction: KyselyTransaction | undefined
    try {
      transaction = await this.#begin(trx)
      const value = await work(transaction)
      const kept = await transaction.finish(operationId)
      if (kept && transaction.changed >= MANY) await this.#database.recount(trx)
      if (kept) await this.#database.announce(trx, transaction.number)
      return { transaction, value, kept }
    } catch (error) {
      transaction?.end()
      await this.#undo(trx)
      throw error
    }
  }

  /** Takes the writer lock of all processes: the row stays locked until the transaction ends. */
  async #begin(trx: Started): Promise<KyselyTransaction> {
    const meta = await trx
      .updateTable('meta')
      .set((eb) => ({ revision: eb('revision', '+', 1) }))
      .returning((of) => [
        'revision',
        'sequence',
        'schema_version',
        'seal_key',
        of
          .selectFrom('revisions')
          .select('operation_id')
          .where('revisions.revision', '=', of('meta.revision', '-', 1))
          .as('previous_mark')
      ])
      .executeTakeFirstOrThrow()
    // A newer version may have joined the cluster since this process started.
    if (meta.schema_version > SCHEMA_VERSION) throw newerSchema(this.#database.name, meta.schema_version)
    // The sealing key may have changed as well: values sealed by this process could not be opened.
    if (this.#sealKey !== undefined && meta.seal_key !== this.#sealKey)
      throw otherKey(this.#database.name, meta.seal_key)
    const at = Math.floor(this.#parts.clock.wall())
    const { revision: number, sequence, previous_mark: previousMark } = meta
    return new KyselyTransaction(trx, { number, sequence, at, previousMark })
  }

  async #commit(trx: Started, operationId: string): Promise<void> {
    try {
      await trx.commit().execute()
    } catch (error) {
      // The connection is returned after a rollback, which reveals nothing: the commit may have succeeded.
      await this.#undo(trx)
      if (isAnswered(error)) throw error
      if (!(await this.#outcomes.landed(operationId, error))) throw error
    }
  }

  async #undo(trx: Started): Promise<void> {
    try {
      await trx.rollback().execute()
    } catch (error) {
      // The database rolls back transactions of a lost client.
      this.#parts.log.warn({ err: error, store: this.#database.name }, 'a transaction could not be rolled back')
    }
  }

  #mustBeOpen(): void {
    if (this.#closed !== undefined) throw new StoreError('STORE_CLOSED', `${this.#database.name} is closed`)
  }
}

/** Returns true if the database rejected the commit, or never received it. */
function isAnswered(error: unknown): boolean {
  return error instanceof StoreError && ['full', 'read_only', 'gone'].includes(error.trouble ?? '')
}

function otherKey(name: string, key: string | null): StoreError {
  const message = `the sealing key of ${name} is now ${key}, which this process does not have: start it again with that key`
  return new StoreError('STORE_SEAL_KEY', message)
}

type Started = Transaction<Tables> & { commit(): Ending; rollback(): Ending }
interface Ending {
  execute(): Promise<void>
}
