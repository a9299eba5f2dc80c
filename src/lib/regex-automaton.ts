/** Remaining step budget; negative if exceeded. */
export interface Meter {
  budget: number
}

/** An instruction of a compiled program, reduced to the members used here. */
interface Instruction {
  readonly op: number
  readonly out: number
  readonly arg: number
  matchRune(rune: number): boolean
}

/** Characters that no instruction distinguishes share a class. */
interface Classes {
  readonly numClasses: number
  readonly latin1Class: Int32Array
  runeClass(rune: number): number
}

/** Compiled pattern of the package, with its property names. */
export interface CompiledProgram {
  readonly prog: { readonly inst: readonly Instruction[]; readonly start: number }
  readonly dfa: Classes
}

interface Program {
  readonly instructions: readonly Instruction[]
  /** Members of the instructions in parallel arrays. */
  readonly ops: Int32Array
  readonly outs: Int32Array
  readonly args: Int32Array
  readonly start: number
  readonly classes: Classes
}

/** Opcodes of the instructions, as in the Go package that RE2JS follows. */
const ALT = 1
const ALT_MATCH = 2
const CAPTURE = 3
const EMPTY_WIDTH = 4
const MATCH = 6
const NOP = 7
const RUNE = 8
const RUNE_ANY_NOT_NL = 11

/** Conditions of `EMPTY_WIDTH`. */
const BEGIN_LINE = 1
const END_LINE = 2
const BEGIN_TEXT = 4
const END_TEXT = 8
const BOUNDARY = 16
const NO_BOUNDARY = 32

/** Context at the start of the text. */
const AT_BEGIN = 0
/** Context after a line break. */
const AFTER_NEWLINE = 1
/** Context after a word character. */
const AFTER_WORD = 2
/** Context after another character. */
const AFTER_OTHER = 3

const NEWLINE = 10
const END = -1

/** Maximum number of cells for all states of an automaton; beyond this the cache is cleared. */
const MAX_CELLS = 20_000

/** A set of program positions of a search, with the context before them. */
class Place {
  readonly pcs: Int32Array
  readonly before: number
  /** Indexed by the class of the next character; the last entry is for the end of the text. */
  readonly next: (Place | undefined)[]

  constructor(pcs: Int32Array, before: number, classes: number) {
    this.pcs = pcs
    this.before = before
    this.next = new Array<Place | undefined>(classes + 1).fill(undefined)
  }
}

const NOWHERE = new Int32Array(0)
const FOUND = new Place(NOWHERE, AFTER_OTHER, 0)
const NOT_FOUND = new Place(NOWHERE, AFTER_OTHER, 0)
/** Steps per state, which takes some 100 ns, besides its instructions. */
const PLACE_COST = 16
/** Steps per visited instruction. */
const INSTRUCTION_COST = 3

/**
 * Tests whether a pattern matches anywhere in a text, by a lazily built deterministic automaton (Russ Cox, "Regular Expression Matching in
 * the Wild"). A known transition costs one table lookup; building one charges a step per visited instruction, so that a program of
 * thousands of instructions is paid for.
 */
export class Automaton {
  readonly #program: Program
  readonly #usesLines: boolean
  readonly #usesWords: boolean
  /** Search in which an instruction was last visited, and in which a character reached it. */
  readonly #seen: Uint32Array
  readonly #reached: Uint32Array
  /** Instructions to visit, and those that a character leads to. */
  readonly #stack: Int32Array
  readonly #after: Int32Array
  #search = 0
  /** States by hash. */
  #places = new Map<number, Place[]>()
  #cells = 0
  #first: Place

