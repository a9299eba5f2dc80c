import t from 'tap'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { HandClock } from './support/exact-log.js'
import { random, whole } from './support/random.js'

const MEBIBYTE = 2 ** 20
const WINDOWS = [1, 60, 600, 86_400]
const CAPACITY = 100

function tableOf(clock: HandClock, seed: Uint8Array, budgetBytes = 16 * MEBIBYTE) {
  const table = new LimiterTable({ clock, budgetBytes, seed })
  return { table, windows: WINDOWS.map((seconds) => new SlidingWindow(table, `limit ${seconds}`, seconds)) }
}

t.test('a table that resumes another one decides as that one does, whatever it had taken', async (t) => {
  const draw = random(7)
  for (let round = 0; round < 8; round++) {
    const clock = new HandClock(2 ** 32 - 50_000)
    const before = tableOf(clock, new Uint8Array(16).fill(round))
    // The last rounds have more keys than there is room for.
    const keys = round < 6 ? 300 : 300_000
    const takes = round < 6 ? 5_000 : 600_000
    for (let i = 0; i < takes; i++) {
      if (i % 100 === 0) clock.now += whole(draw, 0, 400)
      const key = `client ${whole(draw, 0, keys)}`
      before.windows[whole(draw, 0, WINDOWS.length - 1)]?.take(key, CAPACITY, whole(draw, 1, 5))
    }
    const begun = clock.now
    const after = tableOf(clock, before.table.secret)
    t.ok(after.table.resume(Buffer.concat([...before.table.pieces()])))
    t.same(after.table.statistics(), before.table.statistics())
    let differing = 0
    for (let i = 0; i < 5_000; i++) {
      if (i % 50 === 0) clock.now += whole(draw, 0, 5_000)
      const [at, key] = [whole(draw, 0, WINDOWS.length - 1), `client ${whole(draw, 0, keys)}`]
      const [one, other] = [before, after].map(({ windows }) => ({ ...windows[at]?.take(key, CAPACITY) }))
      // What the other process has admitted last is not what this one has.
      const known = (one?.before ?? -1) < begun ? -1 : one?.before
      if (JSON.stringify({ ...one, before: known }) !== JSON.stringify(other)) differing++
    }
    t.equal(differing, 0, `round ${round}`)
  }
})

t.test('what is of another table is refused as a whole', async (t) => {
  const clock = new HandClock(0)
  const seed = new Uint8Array(16)
  const before = tableOf(clock, seed)
  before.windows[0]?.take('client', CAPACITY)
  const pieces = Buffer.concat([...before.table.pieces()])
  const other = tableOf(clock, seed, 32 * MEBIBYTE)
  t.notOk(other.table.resume(pieces), 'of another budget')
  const after = tableOf(clock, seed)
  for (const wrong of [
    Buffer.alloc(0),
    Buffer.from('nonsense'),
    pieces.subarray(0, 18),
    Buffer.concat([pieces.subarray(0, 16), Buffer.alloc(8, 0xff)])
  ]) {
    t.notOk(after.table.resume(wrong))
  }
  t.equal(after.table.statistics().buckets, 0, 'nothing was taken')
  t.ok(after.table.resume(pieces))
  t.equal(after.table.statistics().buckets, 1)
})
