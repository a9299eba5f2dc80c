import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { codeOf } from '../../../lib/errors.js'
import { COST_BITS, EMPTIED, LARGE_COST, RECORD_WORDS, TIME_PARTS } from '../limiter/admission-log.js'
import type { Contents } from '../limiter/contents.js'
import { type BaseSink, readCells, readParts, wholeTime } from './base.js'
import {
  CHUNK,
  CHUNK_HEAD_BYTES,
  CHUNKS,
  type ChunkHead,
  type ChunkKind,
  HEAD_BYTES,
  type Head,
  MARK_BYTES,
  type Mark,
  NotCounters,
  readChunkHead,
  readHead,
  readMark
} from './format.js'

/** Chunk in a file that is being read. */
interface Place extends ChunkHead {
  readonly at: number
}

/** Counters file of a process that has ended. Methods are synchronous, because nothing is served yet. */
export class KeptCounters {
  readonly head: Head
  readonly mark: Mark
  readonly #fd: number
  #closed = false
  #chunks: readonly Place[] = []

  private constructor(fd: number) {
    this.#fd = fd
    const bytes = this.#bytes(0, CHUNKS)
    this.head = readHead(bytes.subarray(0, HEAD_BYTES))
    this.mark = readMark(bytes.subarray(HEAD_BYTES, HEAD_BYTES + MARK_BYTES))
  }

  /** Reads header and mark; undefined if there is no file. Fails with `NotCounters` or the system's error. */
  static open(path: string): KeptCounters | undefined {
    let fd: number
    try {
      fd = openSync(path, 'r')
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined
      throw error
    }
    try {
      return new KeptCounters(fd)
    } catch (error) {
      closeSync(fd)
      throw error
    }
  }

