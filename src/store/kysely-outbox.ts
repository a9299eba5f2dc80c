import type { Kysely, Selectable } from 'kysely'
import type { Database } from './database.js'
import type { DeliveryReport, Lease, Outbox, OutboxEntry, OutboxPlace } from './outbox.js'
import { printable } from './rows.js'
import type { DeliveriesTable, Tables } from './tables.js'

/** The outbox over any database that Kysely speaks to. Its statements stand for themselves: none of them takes the writer's turn. */
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

/** Keeps the report in the place of the one before. */
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
