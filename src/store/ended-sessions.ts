import type { Database, EndedSessionsTable } from './tables.js'

/** A session of a visitor that was ended before its time, or all of one name that were begun until `begun`. Wall clock, milliseconds. */
export interface EndedSession {
  readonly id: string
  readonly begun: number
  /** When it would have ended by itself. */
  readonly ends: number
}

/** What is known since a number that an earlier answer gave. A lower number than that: the store is an older one now. */
export interface EndedSince {
  readonly sessions: readonly EndedSession[]
  readonly number: number
  /** Sessions that were begun before are over, all of them; 0: nothing was folded. */
  readonly before: number
  /** What was ended is not known just now, and nothing of it stands here. */
  readonly blind?: true
}

/** The row that counts. Its lock makes numbers visible in their order. */
const COUNTER = ''

/** Logouts, for the processes on one store and for those to come. Statements take no writer's turn. */
export class EndedSessions {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** All or nothing, each id once; those that are known already stay as they are, or take a later `begun`. */
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
    })
  }

  /** `number`: that of the last answer, at first 0. */
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
   * Forgets sessions that have ended by themselves before `now`. Of more than `most` the oldest are folded into one moment: every
   * session that was begun before it is over.
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
