import { appendTo } from './lists.js'
import { ALT, ALT_MATCH, isWord, MATCH, type RegexProgram, RUNE, RUNE_ANY_NOT_NL } from './regex-program.js'

const LATIN1 = 256
/** Maximum number of texts of a need that begin at one instruction. */
const MAX_TEXTS = 48
/** Chance below which a text is rare enough. */
const RARE = 3e-7
/** Maximum length of a text. */
const MAX_LENGTH = 5
/** Maximum number of characters of a set that texts are written out for. */
const MAX_SET = 16
/** Maximum number of instructions of a pattern whose texts are looked at. */
const MAX_LOOKED = 100
/** Chances of a need at a character of a harmless request, in the order in which needs are looked for. */
const CHANCES = [2e-5, 5e-4, 0.025]
/** Chance from which a pattern gets a second need. */
const COMMON = 1e-3

type Tables = Pick<RegexProgram, 'ops' | 'outs' | 'args' | 'start' | 'classes' | 'latin1' | 'sets'>

/** Texts in lower case of which every match of a pattern contains one. */
export type Need = readonly string[]

/** Characters besides letters and digits that most requests have. */
const FREQUENT = ' -./,=:'
/** Characters that many requests have. */
const OCCASIONAL = '_;+&()?%*"\n'

/** Estimated chance of each character in a harmless request. */
const CHANCE = Float64Array.from({ length: LATIN1 }, (_, code) => {
  const character = String.fromCharCode(code)
  if (OCCASIONAL.includes(character)) return 0.005
  if (isWord(code)) return 0.05
  return FREQUENT.includes(character) ? 0.03 : 0.0008
})

interface Found {
  readonly need: Need
  /** Estimated chance that one of the texts begins at a character. */
  readonly chance: number
}

/** A text that begins at an instruction, and the instruction after it. */
interface Begun {
  readonly text: string
  readonly pc: number
  readonly chance: number
}

/**
 * Returns needs of a pattern for Latin-1 texts: every match contains, without case, a text of each need. They are texts that a path to the
 * match, or one back from it, cannot avoid. Empty if most texts have what a match has.
 */
export function findNeeds(program: Tables): readonly Need[] {
  const search = new NeedSearch(program)
  const first = search.forward()
  if (first !== undefined && first.chance <= (CHANCES[0] as number)) return [first.need]
  const last = search.backward()
  const found = [first, last].filter((one) => one !== undefined).sort((a, b) => a.chance - b.chance)
  return (found[0]?.chance ?? 1) < COMMON ? found.slice(0, 1).map(({ need }) => need) : found.map(({ need }) => need)
}

/** Returns the part of at most `length` characters of a text in lower case that is the rarest in harmless requests. */
export function rarestPart(lower: string, length: number): string {
  let best = lower.slice(0, length)
  let least = chanceOf(best)
  for (let from = 1; from + length <= lower.length; from++) {
    const part = lower.slice(from, from + length)
    const chance = chanceOf(part)
    if (chance < least) [best, least] = [part, chance]
  }
  return best
}

function chanceOf(text: string): number {
  let chance = 1
  for (let i = 0; i < text.length; i++) chance *= CHANCE[text.charCodeAt(i) & 0xff] as number
  return chance
}

class NeedSearch {
  readonly #program: Tables
  readonly #ends: number[] = []
  readonly #sets: readonly (readonly number[] | undefined)[]
  readonly #known = new Map<number, Found | undefined>()
  readonly #afters = new Map<number, readonly number[] | undefined>()

  constructor(program: Tables) {
    this.#program = program
    for (let pc = 0; pc < program.ops.length; pc++) if (program.ops[pc] === MATCH) this.#ends.push(pc)
    this.#sets = listSets(program)
  }

  forward(): Found | undefined {
    return this.#find([this.#program.start], (pc) => following(this.#program, pc), new Set(this.#ends))
  }

  backward(): Found | undefined {
    const before = predecessors(this.#program)
    return this.#find(this.#ends, (pc) => before.get(pc) ?? [], new Set([this.#program.start]))
  }

  #find(
    starts: readonly number[],
    next: (pc: number) => readonly number[],
    goal: ReadonlySet<number>
  ): Found | undefined {
    for (const chance of CHANCES) {
      const found = this.#frontier(starts, next, goal, chance)
      if (found !== undefined) return found
    }
    return undefined
  }

