import { Automaton, StateMemory } from '../../../lib/regex-automaton.js'
import { findGroups } from '../../../lib/regex-groups.js'
import { findNeeds, type Need } from '../../../lib/regex-needs.js'
import { BEGIN_TEXT, END_TEXT, type RegexProgram } from '../../../lib/regex-program.js'
import type { Transaction } from './transaction.js'
import { WorkExceeded } from './transformation-chains.js'

/**
 * Characters before and after the end of a match in which its groups are looked for first: finding them is much slower than a match. A
 * match that begins earlier is searched from the start of the value.
 */
const CAPTURE_WINDOW = 2_048
/** Maximum number of offsets of groups that rules can name: TX:0 to TX:9. */
const CAPTURE_SLOTS = 20
/** Maximum number of values of a pattern whose groups are kept, and of their characters. */
const MAX_KNOWN = { values: 32, characters: 64 }
/** Cells for the states of all patterns of a rule set: about 12 MB in each thread. */
const STATE_CELLS = 3_000_000

/** Memory of the states of a rule set's patterns, in one thread. */
export function patternMemory(): StateMemory {
  return new StateMemory(STATE_CELLS)
}

/** A pattern of a rule for one value, and for all values joined by line breaks. */
export class RulePattern {
  readonly #program: RegexProgram
  readonly #single: Automaton
  readonly #joined: Automaton | undefined
  /** Groups of matches in short values, which repeat from request to request: names of fields and types of content. */
  readonly #known = new Map<string, readonly string[]>()

  /** `written`: the pattern as text. */
  constructor(written: string, program: RegexProgram, memory: StateMemory) {
    this.#program = program
    this.#single = new Automaton(program, { memory })
    // `\A` and `\z` hold at the ends of one value only, which the joined text does not have.
    if (/\\[AzZ]/.test(written)) return
    const hasEnds = (program.conditions & (BEGIN_TEXT | END_TEXT)) !== 0
    this.#joined = hasEnds ? new Automaton(program, { multiline: true, memory }) : this.#single
  }

  /** Returns texts that every match contains. */
  findNeeds(): readonly Need[] {
    return findNeeds(this.#program)
  }

  /** Returns whether joined values can be tested. */
  get joins(): boolean {
    return this.#joined !== undefined
  }

  /** Returns false if no value of the joined text matches; true if one may. Throws `WorkExceeded`. */
  mayMatch(joined: string, transaction: Transaction): boolean {
    return this.#joined === undefined || this.#end(this.#joined, joined, transaction) >= 0
  }

  /** Returns whether a value matches. Throws `WorkExceeded`. */
  test(text: string, transaction: Transaction): boolean {
    return this.#end(this.#single, text, transaction) >= 0
  }

  /** Like `test`, and keeps the match and its groups. Throws `WorkExceeded`. */
  capture(text: string, transaction: Transaction): boolean {
    const end = this.#end(this.#single, text, transaction)
    if (end < 0) return false
    const known = this.#known.get(text)
    if (known !== undefined) {
      transaction.capture(known)
      return true
    }
    const near = Math.max(0, end - CAPTURE_WINDOW)
    let groups = this.#groups(text, near, end, transaction)
    if (groups.length === 0 && near > 0) groups = this.#groups(text, 0, end, transaction)
    if (text.length <= MAX_KNOWN.characters) {
      if (this.#known.size >= MAX_KNOWN.values) this.#known.clear()
      this.#known.set(text, groups)
    }
    transaction.capture(groups)
    return true
  }

  /** Returns the groups of the first match after `from`, which ends near `end`. */
  #groups(text: string, from: number, end: number, { meter }: Transaction): readonly string[] {
    const range = { from, to: Math.min(text.length, end + CAPTURE_WINDOW) }
    const offsets = findGroups(this.#program, text, range, { slots: CAPTURE_SLOTS, meter })
    if (offsets === undefined) throw new WorkExceeded()
    const groups: string[] = []
    for (let i = 0; i < offsets.length; i += 2) groups.push(text.slice(offsets[i], offsets[i + 1]))
    return groups
  }

  #end(automaton: Automaton, text: string, transaction: Transaction): number {
    transaction.spend(text.length + 1)
    const { literal } = this.#program
    if (literal !== '') {
      const at = text.indexOf(literal)
      return at < 0 ? -1 : at + literal.length
    }
    const end = automaton.end(text, transaction.meter)
    if (end === undefined) throw new WorkExceeded()
    return end
  }
}
