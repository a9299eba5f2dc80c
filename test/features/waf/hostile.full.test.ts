import t from 'tap'
import { costOf, FUNCTIONS, SHAPES, shaped } from './hostile.js'

/** Milliseconds below which the collector of garbage decides about a cost. */
const NOISE = 25
/** Bytes of a long text. */
const LONG = 65_536
/** Milliseconds that twice the length may take at most. */
const MOST = 150

t.test('the time for hostile texts grows with their length', async (t) => {
  const slow: string[] = []
  for (const [name, run] of Object.entries(FUNCTIONS)) {
    for (const [shape, parts] of Object.entries(SHAPES)) {
      run(shaped(parts, 4_096))
      if (costOf(run, shaped(parts, LONG * 2), 1) <= NOISE) continue
      const long = costOf(run, shaped(parts, LONG * 2), 5)
      const half = costOf(run, shaped(parts, LONG), 5)
      if (long > NOISE && (long > 3 * half || long > MOST)) slow.push(`${name} of ${shape}: ${half} ms and ${long} ms`)
    }
  }
  t.same(slow, [])
})
