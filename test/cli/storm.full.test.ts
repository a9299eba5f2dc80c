import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { SqliteHere, sqliteDatabase } from '../../src/store/sqlite.js'
import { random, whole } from '../features/rate-limit/limiter/support/random.js'
import { folder } from '../store/opened.js'
import { type Acknowledged, inOrder, launch, misled, StormWriter, settle, startStand } from './storm.js'
import { inconsistent } from './storm-store.js'

const LONG = process.env.SLUICE_TEST_LONG === '1'
const ROUNDS = LONG ? 60 : 3
const WRITERS = 6

/** A killed process leaves a file whose pages and keys are sound, and what was acknowledged is in it. */
async function soundFile(t: Test, path: string, acknowledged: readonly Acknowledged[]): Promise<void> {
  const database = sqliteDatabase(path, SqliteHere.open(path))
  try {
    const { rows } = await sql<{ integrity_check: string }>`pragma integrity_check`.execute(database.reads)
    t.same(rows, [{ integrity_check: 'ok' }])
    t.same((await sql`pragma foreign_key_check`.execute(database.reads)).rows, [])
    t.same(await inconsistent(database, acknowledged), [])
  } finally {
    await database.close()
  }
}

const seed = Number(process.env.TEST_SEED ?? 20_251_122)

t.test(
  `kill -9 in a storm of writes loses nothing acknowledged, leaves nothing half (TEST_SEED=${seed})`,
  async (t) => {
    const next = random(seed)
    const cwd = await folder(t)
    const writers = Array.from({ length: WRITERS }, (_, n) => new StormWriter(`w${n}`, random(whole(next, 0, 2 ** 31))))
    const acknowledged: Acknowledged[] = []
    const counter = { now: 0 }
    let stand = await startStand(t, cwd, {})
    for (let round = 0; round < ROUNDS; round++) {
      const { process: sluice, ask } = stand
      const enough = acknowledged.length + whole(next, 1, 120)
      const wait = next() * 8
      let killed: Promise<unknown> | undefined
      const heard = (write: Acknowledged) => {
        acknowledged.push(write)
        if (acknowledged.length < enough) return
        killed ??= sleep(wait).then(() => sluice.child.kill('SIGKILL'))
      }
      await Promise.all(writers.map((writer) => writer.storm(ask, counter, heard)))
      await killed
      await sluice.ended()
      await soundFile(t, join(cwd, 'data', 'sluice.db'), acknowledged)
      if (round % 3 === 2) {
        // Killed once more while it gets up.
        const early = launch(t, cwd, {})
        await sleep(next() * 600)
        early.child.kill('SIGKILL')
        await early.ended()
      }
      stand = await startStand(t, cwd, {})
      t.same(await settle(stand.ask, writers), [], `round ${round}: what the API shows is what was acknowledged`)
      t.same(await misled(stand.traffic, writers), [], 'and what serves')
    }
    t.ok(inOrder(acknowledged), 'revisions are in the order of the answers')
    t.comment(`${acknowledged.length} writes acknowledged, ${ROUNDS} kills`)
    t.ok(acknowledged.length > ROUNDS * 10)
  }
)
