import { type Kysely, type Selectable, sql } from 'kysely'
import { keepReport } from './kysely-board.js'
import type {
  DeadLetter,
  DeadLetterBounds,
  DeadLetterCounts,
  DeadLetters,
  DeliveryReport,
  NewDeadLetter,
  WholeDeadLetter
} from './outbox.js'
import { printable } from './queries.js'
import type { Database, DeadLettersTable, Tables } from './tables.js'

const COLUMNS = [
  'number',
  'at',
  'event_id',
  'event_type',
  'event_timestamp',
  'attempts',
  'reason',
  'size'
] as const satisfies readonly (keyof DeadLettersTable)[]

/** Dead letters on any database that Kysely supports. */
export class KyselyDeadLetters implements DeadLetters {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async add(
    letter: NewDeadLetter,
    report: DeliveryReport,
    bounds: DeadLetterBounds
  ): Promise<DeadLetterCounts | undefined> {
    const { destination, place, body } = letter
    return await this.#database.writes.transaction().execute(async (trx) => {
      // If two processes both believe in their lease, only one finds the event in the outbox.
      const waiting = await trx
        .deleteFrom('outbox')
        .where('destination', '=', destination)
        .where('revision', '=', place.revision)
        .where('position', '=', place.position)
        .executeTakeFirst()
      if (waiting.numDeletedRows === 0n) return undefined
      await keepReport(trx, report)
      const { letters_added: number } = await trx
        .updateTable('deliveries')
        .set((eb) => ({ letters_added: eb('letters_added', '+', 1) }))
        .where('destination', '=', destination)
        .returning('letters_added')
        .executeTakeFirstOrThrow()
      await trx
        .insertInto('dead_letters')
        .values({
          destination,
          number,
          at: letter.at,
          event_id: letter.eventId,
          event_type: letter.eventType,
          event_timestamp: letter.eventTimestamp,
          attempts: letter.attempts,
          reason: printable(letter.reason),
          size: Buffer.byteLength(body),
          body
        })
        .execute()
      return await bound(trx, destination, bounds)
    })
  }

  async list(
    destination: string,
    { limit, before = Number.MAX_SAFE_INTEGER }: { readonly limit: number; readonly before?: number }
  ): Promise<DeadLetter[]> {
    const rows = await this.#database.reads
      .selectFrom('dead_letters')
      .select(COLUMNS)
      .where('destination', '=', destination)
      .where('number', '<', before)
      .orderBy('number', 'desc')
      .limit(limit)
      .execute()
    return rows.map(toLetter)
  }

  async get(destination: string, number: number): Promise<WholeDeadLetter | undefined> {
    const row = await this.#database.reads
      .selectFrom('dead_letters')
      .select([...COLUMNS, 'body'])
      .where('destination', '=', destination)
      .where('number', '=', number)
      .executeTakeFirst()
    return row === undefined ? undefined : { ...toLetter(row), body: row.body }
  }

  async drop(destination: string, number?: number): Promise<number> {
    const dropped = await this.#database.writes
      .deleteFrom('dead_letters')
      .where('destination', '=', destination)
      .$if(number !== undefined, (query) => query.where('number', '=', number ?? 0))
      .executeTakeFirst()
    return Number(dropped.numDeletedRows)
  }

  async counts(): Promise<DeadLetterCounts[]> {
    const rows = await this.#database.reads
      .selectFrom('deliveries')
      .select(({ selectFrom, fn }) => [
        'destination',
        'letters_dropped',
        selectFrom('dead_letters')
          .whereRef('dead_letters.destination', '=', 'deliveries.destination')
          .select(fn.countAll().as('rows'))
          .as('letters')
      ])
      .execute()
    return rows.map(({ destination, letters, letters_dropped }) => {
      return { destination, letters: Number(letters), dropped: letters_dropped }
    })
  }
}

/** Drops and counts the oldest beyond the bounds. */
async function bound(
  trx: Kysely<Tables>,
  destination: string,
  { letters: most, bytes }: DeadLetterBounds
): Promise<DeadLetterCounts> {
  const rows = await trx
    .selectFrom('dead_letters')
    .select(['number', 'size'])
    .where('destination', '=', destination)
    .orderBy('number', 'desc')
    .execute()
  let sum = 0
  const kept = rows.findIndex(({ size }, place) => {
    sum += size
    return place > 0 && (place >= most || sum > bytes)
  })
  const letters = kept === -1 ? rows.length : kept
  const oldest = rows[letters]
  if (oldest !== undefined) {
    await trx
      .deleteFrom('dead_letters')
      .where('destination', '=', destination)
      .where('number', '<=', oldest.number)
      .execute()
  }
  const { letters_dropped: dropped } = await trx
    .updateTable('deliveries')
    .set((eb) => ({ letters_dropped: eb('letters_dropped', '+', rows.length - letters) }))
    .where('destination', '=', destination)
    .returning('letters_dropped')
    .executeTakeFirstOrThrow()
  return { destination, letters, dropped }
}

function toLetter(row: Omit<Selectable<DeadLettersTable>, 'destination' | 'body'>): DeadLetter {
  return {
    number: row.number,
    at: row.at,
    eventId: row.event_id,
    eventType: row.event_type,
    eventTimestamp: row.event_timestamp,
    attempts: row.attempts,
    reason: row.reason,
    size: row.size
  }
}

interface Redelivery {
  readonly destination: string
  /** Number of one dead letter; undefined: all of the destination. */
  readonly letter: number | undefined
  /** Revision of the first moved entry in the outbox. */
  readonly revision: number
  readonly position: number
}

/** Moves dead letters back into the outbox in order of their numbers. Returns how many. */
export async function moveToOutbox(
  trx: Kysely<Tables>,
  { destination, letter, revision, position }: Redelivery
): Promise<number> {
  const moved = await trx
    .insertInto('outbox')
    .columns(['destination', 'revision', 'position', 'body'])
    .expression(
      trx
        .selectFrom('dead_letters')
        .select([
          'destination',
          sql<number>`cast(${revision} as bigint)`.as('revision'),
          sql<number>`cast(${position} as integer) + row_number() over (order by number) - 1`.as('position'),
          'body'
        ])
        .where('destination', '=', destination)
        .$if(letter !== undefined, (query) => query.where('number', '=', letter ?? 0))
    )
    .executeTakeFirst()
  const count = Number(moved.numInsertedOrUpdatedRows ?? 0n)
  if (count === 0) return 0
  await trx
    .deleteFrom('dead_letters')
    .where('destination', '=', destination)
    .$if(letter !== undefined, (query) => query.where('number', '=', letter ?? 0))
    .execute()
  return count
}
