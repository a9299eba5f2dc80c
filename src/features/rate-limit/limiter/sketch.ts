import { DAY_CODE, GENERATIONS, HEADER, ROWS, SKETCHES, windowSeconds } from './layout.js'
import type { Memory } from './memory.js'
import type { Sink } from './state.js'

const TWO32 = 2 ** 32
const MAX_COUNT = TWO32 - 1
/** Words of a sketch's record: the code of its window, then the number + 1 of each generation. */
const RECORD_WORDS = 16
/** Value of an unused generation. */
const UNUSED = 0
/** Value of a generation whose counters must be cleared before use. */
const DIRTY = TWO32 - 1
/** Sketch for every window length without its own; its window is the longest possible. */
const REST = SKETCHES - 1

const LOW_FACTORS = [0x9e3779b1, 0x85ebca6b, 0xc2b2ae35, 0x27d4eb2f] as const
const HIGH_FACTORS = [0x165667b1, 0xd3a2646d, 0xfd7046c5, 0xb55a4f09] as const

/** Generation of a sketch. */
export interface Generation {
  /** Number of the sketch, and the code of its window. */
  readonly sketch: number
  readonly code: number
  /** Number of the generation: the quarter of a window. */
  readonly generation: number
  /** Counters in a row. */
  readonly width: number
  readonly rows: readonly Uint32Array[]
}

/**
 * Admissions of buckets that had to be removed: count-min sketches with conservative update (Estan, Varghese 2002; Cormode, Muthukrishnan
 * 2005). Four rows of 32-bit counters, in five generations of a quarter window each; a generation is dropped when its end is a whole window
 * ago. Three window lengths have their own sketch while needed, all others share one with a window of a day.
 *
 * An estimate is never below the true number: each row counts at least what was added for a key, in the generation of its time or a later
 * one.
 */
export class Sketch implements Sink {
  private readonly words: Uint32Array
  private readonly width: number
  private readonly columns = [0, 0, 0, 0]
  private current = 0
  private generation = 0
  private pending = 0
  private until = 0

  constructor(private readonly memory: Memory) {
    this.words = memory.words
    this.width = memory.layout.sketchWidth
  }

  /** Starts adding for one key; `moment`: the clock rounded down, in milliseconds. */
  begin(low: number, high: number, code: number, moment: number): void {
    this.locate(low, high)
    this.current = this.assign(code, moment)
    this.pending = 0
    this.until = 0
  }

  add(stamp: number, count: number): void {
    const generation = Math.floor(stamp / this.quarter(this.current))
    if (generation !== this.generation) this.flush()
    this.generation = generation
    this.pending += count
  }

  /** Finishes adding; returns the time in milliseconds when all of it has expired. */
  end(): number {
    this.flush()
    return this.until
  }

  /** Returns at least the key's admissions in the trailing window that are not in a bucket. */
  estimate(low: number, high: number, code: number, moment: number): number {
    this.locate(low, high)
    const own = this.find(code)
    const rest = this.sum(REST, moment)
    return own === REST ? rest : rest + this.sum(own, moment)
  }

  /** Returns the milliseconds from `moment` until `need` of the key's estimate has expired; Infinity if unknown. */
  wait(low: number, high: number, code: number, moment: number, need: number): number {
    this.locate(low, high)
    const sketch = this.find(code)
    let left = need
    let after = moment
    for (;;) {
      const slot = this.oldest(sketch, after)
      if (slot < 0) return Number.POSITIVE_INFINITY
      left -= this.least(sketch, slot)
      after = this.endOf(sketch, slot)
      if (left <= 0) return after - moment
    }
  }

  /** Returns the live generations; their rows are the table's own memory. */
  generations(moment: number): Generation[] {
    const found: Generation[] = []
    for (let sketch = 0; sketch < SKETCHES; sketch += 1) {
      for (let slot = 0; slot < GENERATIONS; slot += 1) {
        if (!this.isLive(sketch, slot, moment)) continue
        const rows = Array.from({ length: ROWS }, (_, row) => {
          const from = this.plane(sketch, slot, row)
          return this.words.subarray(from, from + this.width)
        })
        const generation = this.number(sketch, slot) - 1
        found.push({ sketch, code: this.code(sketch), generation, width: this.width, rows })
      }
    }
    return found
  }

  /**
   * Raises counters of one row to those of another table's sketch, from column `from` of `width`: each to the maximum of the counters that
   * its keys may have used, so that no estimate is lower than there. Returns the time when all of it has expired. Only for a sketch to
   * which nothing else was added.
   */
  raise({ sketch, code, generation, width }: Omit<Generation, 'rows'>, row: number, from: number, cells: Uint32Array) {
    const slot = generation % GENERATIONS
    this.words[this.record(sketch)] = code
    this.words[this.record(sketch) + 1 + slot] = generation + 1
    const base = this.plane(sketch, slot, row)
    for (let i = 0; i < cells.length; i += 1) {
      const count = cells[i]!
      if (count === 0) continue
      const first = Math.ceil(((from + i) * TWO32) / width)
      const last = Math.ceil(((from + i + 1) * TWO32) / width) - 1
      const end = Math.floor((last * this.width) / TWO32)
      for (let column = Math.floor((first * this.width) / TWO32); column <= end; column += 1)
        if (this.words[base + column]! < count) this.words[base + column] = count
    }
    return this.endOf(sketch, slot)
  }

