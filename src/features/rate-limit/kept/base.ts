import type { BucketSink, Contents } from '../limiter/contents.js'
import type { Generation } from '../limiter/sketch.js'

const TWO32 = 2 ** 32
/** Minimum size of a body of parts before it is yielded (bytes). */
const ENOUGH = 65_536
/**
 * Words before the buckets of a part: segment, first hash, first hash after it (0: 2³²), number of following words, time in milliseconds
 * (two).
 */
const PART_WORDS = 6
/** Words before the admissions of a bucket: both halves of its hash, window and number of admissions. */
const BUCKET_WORDS = 3
/** Flag in the third word: each admission has a number. Above it is the code of the window, below it the number of admissions. */
const NUMBERED = 2 ** 17
/** Mask of the number of admissions. */
const LENGTH_MASK = NUMBERED - 1
/** Words before sketch cells. */
const CELLS_HEAD = 6
/** Cells in one body. */
const CELLS = 8_192

/** Growing array of words. */
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

/** Writes buckets as words: an admission is its time modulo 2³², with its number unless all are 1. */
class BucketWords implements BucketSink {
  readonly #out: Words
  readonly #stamps: number[] = []
  readonly #counts: number[] = []
  #code = 0

  constructor(out: Words) {
    this.#out = out
  }

  begin(low: number, high: number, code: number): void {
    this.end()
    this.#code = code
    this.#out.push(low)
    this.#out.push(high)
  }

  add(stamp: number, count: number): void {
    this.#stamps.push(stamp)
    this.#counts.push(count)
  }

  /** Completes the bucket. */
  end(): void {
    const [out, stamps, counts] = [this.#out, this.#stamps, this.#counts]
    if (stamps.length === 0) return
    const numbered = counts.some((count) => count !== 1)
    out.push(this.#code * (2 * NUMBERED) + (numbered ? NUMBERED : 0) + stamps.length)
    for (let i = 0; i < stamps.length; i += 1) {
      out.push(stamps[i]!)
      if (numbered) out.push(counts[i]!)
    }
    stamps.length = 0
    counts.length = 0
  }
}

/**
 * Maximum number of attempts for a part locked by another thread, which releases it within microseconds while it runs, or has crashed and
 * is repaired.
 */
const ATTEMPTS = 10_000
/** Another thread has the next part. The caller must pause, because that thread may need its processor. */
export const TAKEN = 'taken'

/**
 * Yields the bodies of a base part by part: undefined after a part without a full body, `TAKEN` if another thread has the part. Bodies are
 * immutable. Fails if a part stays locked.
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

/** Yields the bodies of the sketch; undefined for cells that are all 0. */
export function* sketchBodies(contents: Contents): Generator<Uint8Array | undefined> {
  for (const { sketch, code, generation, width, rows } of contents.generations()) {
    for (const [row, cells] of rows.entries()) {
      for (let from = 0; from < width; from += CELLS) {
        const some = cells.subarray(from, from + CELLS)
        if (some.every((cell) => cell === 0)) {
          yield undefined
          continue
        }
        const body = new Uint32Array(CELLS_HEAD + some.length)
        body.set([sketch, code, generation, width, row, from])
        body.set(some, CELLS_HEAD)
        yield new Uint8Array(body.buffer)
      }
    }
  }
}

/** Reads sketch cells from a body of `sketchBodies`. */
export function readCells(words: Uint32Array): {
  readonly generation: Omit<Generation, 'rows'>
  readonly row: number
  readonly from: number
  readonly cells: Uint32Array
} {
  const [sketch = 0, code = 0, generation = 0, width = 0, row = 0, from = 0] = words
  return { generation: { sketch, code, generation, width }, row, from, cells: words.subarray(CELLS_HEAD) }
}

/** Receives the buckets of a base, after the part that contains them. */
export interface BaseSink extends BucketSink {
  part(segment: number, from: number, at: number): void
}

/** Passes the content of a body of `partBodies` to `sink`. */
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

/** Returns the time near `reference` whose remainder modulo 2³² is `word`. */
export function wholeTime(word: number, reference: number): number {
  const near = Math.floor(reference)
  return near + ((word - (near | 0)) | 0)
}
