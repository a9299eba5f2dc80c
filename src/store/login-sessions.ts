import { sql, type Transaction } from 'kysely'
import type { Database, Tables } from './tables.js'

/** Generation of a visitor session, sealed by the login that wrote it; '' if the session ended. */
export interface KeptSession {
  readonly number: number
  readonly sealed: string
}

/** Session generation to write. Times: wall clock, milliseconds. */
export interface SavedSession extends KeptSession {
  readonly id: string
  readonly ends: number
  readonly at: number
  /** Cookies hold only a reference: without the row the session is lost. */
  readonly needed: boolean
  /** Holder of the lease for this write; '' for the first generation. */
  readonly holder: string
  /** Releases the lease as well. */
  readonly last: boolean
}

/** Right to create the next generation of a session. */
export interface SessionLease {
  readonly id: string
  /** Generation known to the holder. */
  readonly number: number
  /** Random and different for each lease. */
  readonly holder: string
  readonly at: number
  readonly ends: number
}

/** Maximum rows of one kind and their bytes. */
export interface SessionRoom {
  readonly rows: number
  readonly bytes: number
}

/** Time until another process may take over the lease of a crashed one; longer than clock differences in a cluster (ms). */
const LEASE = 90_000
/** Minimum interval between updates of a session's last use (ms). */
const TOUCH = 3_600_000

/** Visitor sessions that do not fit into cookies, or whose tokens were renewed, shared by the processes of one store. */
export class LoginSessions {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** `at`: now, in milliseconds; reading a session renews its last use. */
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
   * Takes the lease unless it is held. Returns the generation that another holder created after `number`, or `busy` while that holder is
   * working.
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

  /**
   * Writes a generation under its lease, or a newer one than the stored. Removes the oldest `needed` rows to make room; returns false if
   * this row alone is too large.
   */
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

  /** Releases the lease without a new generation. */
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

  /** Deletes sessions that ended before `now`, and the oldest of those that cookies hold as well if they exceed the room. */
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

/** Deletes the oldest sessions of one kind that exceed the room. */
async function keepNewest(trx: Transaction<Tables>, needed: 0 | 1, room: SessionRoom): Promise<void> {
  await sql`
    delete from login_sessions where needed = ${needed} and id in (
      select id from (
        select id, sum(size) over newest as bytes, row_number() over newest as place from login_sessions
        where needed = ${needed} window newest as (order by at desc, id)
      ) as kept where bytes > ${room.bytes} or place > ${room.rows})`.execute(trx)
}
