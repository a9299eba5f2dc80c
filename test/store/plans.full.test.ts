import { sql } from 'kysely'
import t from 'tap'
import { migrate } from '../../src/store/migrations.js'
import { type PostgresClient, PostgresDriver, postgresDatabase } from '../../src/store/postgres.js'
import { SqliteHere, sqliteDatabase } from '../../src/store/sqlite.js'
import { IN_MEMORY } from '../../src/store/sqlite-protocol.js'
import type { Store, StoreReader } from '../../src/store/store.js'
import type { Database } from '../../src/store/tables.js'
import { Lines, operation, over, type Test } from './opened.js'
import { startPostgres } from './postgres-server.js'

const EDGES = 25_000

const server = await startPostgres(t)
const PAGE = 100
const AT_ONCE = 5_000
const CHANGES = 500
/** Rows that one step of a plan may touch: some more than are asked for. */
const MOST_ROWS = CHANGES + 1
const LARGE: ReadonlySet<string> = new Set(['records', 'references', 'claims', 'changes', 'tombstones'])
const numbers = [3, 5, 7]
const edgeId = (n: number) => `edge_${n}`
const routeId = (n: number) => `route_${n}`

interface Statement {
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/** A database with everything that it is asked. */
interface Watched {
  readonly database: Database
  readonly asked: Statement[]
}

async function sqlite(t: Test): Promise<Watched> {
  const asked: Statement[] = []
  const here = SqliteHere.open(IN_MEMORY)
  const database = sqliteDatabase(IN_MEMORY, {
    execute: async (command) => {
      if (command.type === 'query') asked.push(command)
      return await here.execute(command)
    },
    copy: (to) => here.copy(to),
    close: () => here.close()
  })
  t.teardown(() => database.close())
  return { database, asked }
}

/** Its connections, with what goes over them. */
class WatchedDriver extends PostgresDriver {
  readonly asked: Statement[] = []

