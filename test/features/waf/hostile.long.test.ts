import t from 'tap'
import { RulePattern } from '../../../src/features/waf/engine/patterns.js'
import { Transaction } from '../../../src/features/waf/engine/transaction.js'
import { readRuleFolder } from '../../../src/features/waf/folder.js'
import { readRuleSet } from '../../../src/features/waf/seclang/reader.js'
import { crsFolder } from './crs-suite.js'

const skip = crsFolder === undefined ? 'there is no folder of the Core Rule Set: set SLUICE_CRS' : false

/** Pieces that patterns repeat, in different orders. */
const PIECES = [
  'a',
  ' ',
  '\t \n',
  '<',
  '<a ',
  '/*',
  "'",
  '"\'',
  '\\',
  '%',
  '../',
  '(',
  '((',
  ';',
  'select ',
  "' or ",
  '$(',
  '{',
  '[',
  '=',
  '0',
  '\x00',
  '\xff',
  'aA1 ',
  '--',
  '&#'
]

/** Steps that a character may cost at most on average, with the states of the automaton that it leads to. */
const STEPS = 25_000

t.test('every pattern takes linear time on hostile values', { skip, timeout: 900_000 }, async (t) => {
  const { files } = await readRuleFolder(crsFolder as string)
  const patterns = new Set<string>()
  for (const item of readRuleSet(files).items) {
    if ('marker' in item) continue
    for (const { test } of [item, ...item.links]) if (test.operator?.name === 'rx') patterns.add(test.operator.argument)
  }
  t.ok(patterns.size > 200, `${patterns.size} patterns`)
  const worst = { perCharacter: 0, growth: 0, pattern: '' }
  for (const written of patterns) {
    const pattern = RulePattern.compile(written)
    if (typeof pattern === 'string') throw new Error(pattern)
    for (const piece of PIECES) {
      const cost = (length: number): number => {
        const transaction = new Transaction({ budget: 1e12 })
        pattern.test(piece.repeat(Math.ceil(length / piece.length)), transaction)
        return 1e12 - transaction.meter.budget
      }
      const [short, long] = [cost(1_024), cost(8_192)]
      const perCharacter = long / 8_192
      if (perCharacter > worst.perCharacter) Object.assign(worst, { perCharacter, pattern: written.slice(0, 80) })
      worst.growth = Math.max(worst.growth, long / Math.max(short, 8_192))
    }
  }
  t.comment(JSON.stringify(worst))
  t.ok(worst.perCharacter < STEPS, JSON.stringify(worst))
  t.ok(worst.growth < 24, 'eight times the length takes about eight times the steps')
})
