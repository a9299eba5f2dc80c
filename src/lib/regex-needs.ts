import { appendTo } from './lists.js'
import { ALT, ALT_MATCH, isWord, MATCH, type RegexProgram, RUNE, RUNE_ANY_NOT_NL } from './regex-program.js'

/** Latin-1 characters as bits: one for each character. */
export const BIT_WORDS = 8

const LATIN1 = 256

type Tables = Pick<RegexProgram, 'ops' | 'outs' | 'args' | 'start' | 'classes' | 'latin1' | 'sets'>

/**
 * Returns sets of Latin-1 characters, each of eight words of bits, of which every match has one: a text without any of a set needs no
 * search. They are those that a path to the match, and one back from it, cannot avoid, and hold no letter, digit or underscore, which
 * nearly all texts have. Linear in the size of the program.
 */
export function findNeeds(program: Tables): Int32Array {
  const ends: number[] = []
  for (let pc = 0; pc < program.ops.length; pc++) if (program.ops[pc] === MATCH) ends.push(pc)
  const marks = markSets(program)
  const forward = frontier(program, marks, [program.start], (pc) => following(program, pc), new Set(ends))
  const before = predecessors(program)
  const backward = frontier(program, marks, ends, (pc) => before.get(pc) ?? [], new Set([program.start]))
  return Int32Array.from([...(forward ?? []), ...(backward ?? [])])
}

/** Bits of each set of characters; undefined for a set with a letter, a digit or an underscore. */
function markSets({ classes, latin1, sets }: Tables): readonly (Int32Array | undefined)[] {
  return Array.from({ length: sets.length / classes }, (_, set) => {
    const bits = new Int32Array(BIT_WORDS)
    for (let unit = 0; unit < LATIN1; unit++) {
      if (sets[set * classes + (latin1[unit] as number)] !== 1) continue
      if (isWord(unit)) return undefined
      setBit(bits, unit)
    }
    return bits
  })
}

/** Returns the characters of the first marked instructions on all paths; undefined if a path to the goal has none. */
function frontier(
  { ops, args }: Tables,
  marks: readonly (Int32Array | undefined)[],
  starts: readonly number[],
  next: (pc: number) => readonly number[],
  goal: ReadonlySet<number>
): Int32Array | undefined {
  const found = new Int32Array(BIT_WORDS)
  const seen = new Uint8Array(ops.length)
  const waiting = [...starts]
  for (let pc = waiting.pop(); pc !== undefined; pc = waiting.pop()) {
    if (seen[pc] === 1) continue
    seen[pc] = 1
    const op = ops[pc] as number
    const bits = op >= RUNE && op <= RUNE_ANY_NOT_NL ? marks[args[pc] as number] : undefined
    if (bits === undefined) {
      if (goal.has(pc)) return undefined
      waiting.push(...next(pc))
    } else for (let i = 0; i < BIT_WORDS; i++) found[i] = (found[i] as number) | (bits[i] as number)
  }
  return found
}

function following({ ops, outs, args }: Tables, pc: number): readonly number[] {
  const op = ops[pc] as number
  if (op === MATCH) return []
  return op === ALT || op === ALT_MATCH ? [outs[pc] as number, args[pc] as number] : [outs[pc] as number]
}

function predecessors(program: Tables): ReadonlyMap<number, readonly number[]> {
  const before = new Map<number, number[]>()
  for (let pc = 0; pc < program.ops.length; pc++) for (const next of following(program, pc)) appendTo(before, next, pc)
  return before
}

function setBit(bits: Int32Array, unit: number): void {
  bits[unit >> 5] = (bits[unit >> 5] as number) | (1 << (unit & 31))
}

/** Adds the characters of a Latin-1 text to bits. */
export function addCharacters(bits: Int32Array, text: string): void {
  for (let i = 0; i < text.length; i++) setBit(bits, text.charCodeAt(i) & 0xff)
}

/** Returns whether a text with these characters may match a pattern with these needs. */
export function meetsNeeds(bits: Int32Array, needs: Int32Array): boolean {
  for (let from = 0; from < needs.length; from += BIT_WORDS) {
    let common = 0
    for (let i = 0; i < BIT_WORDS; i++) common |= (bits[i] as number) & (needs[from + i] as number)
    if (common === 0) return false
  }
  return true
}
