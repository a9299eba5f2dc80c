import { crc32 } from 'node:zlib'

/*
 * The file of kept counters
 * =========================
 *
 *   head (64 bytes) | mark (64) | chunk | chunk | …
 *
 *   head    what the file is, its version, the secret of the hashes in it, and how many segments and buckets the base is of
 *   mark    written in place, last of every checkpoint: how many bytes count, when that was on both clocks, and who writes
 *   base    parts of segments, each with its moment: the buckets as they were then
 *   sketch  counters of the sketch, behind all parts
 *   log     what one thread has admitted: records of `AdmissionLog`, as they are
 *
 * All numbers are those of little-endian machines. Head, mark and chunks have checksums (CRC-32), so a change of any byte that counts is
 * found. What stands behind the marked length is a checkpoint that was not finished, and does not count.
 *
 * Promise. What is read holds at least what was admitted up to the mark, and each admission at a time that is not before its own.
 *
 * Argument. The file of a base is begun before the first part is read, and from then on every checkpoint goes into it. An admission of before
 * the moment of its part is in the part, or in the sketch, which is read later; one that came after is in the log of the file. The
 * reader counts a record unless its rounded time is before the moment of its part, so it may count an admission twice that came within
 * four microseconds before, and never omits one. A bucket that was emptied is a record too: what is not after it does not count, wherever it stands.
 *
 * Time. Times in the file are those of the monotonic clock that it was written with. The process that reads it goes on with that clock: it
 * reads the time of the mark, and adds what has passed since on the wall clock, where that has not gone back (`resumedTime`). So times, the
 * borders of grains, and what is over mean the same in both processes. No time in the file is more than a millisecond after that of its mark.
 */

const VERSION = 1
export const HEAD_BYTES = 64
export const MARK_BYTES = 64
/** Where chunks begin. */
export const CHUNKS = HEAD_BYTES + MARK_BYTES
export const CHUNK_HEAD_BYTES = 32
/** No chunk has a longer body. */
const MAX_BODY = 32 * 2 ** 20

const MAGIC = [0x69756c73, 0x636c6563] as const

export const CHUNK = { base: 1, sketch: 2, log: 3 } as const
export type ChunkKind = (typeof CHUNK)[keyof typeof CHUNK]

export interface Head {
  readonly secret: Uint8Array
  /** Segments of the table that the base was read from: a power of two. */
  readonly segments: number
  /** About as many as the base has. */
  readonly buckets: number
}

export interface Mark {
  /** Bytes of the file that count. */
  readonly length: number
  /** Milliseconds of the two clocks. */
  readonly monotonic: number
  readonly wall: number
  /** A number of the process that writes the file, which it has drawn. */
  readonly owner: number
}

export interface ChunkHead {
  readonly kind: ChunkKind
  /** Bytes that follow. */
  readonly bytes: number
  /** log: checkpoint that it belongs to. */
  readonly group: number
  /** log: when it was taken, monotonic milliseconds. */
  readonly time: number
  readonly checksum: number
}

export function headBytes({ secret, segments, buckets }: Head): Uint8Array {
  const bytes = new Uint8Array(HEAD_BYTES)
  const words = new Uint32Array(bytes.buffer)
  words.set([...MAGIC, VERSION, segments])
  bytes.set(secret, 16)
  words[8] = buckets
  return sealed(bytes)
}

export function markBytes({ length, monotonic, wall, owner }: Mark): Uint8Array {
  const bytes = new Uint8Array(MARK_BYTES)
  new Float64Array(bytes.buffer).set([length, monotonic, wall])
  new Uint32Array(bytes.buffer)[6] = owner
  return sealed(bytes)
}

export function chunkHeadBytes({ kind, bytes: length, group, time, checksum }: ChunkHead): Uint8Array {
  const bytes = new Uint8Array(CHUNK_HEAD_BYTES)
  const words = new Uint32Array(bytes.buffer)
  words.set([kind, length, group])
  new Float64Array(bytes.buffer)[2] = time
  words[6] = checksum
  return sealed(bytes)
}

/** What is wrong with a file of counters: of another version, or damaged. */
export class NotCounters extends Error {}

/** Fails with `NotCounters`. */
export function readHead(bytes: Uint8Array): Head {
  const { words } = checked(bytes, HEAD_BYTES, 'its head')
  if (words[0] !== MAGIC[0] || words[1] !== MAGIC[1]) throw new NotCounters('it is no file of counters')
  if (words[2] !== VERSION)
    throw new NotCounters(`it is of version ${words[2]}, and this program reads version ${VERSION}`)
  const segments = words[3] as number
  if (segments === 0 || segments > 4_096 || (segments & (segments - 1)) !== 0)
    throw new NotCounters('its head is damaged')
  return { secret: new Uint8Array(bytes.subarray(16, 32)), segments, buckets: words[8] as number }
}

/** Fails with `NotCounters`. */
export function readMark(bytes: Uint8Array): Mark {
  const { words, doubles } = checked(bytes, MARK_BYTES, 'its mark')
  const [length = 0, monotonic = 0, wall = 0] = doubles
  return { length, monotonic, wall, owner: words[6] as number }
}

/** Fails with `NotCounters`. */
export function readChunkHead(bytes: Uint8Array): ChunkHead {
  const { words, doubles } = checked(bytes, CHUNK_HEAD_BYTES, 'a part of it')
  const [kind = 0, length = 0, group = 0] = words
  if (kind < CHUNK.base || kind > CHUNK.log || length > MAX_BODY) throw new NotCounters('a part of it is damaged')
  return { kind: kind as ChunkKind, bytes: length, group, time: doubles[2] as number, checksum: words[6] as number }
}

/** Wall clocks show whole milliseconds: two of their times are apart by so much less than they seem, at most. */
const ROUNDING = 1
/** Milliseconds after which every window has passed: a clock that was years behind does not move times by years. */
const LONGEST = 2 * 86_400_000

/** What the monotonic clock of a process that goes on with a file reads now: time passes while no process runs, and never goes back. */
export function resumedTime({ monotonic, wall }: Mark, now: number): number {
  return monotonic + Math.min(LONGEST, Math.max(0, now - wall - ROUNDING))
}

/** Ends bytes with their checksum. */
function sealed(bytes: Uint8Array): Uint8Array {
  const words = new Uint32Array(bytes.buffer)
  words[words.length - 1] = crc32(bytes.subarray(0, -4))
  return bytes
}

function checked(bytes: Uint8Array, length: number, what: string): { words: Uint32Array; doubles: Float64Array } {
  // A copy, because numbers are read at multiples of their size.
  const { buffer } = new Uint8Array(bytes.subarray(0, length))
  if (buffer.byteLength < length) throw new NotCounters('it is cut')
  const words = new Uint32Array(buffer)
  if (words[words.length - 1] !== crc32(new Uint8Array(buffer, 0, length - 4)))
    throw new NotCounters(`${what} is damaged`)
  return { words, doubles: new Float64Array(buffer) }
}