  override async connect(): Promise<PostgresClient> {
    const client = await super.connect()
    return {
      query: async (sql, parameters) => {
        this.asked.push({ sql, parameters })
        return await client.query(sql, parameters)
      },
      release: () => client.release()
    }
  }
}

async function postgres(t: Test): Promise<Watched> {
  const driver = new WatchedDriver(await server.database(), new Lines())
  const database = postgresDatabase(driver)
  t.teardown(() => database.close())
  return { database, asked: driver.asked }
}

/** Edges, each with a route below it. */
async function fill(store: Store): Promise<void> {
  const numbers = Array.from({ length: EDGES }, (_, n) => n)
  for (let start = 0; start < EDGES; start += AT_ONCE) {
    const some = numbers.slice(start, start + AT_ONCE)
    await store.transact(operation(), async (tx) => {
      await tx.insertMany(some.map((n) => ({ kind: 'edge', id: edgeId(n), body: { n } })))
      await tx.insertMany(some.map((n) => ({ kind: 'route', id: routeId(n), body: { edge: edgeId(n) } })))
      const to = (n: number) => ({ kind: 'edge', id: edgeId(n) })
      await tx.addReferences(
        some.map((n) => ({ from: { kind: 'route', id: routeId(n) }, field: 'edge_id', to: to(n) }))
      )
      await tx.claimMany(some.map((n) => ({ keeper: to(n), space: 'host', value: `host-${n}` })))
    })
  }
}

const below = (n: number) => ({ field: 'edge_id', to: { kind: 'edge', id: edgeId(n) } })

/** Every way in which records are looked for: its name, and what asks. */
const READS: readonly (readonly [string, (store: StoreReader) => Promise<unknown>])[] = [
  ['the first page', (store) => store.list('edge', { limit: PAGE })],
  ['a page after an id', (store) => store.list('edge', { limit: PAGE, before: edgeId(12_000) })],
  ['what stands below a record', (store) => store.list('route', { limit: PAGE, referring: below(7) })],
  [
    'what stands below a record that has nothing',
    (store) => store.list('route', { limit: PAGE, referring: below(-1) })
  ],
  [
    'a page of what stands below a record',
    (store) => store.list('route', { limit: PAGE, before: routeId(24_000), referring: below(23_000) })
  ],
  ['who names a record', (store) => store.referencesTo('edge', edgeId(9))],
  ['the first that name a record', (store) => store.referencesTo('edge', edgeId(9), 1)],
  ['who names one of some records', (store) => store.referencesToAny('edge', numbers.map(edgeId))],
  ['what a record names', (store) => store.referencesFrom('route', routeId(9))],
  ['one record', (store) => store.get('edge', edgeId(9))],
  ['some records', (store) => store.getMany(numbers.map((n) => ({ kind: 'edge', id: edgeId(n) })))],
  ['who holds a claim', (store) => store.keeperOf('host', 'host-9')],
  ['the claims of a record', (store) => store.claimsOf('edge', edgeId(9))],
  ['the last changes', (store) => store.changesAfter(EDGES / AT_ONCE, { limit: CHANGES })],
  ['the first changes of many', (store) => store.changesAfter(2, { limit: CHANGES })],
  ['the last changes of some kinds', (store) => store.changesAfter(EDGES / AT_ONCE, { kinds: ['a', 'b'] })],
  ['the last place', (store) => store.placeOf(3)]
]
/** Of these the order alone leads to the records: the index that has it is the right one. */
const IN_ORDER: ReadonlySet<string> = new Set(['the first page', 'a page after an id'])

/** What the reads ask for. */
async function statementsOf({ asked }: Watched, store: Store) {
  const found: { name: string; statement: Statement }[] = []
  for (const [name, read] of READS) {
    asked.length = 0
    await read(store)
    for (const statement of [...asked]) found.push({ name, statement })
  }
  t.ok(found.length >= READS.length)
  return found
}

async function explained(database: Database, how: string, { sql: text, parameters }: Statement) {
  const query = { ...sql`select 1`.compile(database.reads), sql: `${how} ${text}`, parameters }
  return (await database.reads.executeQuery(query)).rows as Record<string, unknown>[]
}

t.test('SQLite walks through no table for a list or a look-up', async (t) => {
  const watched = await sqlite(t)
  await migrate(watched.database)
  const { store } = over(watched.database)
  await fill(store)
  for (const { name, statement } of await statementsOf(watched, store)) {
    const plan = (await explained(watched.database, 'explain query plan', statement)).map(({ detail }) =>
      String(detail)
    )
    const scans = plan.filter((step) => LARGE.has(/^SCAN (\w+)/.exec(step)?.[1] ?? ''))
    const walks = plan.filter((step) => /^SEARCH (records|references) /.test(step) && !/\(\w+=\? AND /.test(step))
    t.same([...scans, ...(IN_ORDER.has(name) ? [] : walks)], [], `${name}: ${plan.join(', ')}`)
  }
})

/** A step of a plan of PostgreSQL with what it did. */
interface Step {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Join Filter'?: number
  readonly Plans?: readonly Step[]
}

const stepsOf = (step: Step): Step[] => [step, ...(step.Plans ?? []).flatMap(stepsOf)]

/** Rows that a step has looked at. */
function touched(step: Step): number {
  const { 'Rows Removed by Filter': filtered = 0, 'Rows Removed by Join Filter': unjoined = 0 } = step
  return (step['Actual Rows'] + filtered + unjoined) * step['Actual Loops']
}

t.test('PostgreSQL walks through no table for a list or a look-up', async (t) => {
  const watched = await postgres(t)
  await migrate(watched.database)
  const { store } = over(watched.database)
  await fill(store)
  for (const analyzed of [false, true]) {
    if (analyzed) await sql`analyze`.execute(watched.database.writes)
    for (const { name, statement } of await statementsOf(watched, store)) {
      const [answer] = await explained(watched.database, 'explain (analyze, format json)', statement)
      const [{ Plan: plan }] = (answer as { 'QUERY PLAN': [{ Plan: Step }] })['QUERY PLAN']
      const steps = stepsOf(plan)
      const scans = steps.filter((step) => step['Node Type'] === 'Seq Scan' && LARGE.has(step['Relation Name'] ?? ''))
      t.same(scans, [], `${name}: no table is scanned`)
      const most = Math.max(...steps.map(touched))
      t.ok(most <= MOST_ROWS, `${name}${analyzed ? ', with statistics' : ''}: ${most} rows were touched`)
    }
  }
})

t.test('a write knows the place before it without a question of its own', async (t) => {
  for (const watched of [await sqlite(t), await postgres(t)]) {
    const { asked, database } = watched
    await migrate(database)
    const { store } = over(database)
    const before = (write: string) =>
      store.transact(write, async (tx) => {
        const count = asked.length
        const place = await tx.placeOf(tx.previous)
        await tx.insert({ kind: 'edge', id: write, body: null })
        return { place, questions: asked.length - count - 1 }
      })
    t.same((await before('op_first')).value, { place: { revision: 0, mark: undefined }, questions: 1 })
    t.same((await before('op_second')).value, { place: { revision: 1, mark: 'op_first' }, questions: 0 })
    t.same((await before('op_third')).value, { place: { revision: 2, mark: 'op_second' }, questions: 0 })
    await store.transact('op_other', async (tx) => {
      t.same(await tx.placeOf(1), { revision: 1, mark: 'op_first' })
    })
  }
})