  private flush(): void {
    if (this.pending === 0) return
    const slot = this.open(this.current, this.generation)
    const target = Math.min(MAX_COUNT, this.least(this.current, slot) + this.pending)
    for (let row = 0; row < ROWS; row += 1) {
      const cell = this.cell(this.current, slot, row)
      if (this.words[cell]! < target) this.words[cell] = target
    }
    this.until = Math.max(this.until, this.endOf(this.current, slot))
    this.pending = 0
  }

  private sum(sketch: number, moment: number): number {
    let sum = 0
    for (let slot = 0; slot < GENERATIONS; slot += 1) {
      if (this.isLive(sketch, slot, moment)) sum += this.least(sketch, slot)
    }
    return sum
  }

  private least(sketch: number, slot: number): number {
    let least = MAX_COUNT
    for (let row = 0; row < ROWS; row += 1) least = Math.min(least, this.words[this.cell(sketch, slot, row)]!)
    return least
  }

  private locate(low: number, high: number): void {
    for (let row = 0; row < ROWS; row += 1) {
      const mixed = (Math.imul(low, LOW_FACTORS[row]!) + Math.imul(high, HIGH_FACTORS[row]!)) >>> 0
      this.columns[row] = Math.floor((mixed * this.width) / TWO32)
    }
  }

  private cell(sketch: number, slot: number, row: number): number {
    return this.plane(sketch, slot, row) + this.columns[row]!
  }

  private plane(sketch: number, slot: number, row: number): number {
    return this.memory.layout.sketchBase + ((sketch * GENERATIONS + slot) * ROWS + row) * this.width
  }

  private record(sketch: number): number {
    return HEADER.sketches + sketch * RECORD_WORDS
  }

  private code(sketch: number): number {
    return this.words[this.record(sketch)]!
  }

  /** Returns a quarter of the sketch's window (ms). Numbers of quarters of the shortest window fit into 32 bits for 34 years. */
  private quarter(sketch: number): number {
    return windowSeconds(this.code(sketch)) * 250
  }

  private number(sketch: number, slot: number): number {
    return this.words[this.record(sketch) + 1 + slot]!
  }

  /** Returns the time at which a generation is dropped: its last millisecond is a whole window ago. */
  private endOf(sketch: number, slot: number): number {
    return (this.number(sketch, slot) + GENERATIONS - 1) * this.quarter(sketch) - 1
  }

  private isLive(sketch: number, slot: number, moment: number): boolean {
    const number = this.number(sketch, slot)
    return number !== UNUSED && number !== DIRTY && moment < this.endOf(sketch, slot)
  }

  /** Returns the live generation that is dropped first after `moment`, or -1. */
  private oldest(sketch: number, moment: number): number {
    let found = -1
    for (let slot = 0; slot < GENERATIONS; slot += 1) {
      if (!this.isLive(sketch, slot, moment)) continue
      if (found < 0 || this.number(sketch, slot) < this.number(sketch, found)) found = slot
    }
    return found
  }

  /** Returns the slot of a generation, cleared if it held another. */
  private open(sketch: number, generation: number): number {
    const slot = generation % GENERATIONS
    const before = this.number(sketch, slot)
    // A later generation in the slot cannot be cleared: it takes the count and keeps it longer.
    if (before > generation && before !== DIRTY) return slot
    if (before !== UNUSED) {
      const base = this.plane(sketch, slot, 0)
      this.words.fill(0, base, base + ROWS * this.width)
    }
    this.words[this.record(sketch) + 1 + slot] = generation + 1
    return slot
  }

  private find(code: number): number {
    for (let sketch = 0; sketch < REST; sketch += 1) {
      if (this.code(sketch) === code) return sketch
    }
    return REST
  }

  /** Returns the sketch of a window length: its own, an unneeded one, or the shared one. */
  private assign(code: number, moment: number): number {
    const own = this.find(code)
    if (own !== REST) return own
    for (let sketch = 0; sketch < REST; sketch += 1) {
      if (this.oldest(sketch, moment) >= 0) continue
      for (let slot = 0; slot < GENERATIONS; slot += 1) {
        if (this.number(sketch, slot) !== UNUSED) this.words[this.record(sketch) + 1 + slot] = DIRTY
      }
      this.words[this.record(sketch)] = code
      return sketch
    }
    this.words[this.record(REST)] = DAY_CODE
    return REST
  }
}
