import t from 'tap'
import { RuleTables } from '../../../src/features/waf/engine/tables.js'
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

/** Length of a hostile value. */
const LENGTH = 8_192
/** Steps that a request with a body of this length may take (`WORK` of the feature). */
const BUDGET = 30_000_000 + 1_500 * LENGTH

/** Returns the pieces in an order without a period, so that the automaton meets as many states as it can. */
function mixed(pieces: readonly string[], length: number): string {
  let text = ''
  for (let state = 1; text.length < length; state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff)
    text += pieces[(state >> 8) % pieces.length]
  return text.slice(0, length)
}

t.test('no pattern takes more work than a request may, on hostile values', { skip, timeout: 900_000 }, async (t) => {
  const { files } = await readRuleFolder(crsFolder as string)
  const patterns = new Set<string>()
  for (const item of readRuleSet(files).items) {
    if ('marker' in item) continue
    for (const { test } of [item, ...item.links]) if (test.operator?.name === 'rx') patterns.add(test.operator.argument)
  }
  t.ok(patterns.size > 200, `${patterns.size} patterns`)
  const shapes = [
    mixed(PIECES, LENGTH),
    mixed(PIECES.slice(0, 8), LENGTH),
    mixed(PIECES.slice(8), LENGTH),
    ...PIECES.map((piece) => piece.repeat(LENGTH / piece.length))
  ]
  let most = 0
  for (const written of patterns) {
    const pattern = new RuleTables().pattern(written)
    if (typeof pattern === 'string') throw new Error(pattern)
    for (const shape of shapes) {
      const transaction = new Transaction({ budget: Number.MAX_SAFE_INTEGER })
      pattern.capture(shape, transaction)
      const cost = Number.MAX_SAFE_INTEGER - transaction.meter.budget
      most = Math.max(most, cost)
      if (cost > BUDGET) t.fail(`${cost} steps for ${written.slice(0, 80)} on ${JSON.stringify(shape.slice(0, 40))}`)
    }
  }
  t.comment(`at most ${most} steps`)
  t.ok(most > LENGTH, 'every character costs something')
})
