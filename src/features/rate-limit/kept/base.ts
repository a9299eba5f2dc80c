import type { BucketSink, Contents } from '../limiter/contents.js'
import type { Generation } from '../limiter/sketch.js'

const TWO32 = 2 ** 32
/** Bytes from which on a body of parts is given away. */
const ENOUGH = 65_536
/** Words in front of the buckets of a part: segment, first hash, first hash behind it (0: 2³²), words that follow, time in milliseconds (two). */
const PART_WORDS = 6
/** Words in front of the admissions of a bucket: both halves of its hash, window and number of admissions. */
const BUCKET_WORDS = 3
/** The third of them: the window in tens of seconds above, then whether each admission has a number, then how many follow. */
const NUMBERED = 2 ** 17
const LENGTH_MASK = NUMBERED - 1
/** Words in front of cells of the sketch, and so many cells at a time. */
const CELLS_HEAD = 6
const CELLS = 8_192

/** Words that grow. */
class Words {
  words = new Uint32Array(2 * ENOUGH)
  length = 0

  push(word: number): void {
    if (this.length === this.words.length) {
      const larger = new Uint32Array(2 * this.words.length)
      larger.set(this.words)
      this.words = larger
    }
    this.words[this.length++] = word
  }
}

/** Writes buckets as words: an admission is its time modulo 2³², with its number where one is not 1. */
class BucketWords implements BucketSink {
  readonly #out: Words
  readonly #stamps: number[] = []
  readonly #counts: number[] = []
  #tens = 0

  constructor(out: Words) {
    this.#out = out
  }

  begin(low: number, high: number, tens: number): void {
    this.end()
    this.#tens = tens
    this.#out.push(low)
    this.#out.push(high)
  }

  add(stamp: number, count: number): void {
    this.#stamps.push(stamp)
    this.#counts.push(count)
  }

  /** The bucket is complete. */
  end(): void {
    const [out, stamps, counts] = [this.#out, this.#stamps, this.#counts]
    if (stamps.length === 0) return
    const numbered = counts.some((count) => count !== 1)
    out.push(this.#tens * (2 * NUMBERED) + (numbered ? NUMBERED : 0) + stamps.length)
    for (let i = 0; i < stamps.length; i += 1) {
      out.push(stamps[i]!)
      if (numbered) out.push(counts[i]!)
    }
    stamps.length = 0
    counts.length = 0
  }
}

/** How often a part is asked for that another thread has: it gives it back within microseconds while it runs, or has ended and is repaired. */
const ATTEMPTS = 10_000
/** Another thread has the part that comes next. The caller rests before it goes on, because that thread may need its processor. */
export const TAKEN = 'taken'

/**
 * The bodies of a base, made one part after the other: undefined where a part is done and no body is full, `TAKEN` where another thread has it.
 * Each body stays as it is. Fails when a part cannot be had.
 */
export function* partBodies(contents: Contents): Generator<Uint8Array | typeof TAKEN | undefined> {
  let out = new Words()
  let attempts = 0
  for (let segment = 0; segment < contents.segments; segment += 1) {
    for (let from = 0; from < TWO32; ) {
      const head = out.length
      for (let word = 0; word < PART_WORDS; word += 1) out.push(0)
      const buckets = new BucketWords(out)
      const part = contents.part(segment, from, buckets)
      if (part === undefined) {
        if (++attempts === ATTEMPTS) throw new Error('another thread has a part of the limiter for too long')
        out.length = head
        yield TAKEN
        continue
      }
      attempts = 0
      const { at, end } = part
      buckets.end()
      const length = out.length - head - PART_WORDS
      if (length === 0) out.length = head
      else {
        out.words.set([segment, from, end === TWO32 ? 0 : end, length], head)
        out.words.set(new Uint32Array(Float64Array.of(at).buffer), head + 4)
      }
      from = end
      const full = out.length * 4 >= ENOUGH
      yield full ? bodyOf(out) : undefined
      if (full) out = new Words()
    }
  }
  if (out.length > 0) yield bodyOf(out)
}

function bodyOf({ words, length }: Words): Uint8Array {
  return new Uint8Array(words.buffer, 0, length * 4)
}

/** The bodies of what the sketch holds; undefined where cells were looked at that are all 0. */
export function* sketchBodies(contents: Contents): Generator<Uint8Array | undefined> {
  for (const { sketch, tens, generation, width, rows } of contents.generations()) {
    for (const [row, cells] of rows.entries()) {
      for (let from = 0; from < width; from += CELLS) {
        const some = cells.subarray(from, from + CELLS)
        if (some.every((cell) => cell === 0)) {
          yield undefined
          continue
        }
        const body = new Uint32Array(CELLS_HEAD + some.length)
        body.set([sketch, tens, generation, width, row, from])
        body.set(some, CELLS_HEAD)
        yield new Uint8Array(body.buffer)
      }
    }
  }
}

/** Cells of the sketch, from a body of `sketchBodies`. */
export function readCells(words: Uint32Array): {
  readonly generation: Omit<Generation, 'rows'>
  readonly row: number
  readonly from: number
  readonly cells: Uint32Array
} {
  const [sketch = 0, tens = 0, generation = 0, width = 0, row = 0, from = 0] = words
  return { generation: { sketch, tens, generation, width }, row, from, cells: words.subarray(CELLS_HEAD) }
}

/** Takes the buckets of a base: first which part they are of. */
export interface BaseSink extends BucketSink {
  part(segment: number, from: number, at: number): void
}

/** Gives what a body of `partBodies` holds to `sink`. */
export function readParts(words: Uint32Array, sink: BaseSink): void {
  for (let place = 0; place < words.length; ) {
    const [segment = 0, from = 0, , length = 0] = words.subarray(place, place + 4)
    const [at = 0] = new Float64Array(words.slice(place + 4, place + PART_WORDS).buffer)
    sink.part(segment, from, at)
    place += PART_WORDS
    const end = place + length
    while (place < end) {
      const about = words[place + 2]!
      const [numbered, admissions] = [(about & NUMBERED) !== 0, about & LENGTH_MASK]
      sink.begin(words[place]!, words[place + 1]!, Math.floor(about / (2 * NUMBERED)))
      place += BUCKET_WORDS
      for (let i = 0; i < admissions; i += 1) {
        const stamp = wholeTime(words[place]!, at)
        sink.add(stamp, numbered ? words[place + 1]! : 1)
        place += numbered ? 2 : 1
      }
    }
  }
}

/** The time near `reference` whose remainder modulo 2³² is `word`. */
export function wholeTime(word: number, reference: number): number {
  const near = Math.floor(reference)
  return near + ((word - (near | 0)) | 0)
}
