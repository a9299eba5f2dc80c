import { HEADER } from './layout.js'
import { type Memory, SIZE_CLASS } from './memory.js'

/**
 * Head of a bucket's state, 16 bytes:
 *
 * word 0: kind (4 bits), code of the window (14), ring: first stamp (6) and number of stamps (7)
 *
 * word 1: upper 20 bits of the hash's high half, lower 12 of its low half: reference back to the slot
 *
 * word 2–3: time of the last admission, 64-bit floating point milliseconds
 *
 * Kinds 0 to 5 are rings of 2, 4, … 64 stamps; then 16-bit counters, 32-bit counters, counters in blocks.
 */
export const HEAD_WORDS = 4

export const LAST_RING = 5
export const NARROW = 6
export const WIDE = 7
export const BLOCKS = 8
export const KINDS = 9

/** Maximum number of live admissions for which a bucket is exact. */
export const RING_LIMIT = 64

const SIZE_CLASS_OF_KIND = [0, 1, 2, 3, 4, SIZE_CLASS.full, SIZE_CLASS.full, SIZE_CLASS.wide, SIZE_CLASS.full] as const

export function kindOf(words: Uint32Array, state: number): number {
  return words[state]! & 15
}

/** Returns the code of the window of `state`. */
export function windowOf(words: Uint32Array, state: number): number {
  return (words[state]! >>> 4) & 0x3fff
}

/** Returns the exact time of the last admission in milliseconds. */
export function lastOf(memory: Memory, state: number): number {
  return memory.doubles[(state >>> 1) + 1]!
}

export function setLast(memory: Memory, state: number, time: number): void {
  memory.doubles[(state >>> 1) + 1] = time
}

/** Receives admissions at `stamp` (whole milliseconds). */
export interface Sink {
  add(stamp: number, count: number): void
}

/** Releases the memory of `state` as part of a step; its blocks, if any, belong to the caller. */
export function freeState(memory: Memory, state: number): void {
  const kind = HEADER.kinds + kindOf(memory.words, state)
  memory.journal.set(kind, memory.words[kind]! - 1)
  memory.release(state)
}

/**
 * Returns a state of `kind` without admissions, its body not cleared; 0 without memory. Starts a step in which the caller assigns the state
 * to a slot or to `building`.
 */
export function newState(memory: Memory, kind: number, code: number, backReference: number): number {
  const { words, journal } = memory
  const state = memory.allocate(SIZE_CLASS_OF_KIND[kind]!)
  if (state === 0) return 0
  journal.set(state, kind | (code << 4))
  journal.set(state + 1, backReference)
  setLast(memory, state, 0)
  journal.set(HEADER.kinds + kind, words[HEADER.kinds + kind]! + 1)
  return state
}
