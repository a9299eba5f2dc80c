import type { Meter } from './regex-automaton.js'
import {
  AFTER_NEWLINE,
  AFTER_OTHER,
  AFTER_WORD,
  ALT,
  ALT_MATCH,
  AT_BEGIN,
  CAPTURE,
  classOf,
  conditionsAt,
  EMPTY_WIDTH,
  END,
  isWord,
  MATCH,
  NEWLINE,
  NOP,
  type RegexProgram,
  RUNE,
  RUNE_ANY_NOT_NL
} from './regex-program.js'

/** Part of a text in which a match is searched. The characters around it count for conditions such as `\b`. */
export interface TextRange {
  readonly from: number
  readonly to: number
}

/** Instructions that wait for the next character, by priority, with the captures of each. */
class Threads {
  readonly pcs: Int32Array
  /** Index in `pcs` by instruction; valid if the entry there is the instruction. */
  readonly #index: Int32Array
  readonly captures: Int32Array
  readonly #slots: number
  length = 0

  constructor(instructions: number, slots: number) {
    this.pcs = new Int32Array(instructions)
    this.#index = new Int32Array(instructions)
    this.captures = new Int32Array(instructions * slots)
    this.#slots = slots
  }

  has(pc: number): boolean {
    const at = this.#index[pc] as number
    return at < this.length && this.pcs[at] === pc
  }

  /** Adds an instruction. */
  add(pc: number): number {
    const at = this.length++
    this.pcs[at] = pc
    this.#index[pc] = at
    return at
  }

  /** Returns the captures of an entry. */
  of(at: number): Int32Array {
    return this.captures.subarray(at * this.#slots, (at + 1) * this.#slots)
  }
}

/** Steps per visited instruction. */
const INSTRUCTION_COST = 4
/** On the stack instead of an instruction: restores a slot. */
const RESTORE = -1

/**
 * Finds the first match in a range, as a backtracking search would (Pike's machine, Russ Cox, "Regular Expression Matching: the Virtual
 * Machine Approach"), in time linear in the length of the range. Returns offsets of start and end of each group by turns, -1 for an unused
 * group; an empty list without a match, and undefined if the meter is exhausted first. `slots`: maximum number of offsets.
 */
export function findGroups(
  program: RegexProgram,
  text: string,
  { from, to }: TextRange,
  { slots, meter }: { readonly slots: number; readonly meter: Meter }
): readonly number[] | undefined {
  return new Search(program, text, Math.min(slots, program.slots)).run(from, to, meter)
}

class Search {
  readonly #program: RegexProgram
  readonly #text: string
  readonly #slots: number
  #current: Threads
  #next: Threads
  /** Captures of the followed path. */
  readonly #path: Int32Array
  readonly #stack: number[] = []
  #match: readonly number[] | undefined
  #steps = 0

  constructor(program: RegexProgram, text: string, slots: number) {
    this.#program = program
    this.#text = text
    this.#slots = slots
    this.#current = new Threads(program.ops.length, slots)
    this.#next = new Threads(program.ops.length, slots)
    this.#path = new Int32Array(slots)
  }

  run(from: number, to: number, meter: Meter): readonly number[] | undefined {
    const program = this.#program
    for (let at = from; ; ) {
      const rune = this.#runeAt(at)
      const holding = conditionsAt(this.#contextAt(at), rune)
      if (this.#match === undefined) {
        this.#path.fill(-1)
        this.#path[0] = at
        this.#follow(program.start, at, holding)
      }
      const current = this.#current
      if (current.length === 0 && this.#match !== undefined) break
      const kind = at >= to || rune === END ? -1 : classOf(program, rune)
      const after = at + (rune > 0xffff ? 2 : 1)
      this.#advance(kind, at, after)
      meter.budget -= INSTRUCTION_COST * this.#steps
      this.#steps = 0
      if (meter.budget < 0) return undefined
      if (kind < 0) break
      at = after
    }
    return this.#match ?? []
  }

  /** Moves all threads over a character of this class, up to the first that has matched; -1 for the end of the range. */
  #advance(kind: number, at: number, after: number): void {
    const { ops, outs, args, sets, classes } = this.#program
    const current = this.#current
    this.#current = this.#next
    this.#next = current
    const holding = kind < 0 ? 0 : conditionsAt(this.#contextAt(after), this.#runeAt(after))
    for (let i = 0; i < current.length; i++) {
      const pc = current.pcs[i] as number
      if (ops[pc] === MATCH) {
        this.#match = Array.from(current.of(i), (offset, slot) => (slot === 1 ? at : offset))
        break
      }
      this.#steps++
      const op = ops[pc] as number
      if (kind < 0 || op < RUNE || op > RUNE_ANY_NOT_NL || sets[(args[pc] as number) * classes + kind] !== 1) continue
      this.#path.set(current.of(i))
      this.#follow(outs[pc] as number, after, holding)
    }
    current.length = 0
  }

  /** Adds the instructions that follow without a character, by priority. */
  #follow(start: number, at: number, holding: number): void {
    const { ops, outs, args } = this.#program
    const threads = this.#current
    const stack = this.#stack
    const path = this.#path
    stack.push(start)
    while (stack.length > 0) {
      const pc = stack.pop() as number
      if (pc === RESTORE) {
        path[stack.pop() as number] = stack.pop() as number
        continue
      }
      if (threads.has(pc)) continue
      this.#steps++
      const entry = threads.add(pc)
      const op = ops[pc] as number
      const out = outs[pc] as number
      const arg = args[pc] as number
      if (op === ALT || op === ALT_MATCH) stack.push(arg, out)
      else if (op === NOP) stack.push(out)
      else if (op === EMPTY_WIDTH) {
        if ((arg & ~holding) === 0) stack.push(out)
      } else if (op === CAPTURE) {
        if (arg < this.#slots) {
          stack.push(path[arg] as number, arg, RESTORE)
          path[arg] = at
        }
        stack.push(out)
      } else threads.of(entry).set(path)
    }
  }

  #runeAt(at: number): number {
    return at >= this.#text.length ? END : (this.#text.codePointAt(at) as number)
  }

  #contextAt(at: number): number {
    if (at === 0) return AT_BEGIN
    const before = this.#text.charCodeAt(at - 1)
    if (before === NEWLINE) return AFTER_NEWLINE
    return isWord(before) ? AFTER_WORD : AFTER_OTHER
  }
}
