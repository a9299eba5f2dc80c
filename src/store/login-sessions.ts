import { sql, type Transaction } from 'kysely'
import type { Database, Tables } from './tables.js'

/** Generation of a session of a visitor, sealed by the login that wrote it; '' for one that has ended. */
export interface KeptSession {
  readonly number: number
  readonly sealed: string
}

/** Generation of a session to write. Times: wall clock, milliseconds. */
export interface SavedSession extends KeptSession {
  readonly id: string
  readonly ends: number
  readonly at: number
  /** Cookies hold a reference alone: without the row the session is lost. */
  readonly needed: boolean
  /** Holder of the lease under which it is written; '' for the first generation. */
  readonly holder: string
  /** Releases the lease too. */
  readonly last: boolean
}

/** Right to make the next generation of a session. */
export interface SessionLease {
  readonly id: string
  /** The generation that the holder knows. */
  readonly number: number
  /** Random, new for each lease. */
  readonly holder: string
  readonly at: number
  readonly ends: number
}

/** Most rows of one kind and their bytes. */
export interface SessionRoom {
  readonly rows: number
  readonly bytes: number
}

/** Milliseconds until another process may take the lease of one that has died: longer than clocks of a cluster may differ. */
const LEASE = 90_000

/** Sessions of visitors that cookies cannot hold, or whose tokens were renewed: the processes of one store share them. */
export class LoginSessions {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async read(id: string): Promise<KeptSession | undefined> {
    const row = await this.#row(id)
    return row === undefined ? undefined : { number: Number(row.number), sealed: row.sealed ?? '' }
  }

  /**
   * Takes the lease unless it is held. Answers the generation that another holder has made since `number`, or `busy` while that one
   * is at work.
   */
  async claim({ id, number, holder, at, ends }: SessionLease): Promise<'claimed' | 'busy' | KeptSession> {
    const [now, until] = [Math.trunc(at), Math.trunc(ends)]
    const claimed = await this.#database.writes
      .insertInto('login_sessions')
      .values({ id, number, needed: 0, size: 0, ends: until, at: now, holder, held_at: now, sealed: null })
      .onConflict((conflict) =>
        conflict
          .column('id')
          .doUpdateSet({ holder, held_at: now })
          .where('login_sessions.number', '<=', number)
          .where((eb) =>
            eb.or([
              eb('login_sessions.holder', 'is', null),
              eb('login_sessions.held_at', '<', now - LEASE),
              eb('login_sessions.held_at', '>', now + LEASE)
            ])
          )
      )
      .returning('id')
      .executeTakeFirst()
    if (claimed !== undefined) return 'claimed'
    const row = await this.#row(id)
    if (row === undefined || Number(row.number) <= number) return 'busy'
    const isHeld = row.holder !== null && Math.abs(now - Number(row.held_at)) <= LEASE
    return isHeld ? 'busy' : { number: Number(row.number), sealed: row.sealed ?? '' }
  }

  /** Writes a generation under its lease, or one that is newer than what is known. False: there is no room for what is `needed`. */
  async save(session: SavedSession, room: SessionRoom): Promise<boolean> {
    const { id, number, sealed, holder, last } = session
    const row = {
      number,
      needed: session.needed ? 1 : 0,
      size: sealed.length,
      ends: Math.trunc(session.ends),
      at: Math.trunc(session.at),
      sealed
    }
    const held = last ? { holder: null, held_at: 0 } : { holder, held_at: row.at }
    return await this.#database.writes.transaction().execute(async (trx) => {
      if (session.needed && !(await hasRoom(trx, session, room))) return false
      await trx
        .insertInto('login_sessions')
        .values({ id, ...row, ...held })
        .onConflict((conflict) =>
          conflict
            .column('id')
            .doUpdateSet({ ...row, ...held })
            .where((eb) => eb.or([eb('login_sessions.holder', '=', holder), eb('login_sessions.number', '<', number)]))
        )
        .execute()
      return true
    })
  }

  /** Gives the lease back without a new generation. */
  async release({ id, holder }: Pick<SessionLease, 'id' | 'holder'>): Promise<void> {
    const { writes } = this.#database
    await writes
      .updateTable('login_sessions')
      .set({ holder: null, held_at: 0 })
      .where('id', '=', id)
      .where('holder', '=', holder)
      .execute()
    await writes
      .deleteFrom('login_sessions')
      .where('id', '=', id)
      .where('holder', 'is', null)
      .where('sealed', 'is', null)
      .execute()
  }

  /** Drops sessions that have ended before `now`, and of those that cookies hold too the oldest ones for which there is no room. */
  async forget(now: number, spare: SessionRoom): Promise<void> {
    const at = Math.trunc(now)
    await this.#database.writes.transaction().execute(async (trx) => {
      await trx
        .deleteFrom('login_sessions')
        .where((eb) => eb.or([eb('ends', '<', at), eb.and([eb('sealed', 'is', null), eb('held_at', '<', at - LEASE)])]))
        .execute()
      await sql`
        delete from login_sessions where needed = 0 and id in (
          select id from (
            select id, sum(size) over newest as bytes, row_number() over newest as place from login_sessions
            where needed = 0 window newest as (order by at desc, id)
          ) as spare where bytes > ${spare.bytes} or place > ${spare.rows})`.execute(trx)
    })
  }

  #row(id: string) {
    return this.#database.reads
      .selectFrom('login_sessions')
      .select(['number', 'holder', 'held_at', 'sealed'])
      .where('id', '=', id)
      .executeTakeFirst()
  }
}

async function hasRoom(
  trx: Transaction<Tables>,
  { id, sealed }: SavedSession,
  { rows, bytes }: SessionRoom
): Promise<boolean> {
  const { count, size } = await trx
    .selectFrom('login_sessions')
    .select((eb) => [eb.fn.countAll().as('count'), eb.fn.sum('size').as('size')])
    .where('needed', '=', 1)
    .where('id', '!=', id)
    .executeTakeFirstOrThrow()
  return Number(count) < rows && Number(size ?? 0) + sealed.length <= bytes
}
