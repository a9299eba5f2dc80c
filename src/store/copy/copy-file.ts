import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { copyFile, type FileHandle, open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { CodedError, codeOf } from '../../lib/errors.js'
import { makeFolder, replaceFile } from '../../lib/files.js'
import type { Json } from '../../lib/json.js'
import type { Sealer } from '../../lib/seal.js'
import { Slices } from '../../lib/slices.js'
import { copyErrors } from '../errors.js'
import { pieces } from '../queries.js'
import type { RecordKey, WholeRecord } from '../records.js'
import type { Place } from '../store.js'

/*
 * File format: a magic text with the format version (14 bytes), the copy's id (16), then blocks. A block is its length (4, big-endian) and
 * that many bytes of JSON, sealed for the store, the copy and the block number. So blocks cannot be changed, moved, taken from another copy
 * or left out; the last block is marked as the last.
 */
const MARK = Buffer.from('sluice copy 1\n')
/** Length of the copy's id (bytes). */
const ID_BYTES = 16
/** Length of a block's length field (bytes). */
const LENGTH_BYTES = 4
/** Maximum block size in UTF-16 units, so that one block does not block the event loop. */
const BLOCK = 256 * 1024
/** Maximum number of keys in a block of deleted records. */
const KEYS_PER_BLOCK = 1_000
/** File mode: readable by the owner alone. */
const OWNER_ONLY = 0o600

/** Location of a copy, and the store that it belongs to. */
export interface CopyPlace {
  readonly path: string
  /** Name of the store without password. A copy opens only for this store. */
  readonly store: string
  readonly seal: Sealer
}

/** Summary at the end of a copy. */
export interface CopyEnd {
  readonly place: Place
  /** When the revision was written, milliseconds since the Unix epoch. */
  readonly at: number
  /** Note of the revision's writer. */
  readonly detail: Json
  /** Account id. */
  readonly account: string
}

/** Part of a configuration. A repeated record replaces the earlier one, after removal of the records in `gone`; the end comes last. */
export type CopyPart =
  | { readonly records: readonly WholeRecord[] }
  | { readonly gone: readonly RecordKey[] }
  | { readonly end: CopyEnd }

type Writable = Omit<WholeRecord, 'sealed'> & { readonly sealed: string | null }

/** Number of copies kept. */
const KEPT = 3

/** Returns the paths of the kept copies, newest first. */
export function copiesOf(path: string): string[] {
  return [path, ...Array.from({ length: KEPT - 1 }, (_, before) => `${path}.${before + 1}`)]
}

/** Replaces the copy atomically; the previous two are kept as `.1` and `.2`. Fails with the system's error, or as `parts` does. */
export async function writeCopy(at: CopyPlace, parts: AsyncIterable<CopyPart>): Promise<void> {
  makeFolder(dirname(at.path))
  await replaceFile(at.path, blocks(at, parts), OWNER_ONLY, keepCopies)
}

/** Renames each copy to the next older name; the newest also keeps its own name until it is replaced. */
async function keepCopies(path: string): Promise<void> {
  if (!existsSync(path)) return
  const [last = path, first = path, ...others] = copiesOf(path)
  const names = [first, ...others]
  for (let n = names.length - 1; n > 0; n--)
    await rename(names[n - 1] as string, names[n] as string).catch(unlessAbsent)
  await copyFile(last, first).catch(unlessAbsent)
}

/** Renames the copy to an older name, so that no start uses it. Used before the store is replaced. Fails with the system's error. */
export async function setCopyAside(path: string): Promise<void> {
  if (!existsSync(path)) return
  await keepCopies(path)
  await unlink(path)
}

function unlessAbsent(error: unknown): void {
  if (codeOf(error) !== 'ENOENT') throw error
}

/** Returns the summary of the existing copy; undefined if there is none or it is unusable. */
export async function endOfCopy(at: CopyPlace): Promise<CopyEnd | undefined> {
  try {
    for await (const part of readCopy(at)) if ('end' in part) return part.end
  } catch {
    // The next start reports the problem.
  }
  return undefined
}

/**
 * Reads the parts of a copy. Fails with the system's error (`ENOENT`: no copy), with a CodedError `COPY_BROKEN` (another store, truncated
 * or another format) or with an error of the sealer.
 */
export async function* readCopy({ path, store, seal }: CopyPlace): AsyncGenerator<CopyPart> {
  const handle = await open(path, 'r')
  try {
    const { size } = await handle.stat()
    const head = await read(handle, MARK.length + ID_BYTES)
    if (!head.subarray(0, MARK.length).equals(MARK)) throw broken(path)
    const owner = ownerOf(store, head.subarray(MARK.length))
    for (let number = 0; ; number++) {
      const length = (await read(handle, LENGTH_BYTES)).readUInt32BE()
      if (length > size) throw broken(path)
      const block = seal.open(await read(handle, length), owner(number))
      const part = readPart(Buffer.from(block).toString())
      yield part
      if ('end' in part) return
    }
  } finally {
    await handle.close()
  }

  async function read(from: FileHandle, length: number): Promise<Buffer> {
    const bytes = Buffer.alloc(length)
    for (let filled = 0; filled < length; ) {
      const { bytesRead } = await from.read(bytes, filled, length - filled)
      if (bytesRead === 0) throw broken(path)
      filled += bytesRead
    }
    return bytes
  }
}

async function* blocks({ store, seal }: CopyPlace, parts: AsyncIterable<CopyPart>): AsyncGenerator<Uint8Array> {
  const id = randomBytes(ID_BYTES)
  const owner = ownerOf(store, id)
  yield Buffer.concat([MARK, id])
  let number = 0
  // A copy of a large configuration takes seconds and yields to traffic; changes made meanwhile are written without pauses.
  const [patient, brisk] = [Slices.besideTraffic(), new Slices()]
  let slices = patient
  for await (const part of parts) {
    if ('gone' in part) slices = brisk
    for (const text of texts(part)) {
      const sealed = seal.seal(Buffer.from(text), owner(number++))
      const length = Buffer.alloc(LENGTH_BYTES)
      length.writeUInt32BE(sealed.length)
      yield Buffer.concat([length, sealed])
      if (slices.due) await slices.rest()
    }
  }
}

function* texts(part: CopyPart): Generator<string> {
  if ('end' in part) yield JSON.stringify(part)
  else if ('gone' in part) {
    for (const gone of pieces(part.gone, KEYS_PER_BLOCK)) yield JSON.stringify({ gone })
  } else {
    let [some, size]: [string[], number] = [[], 0]
    for (const record of part.records) {
      const sealed = record.sealed === null ? null : Buffer.from(record.sealed).toString('base64')
      const text = JSON.stringify({ ...record, sealed } satisfies Writable)
      some.push(text)
      size += text.length
      if (size < BLOCK) continue
      yield `{"records":[${some.join(',')}]}`
      ;[some, size] = [[], 0]
    }
    if (some.length > 0) yield `{"records":[${some.join(',')}]}`
  }
}

function readPart(text: string): CopyPart {
  const part = JSON.parse(text) as Exclude<CopyPart, { records: unknown }> | { readonly records: readonly Writable[] }
  if (!('records' in part)) return part
  return {
    records: part.records.map(({ sealed, ...record }) => ({
      ...record,
      sealed: sealed === null ? null : new Uint8Array(Buffer.from(sealed, 'base64'))
    }))
  }
}

function ownerOf(store: string, id: Uint8Array): (number: number) => string {
  const copy = Buffer.from(id).toString('hex')
  return (number) => `copy of ${store} ${copy} ${number}`
}

function broken(path: string): CodedError {
  return new CodedError(
    copyErrors.COPY_BROKEN,
    `${path} is no whole copy of a configuration in the form of this version`
  )
}
