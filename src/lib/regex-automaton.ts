import {
  AFTER_NEWLINE,
  AFTER_OTHER,
  AFTER_WORD,
  ALT,
  ALT_MATCH,
  AT_BEGIN,
  BEGIN_LINE,
  BEGIN_TEXT,
  BOUNDARY,
  CAPTURE,
  classOf,
  conditionsAt,
  EMPTY_WIDTH,
  END,
  END_LINE,
  END_TEXT,
  isWord,
  MATCH,
  NEWLINE,
  NO_BOUNDARY,
  NOP,
  type RegexProgram,
  RUNE,
  RUNE_ANY_NOT_NL
} from './regex-program.js'

/** Remaining step budget; negative if exceeded. */
export interface Meter {
  budget: number
}

/** Memory of the states of automata. Automata that share one forget their states together when it is full. */
export class StateMemory {
  readonly #maxCells: number
  #cells = 0
  /** Grows when all states are forgotten. */
  generation = 0

  /** `maxCells`: maximum number of cells, of about four bytes each. */
  constructor(maxCells: number) {
    this.#maxCells = maxCells
  }

  /** Returns whether there is room for more cells; if not, all states are forgotten. */
  take(cells: number): boolean {
    this.#cells += cells
    if (this.#cells <= this.#maxCells) return true
    this.#cells = cells
    this.generation++
    return false
  }
}

/** Variants of an automaton. */
export interface AutomatonOptions {
  /** `^` and `$` also match at line breaks. */
  readonly multiline?: boolean
  /** @default memory of its own */
  readonly memory?: StateMemory
}

/** Maximum number of cells of an automaton with memory of its own. */
const OWN_CELLS = 20_000

/** Entries of the table of transitions that are no offset of a state. */
const UNKNOWN = 0
const FOUND = 1
const NOT_FOUND = 2
/** Offset of the first state. */
const BASE = 3

/** Cells of a state besides its transitions. */
const STATE_CELLS = 16
/** Steps per state, which takes some 100 ns, besides its instructions. */
const STATE_COST = 16
/** Steps per visited instruction. */
const INSTRUCTION_COST = 3

/** Memory for building one state, which all automata of a thread use by turns. */
class Scratch {
  /** Search in which an instruction was last visited, and in which a character reached it. */
  seen = new Uint32Array(0)
  reached = new Uint32Array(0)
  /** Instructions to visit, and those that a character leads to. */
  stack = new Uint16Array(0)
  after = new Uint16Array(0)
  #search = 0

  /** Returns a search number that no instruction is marked with. */
  next(instructions: number): number {
    if (this.seen.length < instructions) {
      this.seen = new Uint32Array(instructions)
      this.reached = new Uint32Array(instructions)
      this.stack = new Uint16Array(3 * instructions + 2)
      this.after = new Uint16Array(instructions)
      this.#search = 0
    } else if (this.#search === 0xffff_ffff) {
      this.seen.fill(0)
      this.reached.fill(0)
      this.#search = 0
    }
    return ++this.#search
  }
}

const scratch = new Scratch()

/** A set of program positions of a search, with the context before them. */
interface State {
  readonly pcs: Uint16Array
  readonly before: number
  /** Number of the next state with the same hash; -1 after the last. */
  readonly alike: number
}

const NOWHERE = new Uint16Array(0)
const FIRST: State = { pcs: NOWHERE, before: AT_BEGIN, alike: -1 }

/**
 * Tests whether a pattern matches anywhere in a text, by a lazily built deterministic automaton (Russ Cox, "Regular Expression Matching in
 * the Wild"). A known transition costs one table lookup; building one charges a step per visited instruction, so that a program of
 * thousands of instructions is paid for.
 */
export class Automaton {
  readonly #program: RegexProgram
  readonly #memory: StateMemory
  readonly #multiline: boolean
  readonly #usesLines: boolean
  readonly #usesWords: boolean
  readonly #beginsOnly: boolean
  /** Entries of a state: one for each class, and one for the end of the text. */
  readonly #stride: number
  /** Transitions: offset of the next state by offset of a state plus class of the next character. Empty before the first search. */
  #table = new Int32Array(0)
  #states: State[] = []
  /** Numbers of states by hash. */
  #numbers = new Map<number, number>()
  #generation = -1
  /** States are kept although the memory is full. */
  #keeps = false

