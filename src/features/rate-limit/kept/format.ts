import { crc32 } from 'node:zlib'

/*
 * The file of kept counters
 * =========================
 *
 *   head (64 bytes) | mark (64) | chunk | chunk | …
 *
 *   head    file type, version, the secret of the hashes in it, and the numbers of segments and buckets in the base
 *   mark    written in place at the end of every checkpoint: number of valid bytes, its time on both clocks, and the writer
 *   base    parts of segments, each with its time: the buckets at that time
 *   sketch  counters of the sketch, after all parts
 *   log     admissions of one thread: unchanged records of `AdmissionLog`
 *
 * All numbers are little-endian. Head, mark and chunks have checksums (CRC-32), so any change of a valid byte is detected. Data after the
 * marked length is an incomplete checkpoint, and is ignored.
 *
 * Promise. A reader gets at least the admissions up to the mark, each at a time that is not before its own.
 *
 * Argument. The file of a base is created before the first part is read, and from then on every checkpoint is written to it. An admission
 * before the time of its part is in the part, or in the sketch, which is read later; a later one is in the log of the file. The reader
 * counts a record unless its rounded time is before the time of its part, so it may count an admission of the last four microseconds
 * before it twice, and never omits one. A cleared bucket is a record too: admissions that are not after it are ignored, wherever they are.
 *
 * Time. Times in the file are those of the monotonic clock that it was written with. The reading process continues that clock: it reads the
 * time of the mark, and adds the time elapsed on the wall clock, unless that has gone back (`resumedTime`). So times, grain borders and
 * expiry are the same in both processes. No time in the file is more than a millisecond after that of its mark.
 */

const VERSION = 1
export const HEAD_BYTES = 64
export const MARK_BYTES = 64
/** Offset of the first chunk. */
export const CHUNKS = HEAD_BYTES + MARK_BYTES
/** Size of a chunk header (bytes). */
export const CHUNK_HEAD_BYTES = 32
/** Maximum size of a chunk body (bytes). */
const MAX_BODY = 32 * 2 ** 20

const MAGIC = [0x69756c73, 0x636c6563] as const

export const CHUNK = { base: 1, sketch: 2, log: 3 } as const
export type ChunkKind = (typeof CHUNK)[keyof typeof CHUNK]

export interface Head {
  readonly secret: Uint8Array
  /** Segments of the table with the base: a power of two. */
  readonly segments: number
  /** Approximate number of buckets in the base. */
  readonly buckets: number
}

export interface Mark {
  /** Valid bytes of the file. */
  readonly length: number
  /** Milliseconds of both clocks. */
  readonly monotonic: number
  readonly wall: number
  /** Random id of the writing process. */
  readonly owner: number
}

export interface ChunkHead {
  readonly kind: ChunkKind
  /** Number of following bytes. */
  readonly bytes: number
  /** Log: its checkpoint. */
  readonly group: number
  /** Log: time of reading it, monotonic milliseconds. */
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

/** Problem of a counters file: another version, or damaged. */
export class NotCounters extends Error {}

/** Reads the header. Fails with `NotCounters`. */
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

/** Reads the mark. Fails with `NotCounters`. */
export function readMark(bytes: Uint8Array): Mark {
  const { words, doubles } = checked(bytes, MARK_BYTES, 'its mark')
  const [length = 0, monotonic = 0, wall = 0] = doubles
  return { length, monotonic, wall, owner: words[6] as number }
}

/** Reads a chunk header. Fails with `NotCounters`. */
export function readChunkHead(bytes: Uint8Array): ChunkHead {
  const { words, doubles } = checked(bytes, CHUNK_HEAD_BYTES, 'a part of it')
  const [kind = 0, length = 0, group = 0] = words
  if (kind < CHUNK.base || kind > CHUNK.log || length > MAX_BODY) throw new NotCounters('a part of it is damaged')
  return { kind: kind as ChunkKind, bytes: length, group, time: doubles[2] as number, checksum: words[6] as number }
}

/** Maximum rounding error of a wall clock difference, because wall clocks have whole milliseconds. */
const ROUNDING = 1
/** Maximum elapsed time (ms), in which every window has passed: a clock that was years behind must not move times by years. */
const LONGEST = 2 * 86_400_000

/** Returns the current monotonic time for a process that continues a file: time passes while no process runs, and never goes back. */
export function resumedTime({ monotonic, wall }: Mark, now: number): number {
  return monotonic + Math.min(LONGEST, Math.max(0, now - wall - ROUNDING))
}

/** Appends a checksum. */
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
