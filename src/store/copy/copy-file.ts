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
 * The file: a mark with the version of the form (14 bytes), the id of the copy (16), then blocks, each its length (4, big-endian) and so
 * many bytes that are sealed for the store, the copy and their number in it. A block is JSON text. So nothing of it can be
 * changed, moved, taken from another copy or left out; the last block says that it is the last.
 */
const MARK = Buffer.from('sluice copy 1\n')
const ID_BYTES = 16
const LENGTH_BYTES = 4
/** UTF-16 units after which a block ends, so that to make or to read one holds up no loop. */
const BLOCK = 256 * 1024
const KEYS_PER_BLOCK = 1_000
const OWNER_ONLY = 0o600

/** What a copy is a copy of, and where it lies. */
export interface CopyPlace {
  readonly path: string
  /** What the store is called; holds no password. A copy opens as that of this store only. */
  readonly store: string
  readonly seal: Sealer
}

/** What a copy says of itself at its end. */
export interface CopyEnd {
  readonly place: Place
  /** When the revision was written, milliseconds since the Unix epoch. */
  readonly at: number
  /** What the writer noted about it. */
  readonly detail: Json
  /** The id of the account. */
  readonly account: string
}

/** A piece of a configuration. A record that comes again is the one that counts, after what is `gone` by then; the end comes last. */
export type CopyPart =
  | { readonly records: readonly WholeRecord[] }
  | { readonly gone: readonly RecordKey[] }
  | { readonly end: CopyEnd }

type Writable = Omit<WholeRecord, 'sealed'> & { readonly sealed: string | null }

/** Copies that are kept: the last one and those before it. */
const KEPT = 3

/** The names of the copies that are kept, the last one first. */
export function copiesOf(path: string): string[] {
  return [path, ...Array.from({ length: KEPT - 1 }, (_, before) => `${path}.${before + 1}`)]
}

/**
 * Puts a copy in the place of the one before, as a whole; that one and its predecessor are kept as `.1` and `.2`. Fails with the system's
 * error, or as `parts` do.
 */
export async function writeCopy(at: CopyPlace, parts: AsyncIterable<CopyPart>): Promise<void> {
  makeFolder(dirname(at.path))
  await replaceFile(at.path, blocks(at, parts), OWNER_ONLY, keepCopies)
}

/** Gives each copy the name of the one before it; the last one keeps its own name as well, until another takes it. */
async function keepCopies(path: string): Promise<void> {
  if (!existsSync(path)) return
  const [last = path, first = path, ...others] = copiesOf(path)
  const names = [first, ...others]
  for (let n = names.length - 1; n > 0; n--)
    await rename(names[n - 1] as string, names[n] as string).catch(unlessAbsent)
  await copyFile(last, first).catch(unlessAbsent)
}

/** Puts the copy among those before it: none is then there to start from. For who replaces the store on purpose. Fails with the system's error. */
export async function setCopyAside(path: string): Promise<void> {
  if (!existsSync(path)) return
  await keepCopies(path)
  await unlink(path)
}

function unlessAbsent(error: unknown): void {
  if (codeOf(error) !== 'ENOENT') throw error
}

/** What the copy that is there says of itself; undefined: there is none, or it is of no use. */
export async function endOfCopy(at: CopyPlace): Promise<CopyEnd | undefined> {
  try {
    for await (const part of readCopy(at)) if ('end' in part) return part.end
  } catch {
    // A start says what is wrong with it.
  }
  return undefined
}

/**
 * The parts of a copy. Fails with the system's error (`ENOENT`: there is none), with a CodedError `COPY_BROKEN` (no copy
 * of this store, cut or of another form) or with one of the sealer.
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
  // A copy of a large configuration takes seconds, in which it leaves room for traffic; what overtook it is written without a rest.
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