  constructor(
    program: RegexProgram,
    { multiline = false, memory = new StateMemory(OWN_CELLS) }: AutomatonOptions = {}
  ) {
    this.#program = program
    this.#memory = memory
    this.#multiline = multiline
    const conditions = this.#conditionsOf(program.conditions)
    this.#usesLines = (conditions & (BEGIN_LINE | END_LINE)) !== 0
    this.#usesWords = (conditions & (BOUNDARY | NO_BOUNDARY)) !== 0
    this.#beginsOnly = this.#findBegin()
    this.#stride = program.classes + 1
  }

  /** Returns undefined if the meter is exhausted before the result is known. */
  test(text: string, meter: Meter): boolean | undefined {
    const end = this.end(text, meter)
    return end === undefined ? undefined : end >= 0
  }

  /** Returns the first offset at which a match is known to have ended, -1 without a match, and undefined if the meter is exhausted first. */
  end(text: string, meter: Meter): number | undefined {
    if (this.#generation !== this.#memory.generation) this.#forget()
    const program = this.#program
    const { latin1 } = program
    const { length } = text
    let table = this.#table
    let state = BASE
    for (let i = 0; i < length; i++) {
      let rune = text.charCodeAt(i)
      let kind: number
      if (rune < 256) kind = latin1[rune] as number
      else {
        if (rune >= 0xd800 && rune <= 0xdbff) {
          rune = text.codePointAt(i) as number
          if (rune > 0xffff) i++
        }
        kind = classOf(program, rune)
      }
      let next = table[state + kind] as number
      if (next < BASE) {
        if (next === UNKNOWN) {
          next = this.#step(state, rune, kind, meter)
          if (meter.budget < 0) return undefined
          table = this.#table
        }
        if (next === FOUND) return i
        if (next === NOT_FOUND) return -1
      }
      state = next
    }
    let last = table[state + program.classes] as number
    if (last === UNKNOWN) {
      last = this.#step(state, END, program.classes, meter)
      if (meter.budget < 0) return undefined
    }
    return last === FOUND ? length : -1
  }

  /**
   * Returns whether some text of these characters matches both patterns; undefined if the meter is exhausted first. Searches the pairs of
   * their states, each character by the classes of both.
   */
  sharesText(other: Automaton, characters: Iterable<number>, meter: Meter): boolean | undefined {
    for (const one of [this, other]) {
      one.#forget()
      one.#keeps = true
    }
    try {
      return this.#findPair(other, characters, meter)
    } finally {
      for (const one of [this, other]) {
        one.#keeps = false
        one.#forget()
      }
    }
  }

  #findPair(other: Automaton, characters: Iterable<number>, meter: Meter): boolean | undefined {
    const kinds = new Map<string, readonly [rune: number, mine: number, others: number]>()
    for (const rune of characters) {
      const mine = classOf(this.#program, rune)
      const others = classOf(other.#program, rune)
      // Conditions of a program also distinguish line breaks and word characters.
      kinds.set(`${mine} ${others} ${rune === NEWLINE} ${isWord(rune)}`, [rune, mine, others])
    }
    const seen = new Map<number, Set<number>>()
    const waiting: (readonly [number, number])[] = [[BASE, BASE]]
    for (let pair = waiting.pop(); pair !== undefined; pair = waiting.pop()) {
      const [one, another] = pair
      const known = seen.get(one) ?? new Set<number>()
      if (known.has(another)) continue
      seen.set(one, known.add(another))
      if (this.#following(one, END, this.#program.classes, meter) === FOUND) {
        if (other.#following(another, END, other.#program.classes, meter) === FOUND) return true
      }
      for (const [rune, mine, others] of kinds.values()) {
        const next = this.#following(one, rune, mine, meter)
        if (next === NOT_FOUND) continue
        const beside = other.#following(another, rune, others, meter)
        if (beside !== NOT_FOUND) waiting.push([next, beside])
      }
      if (meter.budget < 0) return undefined
    }
    return false
  }

  /** Returns the state after `rune` of this class; a matched pattern stays matched. */
  #following(state: number, rune: number, kind: number, meter: Meter): number {
    if (state === FOUND || state === NOT_FOUND) return state
    meter.budget--
    const known = this.#table[state + kind] as number
    return known === UNKNOWN ? this.#step(state, rune, kind, meter) : known
  }

  /** Returns the state after `rune`, or `FOUND` if the pattern has matched before it, and keeps the transition. */
  #step(state: number, rune: number, kind: number, meter: Meter): number {
    const { generation } = this.#memory
    const next = this.#build(this.#states[(state - BASE) / this.#stride] as State, rune, kind, meter)
    if (meter.budget >= 0 && generation === this.#memory.generation) this.#table[state + kind] = next
    return next
  }

  #build({ pcs, before }: State, rune: number, kind: number, meter: Meter): number {
    const { ops, outs, args, sets, classes, start } = this.#program
    const holding = conditionsAt(before, rune)
    const search = scratch.next(ops.length)
    const { seen, reached, stack, after } = scratch
    stack.set(pcs)
    stack[pcs.length] = start
    let waiting = pcs.length + 1
    let count = 0
    let steps = 0
    let found = false
    while (waiting > 0 && !found) {
      const pc = stack[--waiting] as number
      if (seen[pc] === search) continue
      seen[pc] = search
      steps++
      const op = ops[pc] as number
      const out = outs[pc] as number
      const arg = args[pc] as number
      if (op === ALT || op === ALT_MATCH) {
        stack[waiting++] = arg
        stack[waiting++] = out
      } else if (op === CAPTURE || op === NOP) stack[waiting++] = out
      else if (op === EMPTY_WIDTH) {
        if ((this.#conditionsOf(arg) & ~holding) === 0) stack[waiting++] = out
      } else if (op === MATCH) found = true
      else if (op >= RUNE && op <= RUNE_ANY_NOT_NL && rune !== END && sets[arg * classes + kind] === 1) {
        if (reached[out] !== search) after[count++] = out
        reached[out] = search
      }
    }
    meter.budget -= STATE_COST + INSTRUCTION_COST * (steps + count)
    if (found) return FOUND
    if (rune === END || (count === 0 && this.#beginsOnly)) return NOT_FOUND
    return this.#state(after.slice(0, count).sort(), this.#context(rune))
  }

  /** Returns the conditions of an instruction in this variant. */
  #conditionsOf(conditions: number): number {
    if (!this.#multiline) return conditions
    const ends = conditions & (BEGIN_TEXT | END_TEXT)
    // The conditions of lines are a quarter of those of the text.
    return (conditions & ~ends) | (ends >> 2)
  }

  /** Returns whether the pattern can match at the start of the text only. */
  #findBegin(): boolean {
    const { ops, outs, args, start } = this.#program
    let pc = start
    for (let i = 0; i < ops.length; i++) {
      if (ops[pc] === EMPTY_WIDTH && (this.#conditionsOf(args[pc] as number) & BEGIN_TEXT) !== 0) return true
      if (ops[pc] !== CAPTURE && ops[pc] !== NOP) return false
      pc = outs[pc] as number
    }
    return false
  }

  /** Returns the context for the positions after a character. */
  #context(rune: number): number {
    if (this.#usesLines && rune === NEWLINE) return AFTER_NEWLINE
    return this.#usesWords && isWord(rune) ? AFTER_WORD : AFTER_OTHER
  }

  /** Returns the offset of a state, which is new if there is none for these positions. */
  #state(pcs: Uint16Array, before: number): number {
    const hash = hashOf(pcs, before)
    for (let number = this.#numbers.get(hash) ?? -1; number >= 0; ) {
      const known = this.#states[number] as State
      if (known.before === before && isSame(known.pcs, pcs)) return BASE + number * this.#stride
      number = known.alike
    }
    if (!this.#memory.take(this.#stride + STATE_CELLS + (pcs.length >> 1)) && !this.#keeps) this.#forget()
    return this.#add({ pcs, before, alike: this.#numbers.get(hash) ?? -1 }, hash)
  }

  #add(state: State, hash: number): number {
    const number = this.#states.push(state) - 1
    this.#numbers.set(hash, number)
    const offset = BASE + number * this.#stride
    if (offset + this.#stride > this.#table.length) {
      const larger = new Int32Array(BASE + 2 * (number + 1) * this.#stride)
      larger.set(this.#table)
      this.#table = larger
    }
    return offset
  }

  /** Leaves only the state at the start of a text. */
  #forget(): void {
    this.#generation = this.#memory.generation
    this.#states = []
    this.#numbers = new Map()
    this.#table = new Int32Array(0)
    this.#add(FIRST, hashOf(NOWHERE, AT_BEGIN))
  }
}

/** FNV-1a hash over integers. */
function hashOf(pcs: Uint16Array, before: number): number {
  let hash = before ^ -2_128_831_035
  for (let i = 0; i < pcs.length; i++) hash = Math.imul(hash ^ (pcs[i] as number), 16_777_619)
  return hash
}

function isSame(a: Uint16Array, b: Uint16Array): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
