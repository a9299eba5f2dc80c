import t from 'tap'
import { costOf, FUNCTIONS, NAMES, READERS, SHAPES, shaped } from './hostile.js'

/** Bytes of a text: long enough that a square of it would be far above the limit. */
const LENGTH = 16_384
/** Milliseconds that are many times what a text of this length takes. */
const MOST = 60

t.test('hostile texts are read in little time, to bounded results', async (t) => {
  const wrong: string[] = []
  for (const [shape, parts] of Object.entries(SHAPES)) {
    const text = shaped(parts, LENGTH)
    for (const [name, run] of Object.entries(FUNCTIONS)) {
      if (costOf(run, text, 1) > MOST && costOf(run, text, 3) > MOST) wrong.push(`${name} of ${shape} is slow`)
    }
    for (const name of NAMES) {
      const length = String(FUNCTIONS[name]?.(text)).length
      if (length > text.length * 3 + 8) wrong.push(`${name} of ${shape}: ${length} bytes`)
    }
    for (const [name, read] of Object.entries(READERS)) {
      const { values } = read(text)
      const size = values.reduce((sum, value) => sum + value.name.length + value.value.length, 0)
      if (values.length > 10_000 || size > 1_048_576) wrong.push(`${name} of ${shape}: ${size} bytes`)
    }
  }
  t.same(wrong, [])
})
