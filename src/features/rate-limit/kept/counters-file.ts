import { randomInt } from 'node:crypto'
import { type FileHandle, open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { crc32 } from 'node:zlib'
import { keepOwner, syncFolder, writtenFile } from '../../../lib/files.js'
import type { Slices } from '../../../lib/slices.js'
import {
  CHUNK_HEAD_BYTES,
  CHUNKS,
  type ChunkHead,
  chunkHeadBytes,
  HEAD_BYTES,
  type Head,
  headBytes,
  MARK_BYTES,
  type Mark,
  markBytes
} from './format.js'

/** Bytes per step of a checksum: about a tenth of a millisecond. */
const STRETCH = 131_072
/** File mode: readable by the owner alone, because the file contains the secret of the hashes. */
const PRIVATE = 0o600

/** Another process writes the file as well. */
export class AnotherOwner extends Error {}

/** Chunk without the parts that the file determines. */
export type Chunk = Pick<ChunkHead, 'kind' | 'group' | 'time'> & { readonly views: readonly Uint8Array[] }

/** File of kept counters written by this process. Every method fails with the system's error. */
export class CountersFile {
  readonly #handle: FileHandle
  readonly #owner: number
  #path: string
  #marked: Uint8Array | undefined
  /** Offset of the next chunk. */
  #end: number

  private constructor(handle: FileHandle, path: string, { end, owner }: { end: number; owner: number }) {
    this.#handle = handle
    this.#path = path
    this.#end = end
    this.#owner = owner
  }

  /** Creates a file. It is invalid until marked. */
  static async create(path: string, head: Head): Promise<CountersFile> {
    const handle = await open(path, 'wx+', PRIVATE)
    try {
      await handle.chmod(PRIVATE)
      await handle.write(headBytes(head), 0, HEAD_BYTES, 0)
    } catch (error) {
      await handle.close()
      await unlink(path)
      throw error
    }
    return new CountersFile(handle, path, { end: CHUNKS, owner: randomInt(2 ** 32) })
  }

  /** Continues a file after `mark` and takes it over. Fails with `AnotherOwner` if its mark has changed. */
  static async goOn(path: string, mark: Mark, now: Pick<Mark, 'monotonic' | 'wall'>): Promise<CountersFile> {
    const handle = await open(path, 'r+')
    try {
      const file = new CountersFile(handle, path, { end: mark.length, owner: randomInt(2 ** 32) })
      file.#marked = markBytes(mark)
      await file.#mustBeOurs()
      await handle.truncate(mark.length)
      await file.#mark(now)
      return file
    } catch (error) {
      await handle.close()
      throw error
    }
  }

  /** Size of the file (bytes). */
  get length(): number {
    return this.#end
  }

  /** Appends chunks, which become valid with `commit`. Fails with `AnotherOwner` if another process has marked the file. */
  async append(chunks: readonly Chunk[], slices: Slices): Promise<void> {
    await this.#mustBeOurs()
    const pieces: Uint8Array[] = []
    let length = 0
    for (const { views, ...about } of chunks) {
      const bytes = views.reduce((sum, view) => sum + view.length, 0)
      pieces.push(chunkHeadBytes({ ...about, bytes, checksum: await checksumOf(views, slices) }), ...views)
      length += CHUNK_HEAD_BYTES + bytes
    }
    // Before the first wait, so that two calls get different offsets.
    const at = this.#end
    this.#end += length
    await writeAll(this.#handle, pieces, at)
  }

  /** Makes appended chunks valid. Fails with `AnotherOwner` if another process has marked the file. */
  async commit(now: Pick<Mark, 'monotonic' | 'wall'>): Promise<void> {
    await this.#mustBeOurs()
    // Data first: the mark must not be on disk before the data.
    await this.#handle.datasync()
    await this.#mark(now)
  }

  /** Replaces the plain file at `path`. Fails with `EEXIST` if it is another kind of file. */
  async moveTo(path: string): Promise<void> {
    await this.#handle.sync()
    const there = writtenFile(path)
    if (there.kind === 'other') throw Object.assign(new Error(`${path} is no plain file`), { code: 'EEXIST' })
    keepOwner(this.#path, there)
    await rename(this.#path, there.path)
    this.#path = there.path
    await syncFolder(dirname(there.path))
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }

  /** Closes and deletes the file. Does not fail. */
  async discard(): Promise<void> {
    await this.#handle.close().catch(() => undefined)
    await unlink(this.#path).catch(() => undefined)
  }

  async #mustBeOurs(): Promise<void> {
    if (this.#marked === undefined) return
    const found = new Uint8Array(MARK_BYTES)
    await this.#handle.read(found, 0, MARK_BYTES, HEAD_BYTES)
    if (Buffer.compare(found, this.#marked) !== 0) throw new AnotherOwner('another process writes the file')
  }

  async #mark({ monotonic, wall }: Pick<Mark, 'monotonic' | 'wall'>): Promise<void> {
    const mark = markBytes({ length: this.#end, monotonic, wall, owner: this.#owner })
    await this.#handle.write(mark, 0, MARK_BYTES, HEAD_BYTES)
    this.#marked = mark
  }
}

async function checksumOf(views: readonly Uint8Array[], slices: Slices): Promise<number> {
  let checksum = 0
  for (const view of views) {
    for (let at = 0; at < view.length; at += STRETCH) {
      checksum = crc32(view.subarray(at, at + STRETCH), checksum)
      if (slices.due) await slices.rest()
    }
  }
  return checksum
}

/** Writes everything, because `writev` may write only a part. */
async function writeAll(handle: FileHandle, pieces: readonly Uint8Array[], at: number): Promise<void> {
  let left = pieces.filter(({ length }) => length > 0)
  let place = at
  while (left.length > 0) {
    const { bytesWritten } = await handle.writev(left, place)
    place += bytesWritten
    let done = bytesWritten
    while (left.length > 0 && done >= left[0]!.length) {
      done -= left[0]!.length
      left = left.slice(1)
    }
    if (done > 0) left = [left[0]!.subarray(done), ...left.slice(1)]
  }
}
