import type { Kysely, Selectable, Transaction } from 'kysely'
import type { BoardCall, BoardChange, BoardEntry, BoardPage, ClusterBoard, Published, PublishedEntry } from './board.js'
import type { DeliveryReport, Lease, Outbox, OutboxEntry, OutboxPlace } from './outbox.js'
import { pieces, printable, storable } from './queries.js'
import type { Database, DeliveriesTable, Tables } from './tables.js'

/** Rows per statement; each has five parameters. */
const ROWS = 200
/** Ids per statement. */
const IDS = 500

/** Board on any database that Kysely supports. Its statements do not take the writer lock. */
export class KyselyBoard implements ClusterBoard {
  readonly #database: Database
  readonly #now: () => number
  readonly #listeners = new Map<string, Set<() => void>>()

  /** `now`: milliseconds since the Unix epoch. */
  constructor(database: Database, now: () => number) {
    this.#database = database
    this.#now = now
  }

  async publish(process: string, { put, drop }: BoardChange): Promise<void> {
    await this.#database.writes.transaction().execute(async (trx) => {
      for (const kind of new Set(drop.map((entry) => entry.kind))) {
        const ids = drop.filter((entry) => entry.kind === kind).map(({ id }) => id)
        for (const some of pieces(ids, IDS)) await this.#drop(trx, process, kind, some)
      }
      for (const some of pieces(put, ROWS)) {
        await trx
          .insertInto('entries')
          .values(some.map(({ kind, id, rank, body }) => ({ process, kind, id, rank: Buffer.from(rank), body })))
          .onConflict((conflict) =>
            conflict
              .columns(['kind', 'id', 'process'])
              .doUpdateSet((eb) => ({ rank: eb.ref('excluded.rank'), body: eb.ref('excluded.body') }))
          )
          .execute()
      }
    })
  }

  async clear(process: string): Promise<void> {
    await this.#database.writes.deleteFrom('entries').where('process', '=', process).execute()
  }

  async list(kind: string, { limit, below }: BoardPage, of: Published): Promise<BoardEntry[]> {
    let query = this.#entries(kind, of)
    if (below !== undefined) query = query.where('rank', '<', Buffer.from(below))
    const rows = await query.orderBy('rank', 'desc').limit(limit).execute()
    return rows.map(toEntry)
  }

  async get(kind: string, id: string, of: Published): Promise<PublishedEntry[]> {
    if (!storable(id)) return []
    const rows = await this.#entries(kind, of).where('id', '=', id).execute()
    return rows.map((row) => ({ ...toEntry(row), process: row.process }))
  }

  async call({ id, process, from, body }: BoardCall): Promise<boolean> {
    const left = await this.#database.writes.transaction().execute(async (trx) => {
      const { numUpdatedRows } = await trx
        .updateTable('processes')
        .set((eb) => ({ calls: eb('calls', '+', 1) }))
        .where('id', '=', process)
        .executeTakeFirstOrThrow()
      if (numUpdatedRows === 0n) return false
      const at = Math.floor(this.#now())
      await trx.insertInto('calls').values({ id, process, caller: from, body, answer: null, at }).execute()
      await this.#database.wake(trx, process)
      return true
    })
    if (left) this.notify(process)
    return left
  }

  async waiting(process: string): Promise<BoardCall[]> {
    const rows = await this.#database.reads
      .selectFrom('calls')
      .select(['id', 'process', 'caller', 'body'])
      .where('process', '=', process)
      .where('answer', 'is', null)
      .orderBy('at')
      .execute()
    return rows.map(({ caller, ...call }) => ({ ...call, from: caller }))
  }

  async answer({ id, from }: Pick<BoardCall, 'id' | 'from'>, text: string): Promise<void> {
    await this.#database.writes.transaction().execute(async (trx) => {
      await trx.updateTable('calls').set({ answer: text }).where('id', '=', id).execute()
      await this.#database.wake(trx, from)
    })
    this.notify(from)
  }

  async answerTo(id: string): Promise<string | null | undefined> {
    const row = await this.#database.reads.selectFrom('calls').select('answer').where('id', '=', id).executeTakeFirst()
    return row?.answer
  }

  async withdraw(id: string): Promise<void> {
    await this.#database.writes.deleteFrom('calls').where('id', '=', id).execute()
  }

  listen(process: string, notified: () => void): () => void {
    const listeners = this.#listeners.get(process) ?? new Set()
    this.#listeners.set(process, listeners.add(notified))
    return () => {
      listeners.delete(notified)
      if (listeners.size === 0) this.#listeners.delete(process)
    }
  }

  /** Notifies the listeners of a process; undefined: of all processes. */
  notify(process: string | undefined): void {
    const concerned = process === undefined ? [...this.#listeners.values()] : [this.#listeners.get(process) ?? []]
    for (const listeners of concerned) for (const run of listeners) run()
  }

  #entries(kind: string, { except }: Published) {
    const query = this.#database.reads
      .selectFrom('entries')
      .select(['process', 'kind', 'id', 'rank', 'body'])
      .where('kind', '=', kind)
    return except.length === 0 ? query : query.where('process', 'not in', except)
  }

  async #drop(trx: Transaction<Tables>, process: string, kind: string, ids: readonly string[]): Promise<void> {
    await trx
      .deleteFrom('entries')
      .where('process', '=', process)
      .where('kind', '=', kind)
      .where('id', 'in', ids)
      .execute()
  }
}

