import type { RulePattern } from '../../../src/features/waf/engine/patterns.js'
import { Transaction } from '../../../src/features/waf/engine/transaction.js'

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

/** Length of a hostile text (bytes). */
const LENGTH = 4_096

/**
 * Steps that a pattern may take for a hostile text. The dearest steps make new states: on a machine with ten times the load that it can
 * carry they took 4 to 8 ns, so that these are 5 ms at most.
 */
export const MAX_STEPS = 625_000

/** Maximum number of runs of which the shortest counts. */
const RUNS = 20
/** Time that no repeated run has to improve (ms). */
const SHORT = 5

/** Returns the pieces in an order without a period, so that the automaton meets as many states as it can. */
function mixed(pieces: readonly string[], length: number): string {
  let text = ''
  for (let state = 1; text.length < length; state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff)
    text += pieces[(state >> 8) % pieces.length]
  return text.slice(0, length)
}

/** Texts that repeat each of the pieces, and three that mix them. */
export const HOSTILE_TEXTS: readonly string[] = [
  mixed(PIECES, LENGTH),
  mixed(PIECES.slice(0, 8), LENGTH),
  mixed(PIECES.slice(8), LENGTH),
  ...PIECES.map((piece) => piece.repeat(LENGTH / piece.length))
]

/**
 * Searches a text and finds the groups of a match. Returns the steps of the first run, which makes the states of the pattern, and the CPU
 * time of the shortest run in milliseconds: others of the machine can only prolong a run.
 */
export function measurePattern(pattern: RulePattern, text: string): { readonly steps: number; readonly time: number } {
  let steps = 0
  let time = Number.POSITIVE_INFINITY
  for (let i = 0; i < RUNS && time > SHORT; i++) {
    const transaction = new Transaction({ budget: Number.MAX_SAFE_INTEGER })
    const before = process.cpuUsage()
    pattern.capture(text, transaction)
    const { user, system } = process.cpuUsage(before)
    time = Math.min(time, (user + system) / 1_000)
    if (i === 0) steps = Number.MAX_SAFE_INTEGER - transaction.meter.budget
  }
  return { steps, time }
}