  constructor({ prog, dfa }: CompiledProgram) {
    const instructions = prog.inst
    this.#program = {
      instructions,
      ops: Int32Array.from(instructions, ({ op }) => op),
      outs: Int32Array.from(instructions, ({ out }) => out),
      args: Int32Array.from(instructions, ({ arg }) => arg),
      start: prog.start,
      classes: dfa
    }
    const conditions = instructions.reduce((all, { op, arg }) => (op === EMPTY_WIDTH ? all | arg : all), 0)
    this.#usesLines = (conditions & (BEGIN_LINE | END_LINE)) !== 0
    this.#usesWords = (conditions & (BOUNDARY | NO_BOUNDARY)) !== 0
    this.#seen = new Uint32Array(instructions.length)
    this.#reached = new Uint32Array(instructions.length)
    this.#stack = new Int32Array(3 * instructions.length + 2)
    this.#after = new Int32Array(instructions.length)
    this.#first = this.#newFirst()
  }

  /** Returns undefined if the meter is exhausted before the result is known. */
  test(text: string, meter: Meter): boolean | undefined {
    const end = this.end(text, meter)
    return end === undefined ? undefined : end >= 0
  }

  /** Returns the first offset at which a match is known to have ended, -1 without a match, and undefined if the meter is exhausted first. */
  end(text: string, meter: Meter): number | undefined {
    const { classes } = this.#program
    const { latin1Class, numClasses } = classes
    const { length } = text
    let place = this.#first
    for (let i = 0; i < length; i++) {
      let rune = text.charCodeAt(i)
      let kind: number
      if (rune < 256) kind = latin1Class[rune] as number
      else {
        if (rune >= 0xd800 && rune <= 0xdbff) {
          rune = text.codePointAt(i) as number
          if (rune > 0xffff) i++
        }
        kind = classes.runeClass(rune)
      }
      let next = place.next[kind]
      if (next === undefined) {
        next = this.#step(place, rune, meter)
        if (meter.budget < 0) return undefined
        place.next[kind] = next
      }
      if (next === FOUND) return i
      if (next === NOT_FOUND) return -1
      place = next
    }
    const last = place.next[numClasses] ?? this.#step(place, END, meter)
    if (meter.budget < 0) return undefined
    place.next[numClasses] = last
    return last === FOUND ? length : -1
  }

  /**
   * Returns whether some text of these characters matches both patterns; undefined if the meter is exhausted first. Searches the pairs of
   * their states, each character by the classes of both.
   */
  sharesText(other: Automaton, characters: Iterable<number>, meter: Meter): boolean | undefined {
    const kinds = new Map<string, readonly [rune: number, mine: number, others: number]>()
    for (const rune of characters) {
      const mine = this.#program.classes.runeClass(rune)
      const others = other.#program.classes.runeClass(rune)
      // Conditions of a program also distinguish line breaks and word characters.
      kinds.set(`${mine} ${others} ${rune === NEWLINE} ${isWord(rune)}`, [rune, mine, others])
    }
    const seen = new Map<Place, Set<Place>>()
    const waiting: (readonly [Place, Place])[] = [[this.#first, other.#first]]
    for (let pair = waiting.pop(); pair !== undefined; pair = waiting.pop()) {
      const [one, another] = pair
      const known = seen.get(one) ?? new Set<Place>()
      if (known.has(another)) continue
      seen.set(one, known.add(another))
      if (this.#following(one, END, this.#program.classes.numClasses, meter) === FOUND) {
        if (other.#following(another, END, other.#program.classes.numClasses, meter) === FOUND) return true
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
  #following(place: Place, rune: number, kind: number, meter: Meter): Place {
    if (place === FOUND || place === NOT_FOUND) return place
    meter.budget--
    const next = place.next[kind] ?? this.#step(place, rune, meter)
    place.next[kind] = next
    return next
  }

  /** Returns the state after `rune`, or `FOUND` if the pattern has matched before it. */
  #step({ pcs, before }: Place, rune: number, meter: Meter): Place {
    const { instructions, ops, outs, args, start } = this.#program
    const holding = conditionsAt(before, rune)
    const seen = this.#seen
    const reached = this.#reached
    const stack = this.#stack
    const after = this.#after
    const search = this.#nextSearch()
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
        if ((arg & ~holding) === 0) stack[waiting++] = out
      } else if (op === MATCH) found = true
      else if (
        op >= RUNE &&
        op <= RUNE_ANY_NOT_NL &&
        rune !== END &&
        (instructions[pc] as Instruction).matchRune(rune)
      ) {
        if (reached[out] !== search) after[count++] = out
        reached[out] = search
      }
    }
    meter.budget -= PLACE_COST + INSTRUCTION_COST * (steps + count)
    if (found) return FOUND
    if (rune === END || (count === 0 && this.#beginsOnly())) return NOT_FOUND
    return this.#place(after.slice(0, count).sort(), this.#context(rune))
  }

  /** Returns a search number that no instruction is marked with. */
  #nextSearch(): number {
    if (this.#search === 0xffff_ffff) {
      this.#seen.fill(0)
      this.#reached.fill(0)
      this.#search = 0
    }
    return ++this.#search
  }

  /** Returns whether the pattern can match at the start of the text only. */
  #beginsOnly(): boolean {
    const { instructions, start } = this.#program
    let pc = start
    for (let i = 0; i < instructions.length; i++) {
      const { op, out, arg } = instructions[pc] as Instruction
      if (op === EMPTY_WIDTH && (arg & BEGIN_TEXT) !== 0) return true
      if (op !== CAPTURE && op !== NOP) return false
      pc = out
    }
    return false
  }

  /** Returns the context for the positions after a character. */
  #context(rune: number): number {
    if (this.#usesLines && rune === NEWLINE) return AFTER_NEWLINE
    return this.#usesWords && isWord(rune) ? AFTER_WORD : AFTER_OTHER
  }

  #place(pcs: Int32Array, before: number): Place {
    const hash = hashOf(pcs, before)
    const alike = this.#places.get(hash)
    const known = alike?.find((one) => one.before === before && isSame(one.pcs, pcs))
    if (known !== undefined) return known
    const { numClasses } = this.#program.classes
    const place = new Place(pcs, before, numClasses)
    this.#cells += pcs.length + numClasses + 16
    if (this.#cells > MAX_CELLS) {
      this.#places = new Map()
      this.#cells = 0
      this.#first = this.#newFirst()
    }
    if (alike === undefined || this.#cells === 0) this.#places.set(hash, [place])
    else alike.push(place)
    return place
  }

  #newFirst(): Place {
    return new Place(NOWHERE, AT_BEGIN, this.#program.classes.numClasses)
  }
}

/** FNV-1a hash over integers. */
function hashOf(pcs: Int32Array, before: number): number {
  let hash = before ^ -2_128_831_035
  for (let i = 0; i < pcs.length; i++) hash = Math.imul(hash ^ (pcs[i] as number), 16_777_619)
  return hash
}

function isSame(a: Int32Array, b: Int32Array): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}

/** Returns the conditions that are true between the context and `rune`. */
function conditionsAt(before: number, rune: number): number {
  let holding = before === AT_BEGIN ? BEGIN_TEXT | BEGIN_LINE : before === AFTER_NEWLINE ? BEGIN_LINE : 0
  if (rune === END) holding |= END_TEXT | END_LINE
  else if (rune === NEWLINE) holding |= END_LINE
  return holding | (isWord(rune) === (before === AFTER_WORD) ? NO_BOUNDARY : BOUNDARY)
}

function isWord(rune: number): boolean {
  return (
    (rune >= 0x30 && rune <= 0x39) || (rune >= 0x41 && rune <= 0x5a) || rune === 0x5f || (rune >= 0x61 && rune <= 0x7a)
  )
}