function toEntry(row: {
  readonly kind: string
  readonly id: string
  readonly rank: Uint8Array | ArrayBuffer
  readonly body: string
}): BoardEntry {
  return { kind: row.kind, id: row.id, rank: Buffer.from(row.rank as Uint8Array).toString(), body: row.body }
}

/** Outbox on any database that Kysely supports. Its statements run outside of transactions and do not take the writer lock. */
export class KyselyOutbox implements Outbox {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async next(destination: string, limit: number): Promise<OutboxEntry[]> {
    return await this.#database.reads
      .selectFrom('outbox')
      .select(['revision', 'position', 'body'])
      .where('destination', '=', destination)
      .orderBy('revision')
      .orderBy('position')
      .limit(limit)
      .execute()
  }

  async postedAfter(revision: number): Promise<{ destinations: string[]; revision: number }> {
    const rows = await this.#database.reads
      .selectFrom('outbox')
      .select(({ fn }) => ['destination', fn.max('revision').as('last')])
      .where('revision', '>', revision)
      .groupBy('destination')
      .execute()
    return {
      destinations: rows.map(({ destination }) => destination),
      revision: rows.reduce((last, row) => Math.max(last, Number(row.last)), revision)
    }
  }

  async count(destination: string): Promise<number> {
    const row = await this.#database.reads
      .selectFrom('outbox')
      .select(({ fn }) => fn.countAll().as('rows'))
      .where('destination', '=', destination)
      .executeTakeFirstOrThrow()
    return Number(row.rows)
  }

  async delivered({ revision, position }: OutboxPlace, report: DeliveryReport): Promise<void> {
    await this.#database.writes.transaction().execute(async (trx) => {
      await trx
        .deleteFrom('outbox')
        .where('destination', '=', report.destination)
        .where(({ eb, and, or }) =>
          or([eb('revision', '<', revision), and([eb('revision', '=', revision), eb('position', '<=', position)])])
        )
        .execute()
      await keepReport(trx, report)
    })
  }

  async report(report: DeliveryReport): Promise<void> {
    await keepReport(this.#database.writes, report)
  }

  async reports(): Promise<DeliveryReport[]> {
    const rows = await this.#database.reads.selectFrom('deliveries').selectAll().orderBy('destination').execute()
    return rows.map(toReport)
  }

  async leases(): Promise<Lease[]> {
    return await this.#database.reads.selectFrom('leases').select(['destination', 'holder', 'number']).execute()
  }

  async take(destination: string, holder: string, seen: number | undefined): Promise<boolean> {
    const { writes } = this.#database
    if (seen === undefined) {
      const inserted = await writes
        .insertInto('leases')
        .values({ destination, holder, number: 1 })
        .onConflict((conflict) => conflict.column('destination').doNothing())
        .executeTakeFirst()
      return inserted.numInsertedOrUpdatedRows === 1n
    }
    const taken = await writes
      .updateTable('leases')
      .set({ holder, number: seen + 1 })
      .where('destination', '=', destination)
      .where('number', '=', seen)
      .executeTakeFirst()
    return taken.numUpdatedRows === 1n
  }

  async renew(holder: string): Promise<string[]> {
    const rows = await this.#database.writes
      .updateTable('leases')
      .set((eb) => ({ number: eb('number', '+', 1) }))
      .where('holder', '=', holder)
      .returning('destination')
      .execute()
    return rows.map(({ destination }) => destination)
  }

  async release(holder: string): Promise<void> {
    await this.#database.writes.deleteFrom('leases').where('holder', '=', holder).execute()
  }

  async account(fresh: string): Promise<string> {
    const row = await this.#database.writes
      .updateTable('meta')
      .set(({ fn, val }) => ({ account_id: fn.coalesce('account_id', val(fresh)) }))
      .returning('account_id')
      .executeTakeFirstOrThrow()
    return row.account_id ?? fresh
  }
}

/** Replaces the delivery report. */
export async function keepReport(connection: Kysely<Tables>, report: DeliveryReport): Promise<void> {
  const row = {
    delivered: report.delivered,
    waiting: report.waiting,
    failures: report.failures,
    last_error: report.lastError === null ? null : printable(report.lastError),
    last_failure_at: report.lastFailureAt,
    last_success_at: report.lastSuccessAt
  }
  await connection
    .insertInto('deliveries')
    .values({ destination: report.destination, ...row })
    .onConflict((conflict) => conflict.column('destination').doUpdateSet(row))
    .execute()
}

function toReport(row: Selectable<DeliveriesTable>): DeliveryReport {
  return {
    destination: row.destination,
    delivered: row.delivered,
    waiting: row.waiting,
    failures: row.failures,
    lastError: row.last_error,
    lastFailureAt: row.last_failure_at,
    lastSuccessAt: row.last_success_at
  }
}