  /** Returns the texts at the first instructions on all paths where texts are rarer than `chance`; undefined if a path to the goal has none. */
  #frontier(
    starts: readonly number[],
    next: (pc: number) => readonly number[],
    goal: ReadonlySet<number>,
    chance: number
  ): Found | undefined {
    const found = new Set<string>()
    let sum = 0
    const seen = new Set<number>()
    const waiting = [...starts]
    for (let pc = waiting.pop(); pc !== undefined; pc = waiting.pop()) {
      if (seen.has(pc)) continue
      seen.add(pc)
      const at = this.#textsAt(pc)
      if (at !== undefined && at.chance <= chance) {
        for (const text of at.need) found.add(text)
        sum += at.chance
      } else if (goal.has(pc) || seen.size > MAX_LOOKED) return undefined
      else waiting.push(...next(pc))
    }
    return { need: withoutLonger(found), chance: sum }
  }

  /** Returns texts of which each match begins with one from this instruction on; undefined if a match may begin with any text. */
  #textsAt(pc: number): Found | undefined {
    if (this.#known.has(pc)) return this.#known.get(pc)
    const texts = this.#write(pc)
    this.#known.set(pc, texts)
    return texts
  }

  #write(from: number): Found | undefined {
    let begun: readonly Begun[] = [{ text: '', pc: from, chance: 1 }]
    const texts = new Map<string, number>()
    let size = 1
    for (let length = 0; length < MAX_LENGTH && begun.length > 0; length++) {
      const longer: Begun[] = []
      for (const one of begun) {
        const after = one.chance < RARE ? undefined : this.#after(one.pc)
        if (after === undefined || size + after.length / 2 > MAX_TEXTS) {
          if (length === 0) return undefined
          texts.set(one.text, one.chance)
          continue
        }
        size += after.length / 2 - 1
        for (let i = 0; i < after.length; i += 2) {
          const code = after[i] as number
          const chance = one.chance * (CHANCE[code] as number)
          longer.push({ text: one.text + String.fromCharCode(code), pc: after[i + 1] as number, chance })
        }
      }
      begun = longer
    }
    for (const { text, chance } of begun) texts.set(text, chance)
    let chance = 0
    for (const one of texts.values()) chance += one
    return { need: [...texts.keys()], chance }
  }

  /** Returns the next characters from an instruction with the instructions after them; undefined if they are too many or a match may end. */
  #after(pc: number): readonly number[] | undefined {
    if (this.#afters.has(pc)) return this.#afters.get(pc)
    const after = this.#listAfter(pc)
    this.#afters.set(pc, after)
    return after
  }

  #listAfter(from: number): readonly number[] | undefined {
    const { ops, outs, args } = this.#program
    const after: number[] = []
    const seen: number[] = []
    const waiting = [from]
    for (let pc = waiting.pop(); pc !== undefined; pc = waiting.pop()) {
      if (seen.includes(pc)) continue
      seen.push(pc)
      const op = ops[pc] as number
      if (op === MATCH) return undefined
      if (op >= RUNE && op <= RUNE_ANY_NOT_NL) {
        const set = this.#sets[args[pc] as number]
        if (set === undefined || after.length + 2 * set.length > 2 * MAX_TEXTS) return undefined
        for (const code of set) after.push(code, outs[pc] as number)
      } else waiting.push(...following(this.#program, pc))
    }
    return after
  }
}

/** Leaves out texts that contain others of the need. */
function withoutLonger(texts: ReadonlySet<string>): Need {
  return [...texts].filter((text) => {
    for (let from = 0; from < text.length; from++)
      for (let to = from + 1; to <= text.length; to++)
        if (to - from < text.length && texts.has(text.slice(from, to))) return false
    return true
  })
}

/** Returns the characters of each set in lower case; undefined for a set of many. */
function listSets({ classes, latin1, sets }: Tables): readonly (readonly number[] | undefined)[] {
  return Array.from({ length: sets.length / classes }, (_, set) => {
    const codes: number[] = []
    for (let code = 0; code < LATIN1; code++) {
      if (sets[set * classes + (latin1[code] as number)] !== 1) continue
      const lower = code >= 0x41 && code <= 0x5a ? code + 0x20 : code
      if (codes.includes(lower)) continue
      if (codes.length === MAX_SET) return undefined
      codes.push(lower)
    }
    return codes
  })
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
