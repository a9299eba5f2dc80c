import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { PostgresDriver, postgresDatabase } from '../../src/store/postgres.js'
import { random, whole } from '../features/rate-limit/limiter/support/random.js'
import { folder, Lines } from '../store/opened.js'
import { startPostgres } from '../store/postgres-server.js'
import { type Acknowledged, inOrder, misled, StormWriter, settle, startStand } from './storm.js'
import { inconsistent } from './storm-store.js'

const LONG = process.env.SLUICE_TEST_LONG === '1'
const ROUNDS = LONG ? 60 : 1
const WRITERS = 3
const seed = Number(process.env.TEST_SEED ?? 20_251_123)

t.test(`kill -9 of one of two writing processes loses nothing on PostgreSQL either (TEST_SEED=${seed})`, async (t) => {
  const next = random(seed)
  const server = await startPostgres(t)
  const url = await server.database()
  const cwds = [await folder(t), await folder(t)]
  const env = { SLUICE_STORE: url, SLUICE_SEAL_KEY: Buffer.alloc(32, 's').toString('base64') }
  const crew = (name: string) =>
    Array.from({ length: WRITERS }, (_, n) => new StormWriter(`${name}${n}`, random(whole(next, 0, 2 ** 31))))
  const crews = [crew('a'), crew('b')]
  const writers = crews.flat()
  const acknowledged: Acknowledged[] = []
  const counter = { now: 0 }
  const start = (n: number) => startStand(t, cwds[n] as string, env)
  // One after the other: the first makes the schema and the account.
  const stands = [await start(0), await start(1)]
  for (let round = 0; round < ROUNDS; round++) {
    const victim = whole(next, 0, 1)
    const enough = acknowledged.length + whole(next, 10, 120)
    const wait = next() * 8
    let killed: Promise<unknown> | undefined
    const heard = (write: Acknowledged) => {
      acknowledged.push(write)
      if (acknowledged.length < enough) return
      killed ??= sleep(wait).then(() => stands[victim]?.process.child.kill('SIGKILL'))
    }
    const storms = crews.map((crew, n) =>
      crew.map((writer) => writer.storm((stands[n] as (typeof stands)[0]).ask, counter, heard))
    )
    await Promise.all(storms[victim] ?? [])
    await killed
    // The other one has gone on writing meanwhile; it is killed too, so that the store stands still.
    const other = stands[1 - victim] as (typeof stands)[0]
    other.process.child.kill('SIGKILL')
    await Promise.all(storms.flat())
    await Promise.all(stands.map(({ process }) => process.ended()))
    const database = postgresDatabase(new PostgresDriver(url, new Lines()))
    // What a dead client left behind: its transaction ends when the server finds the connection closed.
    await database.writes
      .updateTable('meta')
      .set({ schema_version: (eb) => eb.ref('schema_version') })
      .execute()
    t.same(await inconsistent(database, acknowledged), [])
    await database.close()
    stands.splice(0, 2, ...(await Promise.all([start(0), start(1)])))
    t.same(await settle((stands[0] as (typeof stands)[0]).ask, writers), [], `round ${round}: what the API shows`)
    for (const { traffic } of stands) t.same(await misled(traffic, writers), [], 'and what serves, on both')
  }
  t.ok(inOrder(acknowledged), 'revisions are in the order of the answers, over both processes')
  t.ok(acknowledged.length > ROUNDS * 10, `${acknowledged.length} writes were acknowledged`)
})
