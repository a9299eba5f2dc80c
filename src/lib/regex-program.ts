/** An instruction of a compiled program of the package, reduced to the members used here. */
interface Instruction {
  readonly op: number
  readonly out: number
  readonly arg: number
  readonly runes: ArrayLike<number>
  matchRune(rune: number): boolean
}

/** Compiled pattern of the package, with its property names. */
export interface CompiledProgram {
  readonly prog: { readonly inst: readonly Instruction[]; readonly start: number; readonly numCap: number }
  /** First characters of the ranges whose characters no instruction distinguishes; the first range begins at 0. */
  readonly dfa: { readonly classBounds: Int32Array }
  readonly prefixComplete: boolean
  readonly prefix: string | null
}

/** A pattern as tables: plain data, which threads can share. Characters that no instruction distinguishes have one class. */
export interface RegexProgram {
  readonly ops: Uint8Array
  readonly outs: Uint16Array
  /** Second branch of `ALT`, conditions of `EMPTY_WIDTH`, slot of `CAPTURE`, or number of the set of characters. */
  readonly args: Uint16Array
  readonly start: number
  /** Number of slots of captures: two for each group. */
  readonly slots: number
  /** Conditions of all instructions together. */
  readonly conditions: number
  readonly classes: number
  /** Class of each Latin-1 character. */
  readonly latin1: Uint16Array
  /** First character of each range after the first, and the class of each range. */
  readonly bounds: Int32Array
  readonly rangeClasses: Uint16Array
  /** 1 at `set * classes + class` if the set of characters has those of the class. */
  readonly sets: Uint8Array
  /** Text of a purely literal pattern; '' for others. */
  readonly literal: string
}

/** Opcodes of the instructions, as in the Go package that RE2JS follows. */
export const ALT = 1
export const ALT_MATCH = 2
export const CAPTURE = 3
export const EMPTY_WIDTH = 4
export const MATCH = 6
export const NOP = 7
export const RUNE = 8
export const RUNE_ANY_NOT_NL = 11

/** Condition of `EMPTY_WIDTH` at the start of a line. */
export const BEGIN_LINE = 1
/** Condition of `EMPTY_WIDTH` at the end of a line. */
export const END_LINE = 2
/** Condition of `EMPTY_WIDTH` at the start of the text. */
export const BEGIN_TEXT = 4
/** Condition of `EMPTY_WIDTH` at the end of the text. */
export const END_TEXT = 8
/** Condition of `EMPTY_WIDTH` at the edge of a word. */
export const BOUNDARY = 16
export const NO_BOUNDARY = 32

/** Contexts before a position: at the start of the text, after a line break, after a word character, after another character. */
export const AT_BEGIN = 0
export const AFTER_NEWLINE = 1
export const AFTER_WORD = 2
export const AFTER_OTHER = 3

export const NEWLINE = 10
/** Takes the place of a character at the end of the text. */
export const END = -1

const LATIN1 = 256

/** Converts a compiled pattern to tables. Throws `RangeError` for a program of more than 65,535 instructions. */
export function toProgram({ prog, dfa, prefixComplete, prefix }: CompiledProgram): RegexProgram {
  const { inst: instructions } = prog
  if (instructions.length > 0xffff) throw new RangeError('the pattern has too many instructions')
  const conditions = instructions.reduce((all, { op, arg }) => (op === EMPTY_WIDTH ? all | arg : all), 0)
  const sets = new Map<string | number, number>()
  const examples: Instruction[] = []
  const args = Uint16Array.from(instructions, (one) => {
    const { op, arg, runes } = one
    if (op < RUNE || op > RUNE_ANY_NOT_NL) return arg
    // Most sets are one letter.
    const key = runes.length === 1 ? arg * RUNES + (runes[0] as number) : `${arg} ${Array.prototype.join.call(runes)}`
    const known = sets.get(key)
    if (known !== undefined) return known
    sets.set(key, examples.length)
    return examples.push(one) - 1
  })
  // The package has no range for line breaks where only ends of the text are distinguished.
  const bounds = Int32Array.from(new Set([...dfa.classBounds, NEWLINE, NEWLINE + 1])).sort()
  const { classes, rangeClasses, columns } = mergeRanges([0, ...bounds], examples, conditions)
  return {
    ops: Uint8Array.from(instructions, ({ op }) => op),
    outs: Uint16Array.from(instructions, ({ out }) => out),
    args,
    start: prog.start,
    slots: prog.numCap,
    conditions,
    classes,
    latin1: Uint16Array.from({ length: LATIN1 }, (_, rune) => rangeClasses[findRange(bounds, rune)] as number),
    bounds,
    rangeClasses,
    sets: Uint8Array.from({ length: examples.length * classes }, (_, i) => {
      return columns[i % classes]?.charCodeAt(Math.floor(i / classes)) === ONE ? 1 : 0
    }),
    literal: prefixComplete && prefix !== null ? prefix : ''
  }
}

const ONE = 0x31
/** Number of characters. */
const RUNES = 0x11_0000

/** Gives ranges that no set and no condition distinguishes one class. A column has a digit for each set. */
function mergeRanges(firsts: readonly number[], sets: readonly Instruction[], conditions: number) {
  const numbers = new Map<string, number>()
  const rangeClasses = Uint16Array.from(firsts, (rune) => {
    let column = ''
    for (const set of sets) column += set.matchRune(rune) ? '1' : '0'
    if ((conditions & ~(BOUNDARY | NO_BOUNDARY)) !== 0 && rune === NEWLINE) column += 'n'
    if ((conditions & (BOUNDARY | NO_BOUNDARY)) !== 0 && isWord(rune)) column += 'w'
    let number = numbers.get(column)
    if (number === undefined) {
      number = numbers.size
      numbers.set(column, number)
    }
    return number
  })
  return { classes: numbers.size, rangeClasses, columns: [...numbers.keys()] }
}

function findRange(bounds: Int32Array, rune: number): number {
  let low = 0
  let high = bounds.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((bounds[middle] as number) <= rune) low = middle + 1
    else high = middle
  }
  return low
}

/** Returns the class of a character. */
export function classOf({ latin1, bounds, rangeClasses }: RegexProgram, rune: number): number {
  return (rune < LATIN1 ? latin1[rune] : rangeClasses[findRange(bounds, rune)]) as number
}

/** Returns the conditions that are true between a context and the next character. */
export function conditionsAt(before: number, rune: number): number {
  let holding = before === AT_BEGIN ? BEGIN_TEXT | BEGIN_LINE : before === AFTER_NEWLINE ? BEGIN_LINE : 0
  if (rune === END) holding |= END_TEXT | END_LINE
  else if (rune === NEWLINE) holding |= END_LINE
  return holding | (isWord(rune) === (before === AFTER_WORD) ? NO_BOUNDARY : BOUNDARY)
}

/** Returns whether `\b` counts a character to words. */
export function isWord(rune: number): boolean {
  return (
    (rune >= 0x30 && rune <= 0x39) || (rune >= 0x41 && rune <= 0x5a) || rune === 0x5f || (rune >= 0x61 && rune <= 0x7a)
  )
}
