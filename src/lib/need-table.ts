import type { Need } from './regex-needs.js'

const BYTES = 256
/** Maximum number of states. Needs that do not fit count as found in every text. */
const MAX_STATES = 0xffff
/** Bits of a word of marks: small integers. */
const WORD_BITS = 30
/** Ends a list of marks. */
const LAST = -1
const ROOT = 0

/**
 * A search for the texts of many needs in one pass (Aho and Corasick 1975), as plain data that threads can share. It compares ASCII letters
 * without case.
 */
export interface NeedTable {
  /** Class of each byte; bytes of no text have class 0. */
  readonly classes: Uint8Array
  readonly width: number
  /** Next state at `state * width + class`. */
  readonly next: Uint16Array
  /** States from this one on end a text. */
  readonly firstEnd: number
  /** Begin of the list in `lists` by the number of the state after `firstEnd`. */
  readonly ends: Int32Array
  /** Pairs of a word and bits of it, up to `LAST`. */
  readonly lists: Int32Array
  /** Marks of a text in which nothing is found: those of needs that the table does not hold. */
  readonly blank: Int32Array
}

/** Needs that texts meet, as bits in words. */
export type NeedMarks = number[]

/** Place of a need in marks. */
export interface NeedPlace {
  readonly word: number
  readonly bit: number
}

/** Returns the place of the need of this number. */
export function placeOf(number: number): NeedPlace {
  return { word: Math.floor(number / WORD_BITS), bit: 1 << (number % WORD_BITS) }
}

/** Builds the table of needs in the order of their numbers. Texts are Latin-1 and in lower case. */
export function buildNeedTable(needs: readonly Need[]): NeedTable {
  const blank = new Int32Array(Math.ceil(needs.length / WORD_BITS))
  const trie = new NeedTrie()
  for (const [number, need] of needs.entries()) {
    if (trie.add(need, number)) continue
    const { word, bit } = placeOf(number)
    blank[word] = (blank[word] as number) | bit
  }
  return { ...trie.build(), blank }
}

/** Adds the needs that a Latin-1 text meets to `marks`. */
export function markNeeds({ classes, width, next, firstEnd, ends, lists }: NeedTable, text: string, marks: NeedMarks) {
  let state = ROOT
  let last = ROOT
  for (let i = 0; i < text.length; i++) {
    state = next[state * width + (classes[text.charCodeAt(i) & 0xff] as number)] as number
    if (state < firstEnd || state === last) continue
    last = state
    for (let at = ends[state - firstEnd] as number; lists[at] !== LAST; at += 2) {
      const word = lists[at] as number
      marks[word] = (marks[word] as number) | (lists[at + 1] as number)
    }
  }
}

/** Trie of texts with the numbers of the needs that end at each state. */
class NeedTrie {
  /** Child by state and byte. */
  readonly #children: Map<number, number>[] = [new Map()]
  readonly #numbers: number[][] = [[]]
  readonly #classes = new Uint8Array(BYTES)
  #width = 1

  /** Adds the texts of a need; false if they do not fit. */
  add(need: Need, number: number): boolean {
    const size = need.reduce((sum, text) => sum + text.length, 0)
    if (this.#children.length + size > MAX_STATES) return false
    for (const text of need) {
      let state = ROOT
      for (let i = 0; i < text.length; i++) state = this.#child(state, text.charCodeAt(i))
      const numbers = this.#numbers[state] as number[]
      if (numbers.at(-1) !== number) numbers.push(number)
    }
    return true
  }

  #child(state: number, byte: number): number {
    const children = this.#children[state] as Map<number, number>
    const known = children.get(byte)
    if (known !== undefined) return known
    if (this.#classes[byte] === 0) this.#classes[byte] = this.#width++
    const child = this.#children.push(new Map()) - 1
    this.#numbers.push([])
    children.set(byte, child)
    return child
  }

  build(): Omit<NeedTable, 'blank'> {
    const { order, failures } = this.#breadthFirst()
    const found = this.#foundAt(order, failures)
    // States that end a text come last.
    const places = new Uint16Array(order.length)
    const firstEnd = order.length - order.filter((state) => (found[state] as readonly number[]).length > 0).length
    let plain = 0
    let ending = firstEnd
    for (const state of order) places[state] = (found[state] as readonly number[]).length > 0 ? ending++ : plain++
    const next = this.#transitions(order, failures, places)
    const classes = this.#classes.slice()
    for (let byte = 0x41; byte <= 0x5a; byte++) classes[byte] = classes[byte + 0x20] as number
    return { classes, width: this.#width, next, firstEnd, ...listMarks(order, found, places, firstEnd) }
  }

  /** Returns the states by their distance from the root, and the failure link of each. */
  #breadthFirst(): { readonly order: Int32Array; readonly failures: Int32Array } {
    const count = this.#children.length
    const order = new Int32Array(count)
    const failures = new Int32Array(count)
    let length = 1
    for (let at = 0; at < length; at++) {
      const state = order[at] as number
      for (const [byte, child] of this.#children[state] as Map<number, number>) {
        order[length++] = child
        if (state === ROOT) continue
        let from = failures[state] as number
        while (from !== ROOT && !(this.#children[from] as Map<number, number>).has(byte))
          from = failures[from] as number
        failures[child] = (this.#children[from] as Map<number, number>).get(byte) ?? ROOT
      }
    }
    return { order, failures }
  }

  /** Returns the numbers of the needs that are found at each state: its own, and those of the states after its failure links. */
  #foundAt(order: Int32Array, failures: Int32Array): readonly (readonly number[])[] {
    const found: (readonly number[])[] = [[]]
    for (const state of order) {
      if (state === ROOT) continue
      const own = this.#numbers[state] as number[]
      const inherited = found[failures[state] as number] as readonly number[]
      found[state] = own.length === 0 ? inherited : inherited.length === 0 ? own : [...new Set([...own, ...inherited])]
    }
    return found
  }

  #transitions(order: Int32Array, failures: Int32Array, places: Uint16Array): Uint16Array {
    const width = this.#width
    const next = new Uint16Array(order.length * width)
    for (const state of order) {
      const from = (places[state] as number) * width
      if (state !== ROOT) {
        const failure = (places[failures[state] as number] as number) * width
        next.copyWithin(from, failure, failure + width)
      }
      for (const [byte, child] of this.#children[state] as Map<number, number>)
        next[from + (this.#classes[byte] as number)] = places[child] as number
    }
    return next
  }
}

/** Returns the lists of marks of the states that end a text. Equal lists exist once. */
function listMarks(
  order: Int32Array,
  found: readonly (readonly number[])[],
  places: Uint16Array,
  firstEnd: number
): Pick<NeedTable, 'ends' | 'lists'> {
  const ends = new Int32Array(order.length - firstEnd)
  const lists: number[] = []
  const known = new Map<readonly number[], number>()
  for (const state of order) {
    const numbers = found[state] as readonly number[]
    if (numbers.length === 0) continue
    let begin = known.get(numbers)
    if (begin === undefined) {
      begin = lists.length
      known.set(numbers, begin)
      const words = new Map<number, number>()
      for (const number of numbers) {
        const { word, bit } = placeOf(number)
        words.set(word, (words.get(word) ?? 0) | bit)
      }
      for (const [word, bits] of words) lists.push(word, bits)
      lists.push(LAST)
    }
    ends[(places[state] as number) - firstEnd] = begin
  }
  return { ends, lists: Int32Array.from(lists) }
}
