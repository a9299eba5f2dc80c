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
/** Milliseconds after which it is written down that a session was read. */
const TOUCH = 3_600_000

/** Sessions of visitors that cookies cannot hold, or whose tokens were renewed: the processes of one store share them. */
export class LoginSessions {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** `at`: now, in milliseconds: a session that is read counts as new. */
  async read(id: string, at: number): Promise<KeptSession | undefined> {
    const row = await this.#row(id)
    if (row !== undefined && at - Number(row.at) > TOUCH)
      await this.#database.writes
        .updateTable('login_sessions')
        .set({ at: Math.trunc(at) })
        .where('id', '=', id)
        .execute()
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

  /** Writes a generation under its lease, or one that is newer than what is known. Of those that are `needed` the oldest make room; false: this one alone has none. */
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
    if (session.needed && row.size > room.bytes) return false
    return await this.#database.writes.transaction().execute(async (trx) => {
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
      if (session.needed) await keepNewest(trx, 1, room)
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
      await keepNewest(trx, 0, spare)
    })
  }

  #row(id: string) {
    return this.#database.reads
      .selectFrom('login_sessions')
      .select(['number', 'at', 'holder', 'held_at', 'sealed'])
      .where('id', '=', id)
      .executeTakeFirst()
  }
}

/** Drops the oldest sessions of one kind for which there is no room. */
async function keepNewest(trx: Transaction<Tables>, needed: 0 | 1, room: SessionRoom): Promise<void> {
  await sql`
    delete from login_sessions where needed = ${needed} and id in (
      select id from (
        select id, sum(size) over newest as bytes, row_number() over newest as place from login_sessions
        where needed = ${needed} window newest as (order by at desc, id)
      ) as kept where bytes > ${room.bytes} or place > ${room.rows})`.execute(trx)
}