  close(): void {
    if (!this.#closed) closeSync(this.#fd)
    this.#closed = true
  }

  /** Verifies every valid byte. Fails with `NotCounters` or the system's error. */
  check(): void {
    if (fstatSync(this.#fd).size < this.mark.length) throw new NotCounters('it is cut')
    const chunks: Place[] = []
    for (let at = CHUNKS; at < this.mark.length; ) {
      const head = readChunkHead(this.#bytes(at, CHUNK_HEAD_BYTES))
      const body = at + CHUNK_HEAD_BYTES
      if (body + head.bytes > this.mark.length) throw new NotCounters('a part of it is damaged')
      if (crc32(this.#bytes(body, head.bytes)) !== head.checksum) throw new NotCounters('a part of it is damaged')
      chunks.push({ ...head, at: body })
      at = body + head.bytes
    }
    this.#chunks = chunks
  }

  /** Bytes of the file without logs. Only after `check`. */
  get base(): number {
    return this.#chunks.reduce(
      (sum, { kind, bytes }) => sum + (kind === CHUNK.log ? 0 : CHUNK_HEAD_BYTES + bytes),
      CHUNKS
    )
  }

  /**
   * Counts the whole file in `contents`, whose clock continues that of the file. Only after `check`. Fails if a thread holds a bucket for
   * too long.
   */
  fill(contents: Contents): void {
    const emptied = this.#emptied()
    for (const words of this.#bodies(CHUNK.sketch)) {
      const { generation, row, from, cells } = readCells(words)
      done(contents.raise(generation, row, from, cells))
    }
    contents.expect(this.head.buckets)
    const base = new Base(contents, this.head.segments, emptied)
    for (const words of this.#bodies(CHUNK.base)) {
      base.now = contents.now()
      readParts(words, base)
    }
    for (const group of this.#groups()) {
      const now = contents.now()
      for (const { low, high, code, time, cost } of inOrder(group)) {
        if (cost === EMPTIED || base.has(low, high, time) || emptied.until(low, high) >= time) continue
        done(contents.count(low, high, code, Math.ceil(time), cost, now))
      }
    }
  }

  #emptied(): Emptied {
    const emptied = new Emptied()
    for (const group of this.#groups())
      for (const log of group)
        for (const { low, high, time, cost } of log) if (cost === EMPTIED) emptied.add(low, high, time)
    return emptied
  }

  *#bodies(kind: ChunkKind): Generator<Uint32Array> {
    for (const chunk of this.#chunks) if (chunk.kind === kind) yield this.#words(chunk)
  }

  /** Yields the logs of each checkpoint. */
  *#groups(): Generator<Iterable<Admission>[]> {
    let group: Place[] = []
    for (const chunk of this.#chunks) {
      if (chunk.kind !== CHUNK.log) continue
      if (group.length > 0 && group[0]!.group !== chunk.group) {
        yield group.map((place) => admissionsOf(this.#words(place), place.time))
        group = []
      }
      group.push(chunk)
    }
    if (group.length > 0) yield group.map((place) => admissionsOf(this.#words(place), place.time))
  }

  #words({ at, bytes }: Place): Uint32Array {
    return new Uint32Array(this.#bytes(at, bytes).buffer)
  }

  #bytes(at: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length)
    for (let read = 0; read < length; ) {
      const some = readSync(this.#fd, bytes, read, length - read, at + read)
      if (some === 0) throw new NotCounters('it is cut')
      read += some
    }
    return bytes
  }
}

function done(counted: boolean): void {
  if (!counted) throw new Error('another thread has a part of the limiter for too long')
}

/** Cleared buckets, and the time until which their content is ignored. */
class Emptied {
  readonly #until = new Map<number, Map<number, number>>()

  add(low: number, high: number, time: number): void {
    const byHigh = this.#until.get(low) ?? new Map<number, number>()
    this.#until.set(low, byHigh)
    byHigh.set(high, Math.max(time, byHigh.get(high) ?? time))
  }

  until(low: number, high: number): number {
    if (this.#until.size === 0) return Number.NEGATIVE_INFINITY
    return this.#until.get(low)?.get(high) ?? Number.NEGATIVE_INFINITY
  }
}

/** Counts a base in a table, and knows for each hash when its part was read. */
class Base implements BaseSink {
  readonly #contents: Contents
  readonly #mask: number
  readonly #emptied: Emptied
  /** First hashes of each segment's parts in order, with their times. */
  readonly #parts: { readonly from: number[]; readonly at: number[] }[]
  /** Monotonic milliseconds. */
  now = 0
  #low = 0
  #high = 0
  #code = 0
  #until = 0

  constructor(contents: Contents, segments: number, emptied: Emptied) {
    this.#contents = contents
    this.#mask = segments - 1
    this.#emptied = emptied
    this.#parts = Array.from({ length: segments }, () => ({ from: [], at: [] }))
  }

  part(segment: number, from: number, at: number): void {
    const parts = this.#parts[segment & this.#mask]!
    parts.from.push(from)
    parts.at.push(at)
  }

  begin(low: number, high: number, code: number): void {
    this.#low = low
    this.#high = high
    this.#code = code
    this.#until = this.#emptied.until(low, high)
  }

  add(stamp: number, count: number): void {
    if (stamp <= this.#until) return
    done(this.#contents.count(this.#low, this.#high, this.#code, stamp, count, this.now))
  }

  /** Returns true if the base contains an admission of that time. A part without buckets is omitted; its admissions had expired. */
  has(low: number, high: number, time: number): boolean {
    const { from, at } = this.#parts[low & this.#mask]!
    let [first, end] = [0, from.length]
    while (first < end) {
      const middle = (first + end) >>> 1
      if (from[middle]! <= high) first = middle + 1
      else end = middle
    }
    return first > 0 && time < at[first - 1]!
  }
}

interface Admission {
  low: number
  high: number
  code: number
  /** Milliseconds. */
  time: number
  cost: number
}

/** Yields the records of a log that was read at `taken`, monotonic milliseconds; reuses one object. */
export function* admissionsOf(words: Uint32Array, taken: number): Generator<Admission> {
  const one: Admission = { low: 0, high: 0, code: 0, time: 0, cost: 0 }
  for (let at = 0; at < words.length; at += RECORD_WORDS) {
    const about = words[at + 2]!
    one.low = words[at]!
    one.high = words[at + 1]!
    one.code = about >>> COST_BITS
    one.cost = about & LARGE_COST
    one.time = wholeTime(words[at + 3]!, taken * TIME_PARTS) / TIME_PARTS
    if (one.cost === LARGE_COST) {
      at += RECORD_WORDS
      one.cost = words[at]!
    }
    yield one
  }
}

/** Merges the admissions of several threads by time. */
function* inOrder(logs: readonly Iterable<Admission>[]): Generator<Admission> {
  const heads = logs.flatMap((log) => {
    const rest = log[Symbol.iterator]()
    const next = rest.next()
    return next.done === true ? [] : [{ one: next.value, rest }]
  })
  while (heads.length > 0) {
    let first = 0
    for (let i = 1; i < heads.length; i += 1) if (heads[i]!.one.time < heads[first]!.one.time) first = i
    const { one, rest } = heads[first]!
    yield one
    if (rest.next().done === true) heads.splice(first, 1)
  }
}
