import t from 'tap'
import { Geometries, geometryOf } from '../../../../src/features/rate-limit/limiter/layout.js'
import { SlidingWindow } from '../../../../src/features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../../../src/features/rate-limit/limiter/table.js'
import { ExactLog, HandClock } from './support/exact-log.js'

const SEED = new Uint8Array(16).fill(9)

t.test('every window has a code of 14 bits, and counters that fit into a state', async (t) => {
  const geometries = new Geometries()
  const codes = new Set<number>()
  for (let seconds = 1; seconds <= 86_400; seconds += seconds < 60 ? 1 : 10) {
    const { code, cells, blocks, grain, rate } = geometryOf(seconds)
    codes.add(code)
    const fits = code < 2 ** 14 && (blocks > 0 || cells <= 122) && grain * (cells - 1) >= rate
    if (!fits || geometries.of(code).seconds !== seconds) t.fail(`${seconds} s`)
  }
  t.equal(codes.size, 59 + 8_635)
  for (const wrong of [0, 1, 5, 8_640 + 60, 2 ** 14 - 1])
    t.throws(() => geometries.of(wrong), RangeError, String(wrong))
})

t.test('counters of a short window stay exact where their grains exceed 32 bits', async (t) => {
  for (const seconds of [1, 5, 7]) {
    const { grain, rate } = geometryOf(seconds)
    for (const start of [2 ** 32 * grain - rate / 2, 2 ** 33 * grain + 12_345]) {
      const clock = new HandClock(Math.floor(start))
      const table = new LimiterTable({ clock, budgetBytes: 256 * 1_024, seed: SEED })
      const window = new SlidingWindow(table, 'years', seconds)
      const log = new ExactLog()
      for (let step = 0; step < 400; step += 1) {
        if (window.take('k', 1_000, 10).admitted) log.add(clock.now, 10)
        clock.now += Math.ceil(rate / 80)
      }
      t.ok(log.count(clock.now, rate) >= 740, 'admissions that have left the window count no more')
      const poured: number[] = []
      const last = window.pour('k', { add: (stamp) => poured.push(stamp) })
      const [first = 0] = poured
      t.ok(
        first > clock.now - rate - grain && first <= clock.now,
        `${seconds} s: the oldest is ${clock.now - first} ms old`
      )
      t.equal(last, log.last)
      const wait = window.take('k', 800, 100).retryAfterSeconds
      t.ok(wait >= 1 && wait <= seconds)
    }
  }
})

t.test('a copy of a table from the version before short windows is resumed', async (t) => {
  const clock = new HandClock(5_000_000)
  const before = new LimiterTable({ clock, budgetBytes: 256 * 1_024, seed: SEED })
  new SlidingWindow(before, 'copied', 60).take('k', 10, 4)
  const pieces = Buffer.concat([...before.pieces()])
  for (const version of [2, 1, 4]) {
    pieces.writeDoubleLE(version, 0)
    const after = new LimiterTable({ clock, budgetBytes: 256 * 1_024, seed: SEED })
    t.equal(after.resume(pieces), version === 2, `version ${version}`)
    t.equal(new SlidingWindow(after, 'copied', 60).inspect('k').count, version === 2 ? 4 : 0)
    t.ok(new LimiterTable({ clock, handle: after.share(1) }), 'its threads share it')
  }
})
