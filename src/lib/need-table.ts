import type { Need } from './regex-needs.js'

const BYTES = 256
/** Maximum number of states. Needs that do not fit count as found in every text. */
const MAX_STATES = 0xffff
/** Bits of a word of marks: small integers. */
const WORD_BITS = 30
/** Ends a list of marks. */
const LAST = -1
/** State before a text. */
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
  const trie = new NeedTrie(Math.min(MAX_STATES, 1 + needs.reduce((sum, need) => sum + totalLength(need), 0)))
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

/** Trie of texts with the numbers of the needs that end at each state. The children of a state are a list, linked by `sibling`. */
class NeedTrie {
  readonly #child: Uint16Array
  readonly #sibling: Uint16Array
  readonly #byte: Uint8Array
  readonly #numbers: (number[] | undefined)[] = []
  readonly #classes = new Uint8Array(BYTES)
  #states = 1
  #width = 1

  /** `size`: maximum number of states. */
  constructor(size: number) {
    this.#child = new Uint16Array(size)
    this.#sibling = new Uint16Array(size)
    this.#byte = new Uint8Array(size)
  }

  /** Adds the texts of a need; false if they do not fit. */
  add(need: Need, number: number): boolean {
    if (this.#states + totalLength(need) > this.#child.length) return false
    for (const text of need) {
      let state = ROOT
      for (let i = 0; i < text.length; i++) state = this.#childOf(state, text.charCodeAt(i))
      const numbers = this.#numbers[state]
      if (numbers === undefined) this.#numbers[state] = [number]
      else if (numbers.at(-1) !== number) numbers.push(number)
    }
    return true
  }

  #childOf(state: number, byte: number): number {
    let child = this.#child[state] as number
    while (child !== ROOT && this.#byte[child] !== byte) child = this.#sibling[child] as number
    if (child !== ROOT) return child
    if (this.#classes[byte] === 0) this.#classes[byte] = this.#width++
    child = this.#states++
    this.#byte[child] = byte
    this.#sibling[child] = this.#child[state] as number
    this.#child[state] = child
    return child
  }

  build(): Omit<NeedTable, 'blank'> {
    const width = this.#width
    const { order, next, found } = this.#link()
    // States that end a text come last.
    const places = new Uint16Array(order.length)
    let firstEnd = 0
    for (const state of order) if (found[state] === undefined) places[state] = firstEnd++
    let ending = firstEnd
    for (const state of order) if (found[state] !== undefined) places[state] = ending++
    const placed = new Uint16Array(next.length)
    for (const state of order) {
      const [from, to] = [state * width, (places[state] as number) * width]
      for (let i = 0; i < width; i++) placed[to + i] = places[next[from + i] as number] as number
    }
    const classes = this.#classes.slice()
    for (let byte = 0x41; byte <= 0x5a; byte++) classes[byte] = classes[byte + 0x20] as number
    return { classes, width, next: placed, firstEnd, ...listMarks(order, found, places, firstEnd) }
  }

  /** Returns the states by their distance from the root, their transitions, and the needs that are found at each. */
  #link() {
    const width = this.#width
    const order = new Uint16Array(this.#states)
    const failures = new Uint16Array(this.#states)
    const next = new Uint16Array(this.#states * width)
    const found: (readonly number[] | undefined)[] = []
    let length = 1
    for (let at = 0; at < order.length; at++) {
      const state = order[at] as number
      const failure = (failures[state] as number) * width
      // The transitions of a failure link are known before.
      if (state !== ROOT) next.copyWithin(state * width, failure, failure + width)
      found[state] = merged(this.#numbers[state], found[failures[state] as number])
      for (let child = this.#child[state] as number; child !== ROOT; child = this.#sibling[child] as number) {
        order[length++] = child
        const entry = state * width + (this.#classes[this.#byte[child] as number] as number)
        failures[child] = next[entry] as number
        next[entry] = child
      }
    }
    return { order, next, found }
  }
}

function merged(own: readonly number[] | undefined, inherited: readonly number[] | undefined) {
  if (own === undefined || inherited === undefined) return own ?? inherited
  return [...new Set([...own, ...inherited])]
}

function totalLength(need: Need): number {
  return need.reduce((sum, text) => sum + text.length, 0)
}

/** Returns the lists of marks of the states that end a text. Equal lists exist once. */
function listMarks(
  order: Uint16Array,
  found: readonly (readonly number[] | undefined)[],
  places: Uint16Array,
  firstEnd: number
): Pick<NeedTable, 'ends' | 'lists'> {
  const ends = new Int32Array(order.length - firstEnd)
  const lists: number[] = []
  const known = new Map<readonly number[], number>()
  for (const state of order) {
    const numbers = found[state]
    if (numbers === undefined) continue
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
