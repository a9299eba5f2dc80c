import t from 'tap'
import { RuleTables } from '../../../src/features/waf/engine/tables.js'
import { readRuleFolder } from '../../../src/features/waf/folder.js'
import { readRuleSet } from '../../../src/features/waf/seclang/reader.js'
import { crsFolder } from './crs-suite.js'
import { HOSTILE_TEXTS, MAX_STEPS, measurePattern } from './hostile-patterns.js'

const skip = crsFolder === undefined ? 'there is no folder of the Core Rule Set: set SLUICE_CRS' : false

/** CPU time that a pattern may take for a text (ms). */
const MAX_TIME = 5

t.test('every pattern takes 5 ms at most for a hostile text of 4 KB', { skip, timeout: 900_000 }, async (t) => {
  const { files } = await readRuleFolder(crsFolder as string)
  const patterns = new Map<string, number>()
  for (const item of readRuleSet(files).items) {
    if ('marker' in item) continue
    for (const { test } of [item, ...item.links])
      if (test.operator?.name === 'rx') patterns.set(test.operator.argument, item.id)
  }
  t.ok(patterns.size > 200, `${patterns.size} patterns`)
  const over: string[] = []
  let most = 0
  for (const [written, id] of patterns) {
    const pattern = new RuleTables().pattern(written)
    if (typeof pattern === 'string') throw new Error(pattern)
    for (const text of HOSTILE_TEXTS) {
      const { steps, time } = measurePattern(pattern, text)
      most = Math.max(most, steps)
      if (steps > MAX_STEPS || time > MAX_TIME)
        over.push(`${id} on ${JSON.stringify(text.slice(0, 20))}: ${steps} steps, ${time} ms`)
    }
  }
  t.comment(`at most ${most} steps`)
  t.same(over, [])
  t.ok(most > 4_096, 'every character costs something')
})
