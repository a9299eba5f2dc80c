import type { Database, EndedSessionsTable } from './tables.js'

/** Visitor session ended early, or all sessions of one name that began until `begun`. Wall clock, milliseconds. */
export interface EndedSession {
  readonly id: string
  readonly begun: number
  /** Regular expiry. */
  readonly ends: number
}

/** Sessions ended since a number from an earlier result. A lower number than that means that the store is an older one. */
export interface EndedSince {
  readonly sessions: readonly EndedSession[]
  readonly number: number
  /** All sessions that began earlier are ended; 0: none folded. */
  readonly before: number
  /** Ended sessions are unknown at the moment; the list is empty. */
  readonly blind?: true
}

/** Id of the counter row. Its lock makes numbers visible in order. */
const COUNTER = ''

/** Logouts for all processes on one store, and for later ones. Statements do not take the writer lock. */
export class EndedSessions {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** Adds sessions, all or nothing, each id once; known ones are unchanged or get a later `begun`. */
  async add(sessions: readonly EndedSession[]): Promise<void> {
    await this.#database.writes.transaction().execute(async (trx) => {
      const { number } = await trx
        .insertInto('ended_sessions')
        .values({ id: COUNTER, number: 1, begun: 0, ends: 0 })
        .onConflict((conflict) =>
          conflict.column('id').doUpdateSet((eb) => ({ number: eb('ended_sessions.number', '+', 1) }))
        )
        .returning('number')
        .executeTakeFirstOrThrow()
      await trx
        .insertInto('ended_sessions')
        .values(
          sessions.map(({ id, begun, ends }) => ({ id, number, begun: Math.trunc(begun), ends: Math.trunc(ends) }))
        )
        .onConflict((conflict) =>
          conflict
            .column('id')
            .doUpdateSet((eb) => ({ number, begun: eb.ref('excluded.begun'), ends: eb.ref('excluded.ends') }))
            .whereRef('ended_sessions.begun', '<', 'excluded.begun')
        )
        .execute()
      const ids = sessions.map(({ id }) => id)
      await trx.deleteFrom('login_sessions').where('id', 'in', ids).execute()
      await trx.deleteFrom('visits').where('session', 'in', ids).execute()
      for (const { id, begun } of sessions)
        await trx
          .deleteFrom('visits')
          .where((eb) => eb.or([eb('by_user', '=', id), eb('by_session', '=', id)]))
          .where('begun', '<=', Math.trunc(begun))
          .execute()
    })
  }

  /** `number`: that of the last result, 0 at first. */
  async since(number: number): Promise<EndedSince> {
    const rows = await this.#database.reads
      .selectFrom('ended_sessions')
      .selectAll()
      .where((eb) => eb.or([eb('number', '>', number), eb('id', '=', COUNTER)]))
      .execute()
    const counter = rows.find(({ id }) => id === COUNTER)
    return {
      sessions: rows.filter(({ id }) => id !== COUNTER).map(toSession),
      number: counter === undefined ? 0 : Number(counter.number),
      before: counter === undefined ? 0 : Number(counter.begun)
    }
  }

  /**
   * Deletes sessions that expired before `now`. Beyond `most` the oldest are folded into one time: every session that began earlier is
   * ended.
   */
  async forget(now: number, most: number): Promise<void> {
    await this.#database.writes.transaction().execute(async (trx) => {
      await trx.deleteFrom('ended_sessions').where('id', '!=', COUNTER).where('ends', '<', Math.trunc(now)).execute()
      const { count } = await trx
        .selectFrom('ended_sessions')
        .select((eb) => eb.fn.countAll().as('count'))
        .executeTakeFirstOrThrow()
      const excess = Number(count) - 1 - most
      if (excess <= 0) return
      const { begun } = await trx
        .selectFrom('ended_sessions')
        .select('begun')
        .where('id', '!=', COUNTER)
        .orderBy('begun')
        .offset(excess)
        .limit(1)
        .executeTakeFirstOrThrow()
      await trx.deleteFrom('ended_sessions').where('id', '!=', COUNTER).where('begun', '<', begun).execute()
      await trx
        .updateTable('ended_sessions')
        .set((eb) => ({ number: eb('number', '+', 1), begun }))
        .where('id', '=', COUNTER)
        .execute()
    })
  }
}

function toSession({ id, begun, ends }: EndedSessionsTable): EndedSession {
  return { id, begun: Number(begun), ends: Number(ends) }
}
