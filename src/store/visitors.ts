import { type RawBuilder, sql } from 'kysely'
import type { Database, VisitorsTable, VisitsTable } from './tables.js'

/** User of a login. Times: wall clock, milliseconds. */
export interface StoredVisitor {
  readonly id: string
  readonly provider: string
  readonly issuer: string
  readonly user: string
  readonly name: string
  readonly email: string
  readonly created: number
  /** Last request. */
  readonly seen: number
  /** Last login. */
  readonly login: number
}

/** Session of a login. Times: wall clock, milliseconds. */
export interface StoredVisit {
  readonly id: string
  /** Id in the sealed cookies. */
  readonly session: string
  readonly visitor: string
  /** Name of all sessions of the user at the provider's application. */
  readonly byUser: string
  readonly owner: string
  readonly url: string
  readonly address: string
  readonly agent: string
  readonly begun: number
  readonly seen: number
  readonly ends: number
}

/** Created sessions with their users, and when others were last used. Texts must be storable. */
interface VisitorNews {
  readonly begun: readonly {
    readonly visitor: Pick<StoredVisitor, 'id' | 'provider' | 'issuer' | 'user' | 'name' | 'email'>
    readonly visit: Omit<StoredVisit, 'visitor' | 'seen' | 'byUser'> & {
      readonly names: readonly [user: string, session: string]
    }
  }[]
  readonly active: readonly { readonly session: string; readonly at: number }[]
}

interface VisitorPage {
  readonly limit: number
  /** Id of the API. */
  readonly before?: string | undefined
}

/** Time that a user without a session stays listed (ms). */
const REMEMBERED = 90 * 86_400_000
/** Maximum number of users, and of sessions. */
const MOST = 100_000

/** Users of logins and their sessions, for the API. Statements do not take the writer lock. */
export class Visitors {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async add({ begun, active }: VisitorNews): Promise<void> {
    await this.#database.writes.transaction().execute(async (trx) => {
      for (const { visitor, visit } of begun) {
        const at = Math.trunc(visit.begun)
        const { id } = await trx
          .insertInto('visitors')
          .values({
            id: visitor.id,
            provider: visitor.provider,
            issuer: visitor.issuer,
            user_id: visitor.user,
            name: visitor.name,
            email: visitor.email,
            created_at: at,
            seen_at: at,
            login_at: at
          })
          .onConflict((conflict) =>
            conflict.columns(['issuer', 'user_id']).doUpdateSet((eb) => ({
              name: eb.ref('excluded.name'),
              email: eb.ref('excluded.email'),
              seen_at: at,
              login_at: at
            }))
          )
          .returning('id')
          .executeTakeFirstOrThrow()
        await trx
          .insertInto('visits')
          .values({
            id: visit.id,
            session: visit.session,
            visitor: id,
            by_user: visit.names[0],
            by_session: visit.names[1],
            owner: visit.owner,
            url: visit.url,
            address: visit.address,
            agent: visit.agent,
            begun: at,
            seen_at: at,
            ends: Math.trunc(visit.ends)
          })
          .onConflict((conflict) => conflict.column('session').doNothing())
          .execute()
      }
      for (const { session, at } of active) {
        const seen = { seen_at: Math.trunc(at) }
        const row = await trx
          .updateTable('visits')
          .set(seen)
          .where('session', '=', session)
          .returning('visitor')
          .executeTakeFirst()
        if (row !== undefined) await trx.updateTable('visitors').set(seen).where('id', '=', row.visitor).execute()
      }
    })
  }

  /** Returns users, newest first. */
  async visitors({ limit, before }: VisitorPage): Promise<StoredVisitor[]> {
    const query = this.#database.reads.selectFrom('visitors').selectAll().orderBy(this.#id, 'desc').limit(limit)
    const rows = await (before === undefined ? query : query.where(this.#id, '<', before)).execute()
    return rows.map(toVisitor)
  }

  async visitor(id: string): Promise<StoredVisitor | undefined> {
    const row = await this.#database.reads.selectFrom('visitors').selectAll().where('id', '=', id).executeTakeFirst()
    return row === undefined ? undefined : toVisitor(row)
  }

  /** Returns sessions that have not expired at `now`, newest first; with `visitor` those of one user. */
  async visits({ limit, before }: VisitorPage, now: number, visitor?: string): Promise<StoredVisit[]> {
    let query = this.#database.reads
      .selectFrom('visits')
      .selectAll()
      .where('ends', '>', Math.trunc(now))
      .orderBy(this.#id, 'desc')
      .limit(limit)
    if (before !== undefined) query = query.where(this.#id, '<', before)
    if (visitor !== undefined) query = query.where('visitor', '=', visitor)
    return (await query.execute()).map(toVisit)
  }

  async visit(id: string, now: number): Promise<StoredVisit | undefined> {
    const row = await this.#database.reads
      .selectFrom('visits')
      .selectAll()
      .where('id', '=', id)
      .where('ends', '>', Math.trunc(now))
      .executeTakeFirst()
    return row === undefined ? undefined : toVisit(row)
  }

  /** Forgets a user, whose sessions were ended. */
  async remove(visitor: string): Promise<void> {
    const { writes } = this.#database
    await writes.deleteFrom('visits').where('visitor', '=', visitor).execute()
    await writes.deleteFrom('visitors').where('id', '=', visitor).execute()
  }

  /** Deletes sessions that ended before `now`, users who have not come for long, and the oldest of too many. */
  async forget(now: number): Promise<void> {
    const { writes } = this.#database
    const at = Math.trunc(now)
    await writes.deleteFrom('visits').where('ends', '<', at).execute()
    for (const table of ['visits', 'visitors'] as const)
      await sql`delete from ${sql.table(table)} where id in (
        select id from ${sql.table(table)} order by seen_at desc, id limit ${MOST} offset ${MOST})`.execute(writes)
    await writes
      .deleteFrom('visitors')
      .where('seen_at', '<', at - REMEMBERED)
      .where('id', 'not in', (eb) => eb.selectFrom('visits').select('visitor'))
      .execute()
  }

  /** Returns the id in the order of its bytes, as SQLite compares it. */
  get #id(): RawBuilder<string> {
    return this.#database.bytes === 'bytea' ? sql<string>`id collate "C"` : sql<string>`id`
  }
}

function toVisitor({ user_id: user, created_at, seen_at, login_at, ...row }: VisitorsTable): StoredVisitor {
  return { ...row, user, created: Number(created_at), seen: Number(seen_at), login: Number(login_at) }
}

function toVisit({ by_user: byUser, by_session: _, begun, seen_at, ends, ...row }: VisitsTable): StoredVisit {
  return { ...row, byUser, begun: Number(begun), seen: Number(seen_at), ends: Number(ends) }
}
