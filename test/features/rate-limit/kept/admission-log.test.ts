import t from 'tap'
import {
  AdmissionLog,
  COST_BITS,
  LARGE_COST,
  RECORD_WORDS
} from '../../../../src/features/rate-limit/limiter/admission-log.js'

const RECORDS = 2 ** 17

function taken(log: AdmissionLog): number[][] {
  const { records, views } = log.waiting()
  const bytes = Buffer.concat(views)
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
  log.take(records)
  return Array.from({ length: records }, (_, i) => [...words.subarray(i * RECORD_WORDS, (i + 1) * RECORD_WORDS)])
}

t.test('records come out as they went in, over the end of the ring', async (t) => {
  const log = new AdmissionLog(AdmissionLog.memory(), true)
  for (let round = 0; round < 5; round += 1) {
    for (let i = 0; i < 50_000; i += 1) log.add(i, 2 ** 32 - 1 - i, 8_640, 2 ** 24 + (i - 0.5) / 256, 1 + (i % 7))
    const wrong = taken(log).filter(
      ([low, high, about, stamp], i) =>
        low !== i || high !== 2 ** 32 - 1 - i || about !== 8_640 * 2 ** COST_BITS + 1 + (i % 7) || stamp !== i
    )
    t.same(wrong, [], `round ${round}`)
  }
  log.add(1, 2, 6, 3, 4_294_967_295)
  log.add(1, 2, 6, 3, LARGE_COST)
  log.add(1, 2, 6, 3, LARGE_COST - 1)
  const [large, cost, least, itself, small] = taken(log)
  t.same(
    [large?.[2], cost?.[0]],
    [6 * 2 ** COST_BITS + LARGE_COST, 4_294_967_295],
    'a large cost stands behind its record'
  )
  t.same([least?.[2], itself?.[0]], [6 * 2 ** COST_BITS + LARGE_COST, LARGE_COST])
  t.equal(small?.[2], 6 * 2 ** COST_BITS + LARGE_COST - 1)
})

t.test('what has no room is counted and overwrites nothing', async (t) => {
  const log = new AdmissionLog(AdmissionLog.memory(), false)
  for (let i = 0; i < RECORDS + 10; i += 1) log.add(i, 0, 6, 0, 1)
  t.equal(log.fill, 1)
  t.equal(log.takeLost(), 10)
  t.equal(log.takeLost(), 0)
  const all = taken(log)
  t.same([all.length, all[0]?.[0], all.at(-1)?.[0]], [RECORDS, 0, RECORDS - 1])
  log.add(7, 0, 6, 0, 1)
  t.same(
    taken(log).map(([low]) => low),
    [7]
  )
})

t.test('a thread goes on in the log of one that has ended', async (t) => {
  const first = new AdmissionLog(AdmissionLog.memory(), true)
  first.add(1, 0, 6, 0, 1)
  const second = new AdmissionLog(first.buffer, true)
  second.add(2, 0, 6, 0, 1)
  t.same(
    taken(first).map(([low]) => low),
    [1, 2]
  )
})
