import { type BigIntStats, constants, close as fsClose, open as fsOpen, read as fsRead, fstat, promises } from 'node:fs'
import { promisify } from 'node:util'
import type { DescriptorShares } from '../../lib/descriptor-shares.js'
import { codeOf } from '../../lib/errors.js'
import { DialError } from '../../transport/contract.js'
import { type FileFacts, factsOf, hasSameContent } from './folder.js'

const open = promisify(fsOpen)
/** Flags for opening: do not block on a pipe without a writer, and do not follow a link in the last name. */
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW | constants.O_NOCTTY
/** Maximum bytes held by all readers of a thread. */
const HELD = 16 * 1024 * 1024
/** Minimum and maximum size of a read (bytes). */
const SLAB = { least: 16 * 1024, most: 128 * 1024 }
/** Error codes for missing descriptors. */
const NO_DESCRIPTOR: ReadonlySet<string | undefined> = new Set(['EMFILE', 'ENFILE'])

/** Open file with a reference count. */
export interface OpenFile {
  readonly facts: FileFacts
  /** Calls back with the number of bytes read, fewer only at the end of the file. */
  read(into: Buffer, from: number, done: (error: Error | null, bytes: number) => void): void
  /** Calls back with true if the content is unchanged. */
  check(done: (same: boolean) => void): void
  /** Releases the file; called once for each `OpenFiles.take`, after the last `read` has called back. */
  release(): void
}

/**
 * Open files of responses. All readers of the same content share one descriptor, so thousands of downloads of a file use one; descriptors
 * count toward the limit of the process.
 */
export class OpenFiles {
  readonly #descriptors: DescriptorShares | undefined
  readonly #open = new Map<string, Shared>()
  /** Number of readers of all files. */
  #readers = 0

  constructor(descriptors: DescriptorShares | undefined) {
    this.#descriptors = descriptors
  }

  /** Number of open descriptors. */
  get size(): number {
    return this.#open.size
  }

  /** Size of one read (bytes): smaller with more readers. */
  get slab(): number {
    return Math.max(SLAB.least, Math.min(SLAB.most, Math.floor(HELD / Math.max(1, this.#readers))))
  }

  /**
   * Opens a file that was found; undefined if it was replaced or changed. Rejects with a `DialError` without a free descriptor, otherwise
   * with the system's error.
   */
  async take(facts: FileFacts): Promise<OpenFile | undefined> {
    const key = `${facts.device} ${facts.inode} ${facts.modified} ${facts.size} ${facts.place}`
    const known = this.#open.get(key)
    if (known !== undefined) return known.take()
    if (this.#descriptors?.admitsUpstream === false)
      throw new DialError('no-descriptor', 'no descriptor is left for a file')
    const descriptor = await openAs(facts)
    if (descriptor === undefined) return undefined
    const meanwhile = this.#open.get(key)
    if (meanwhile !== undefined) {
      fsClose(descriptor, ignore)
      return meanwhile.take()
    }
    this.#descriptors?.countUpstream(1)
    const file = new Shared(facts, descriptor, (change) => {
      this.#readers += change
      if (file.readers > 0) return
      this.#open.delete(key)
      this.#descriptors?.countUpstream(-1)
      fsClose(descriptor, ignore)
    })
    this.#open.set(key, file)
    return file.take()
  }
}

class Shared implements OpenFile {
  readonly facts: FileFacts
  readonly #descriptor: number
  readonly #counted: (change: 1 | -1) => void
  readers = 0

  constructor(facts: FileFacts, descriptor: number, counted: (change: 1 | -1) => void) {
    this.facts = facts
    this.#descriptor = descriptor
    this.#counted = counted
  }

  take(): this {
    this.readers++
    this.#counted(1)
    return this
  }

  read(into: Buffer, from: number, done: (error: Error | null, bytes: number) => void): void {
    fsRead(this.#descriptor, into, 0, into.length, from, done)
  }

  check(done: (same: boolean) => void): void {
    fstat(this.#descriptor, { bigint: true }, (error, now) => {
      done(error === null && hasSameContent(factsOf(now, this.facts.place), this.facts))
    })
  }

  release(): void {
    this.readers--
    this.#counted(-1)
  }
}

/** Returns a descriptor after verifying that it is the same file: a link may have been added to its path. */
async function openAs(facts: FileFacts): Promise<number | undefined> {
  let descriptor: number
  try {
    descriptor = await open(facts.place, FLAGS)
  } catch (error) {
    const code = codeOf(error)
    if (NO_DESCRIPTOR.has(code)) throw new DialError('no-descriptor', `a file cannot be opened: ${code}`)
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP' || code === 'ENXIO') return undefined
    throw error
  }
  try {
    const [now, place] = await Promise.all([stat(descriptor), placeOf(descriptor, facts.place)])
    if (now.isFile() && hasSameContent(factsOf(now, place), facts) && place === facts.place) return descriptor
  } catch (error) {
    fsClose(descriptor, ignore)
    throw error
  }
  fsClose(descriptor, ignore)
  return undefined
}

const stat = (descriptor: number): Promise<BigIntStats> =>
  new Promise((resolve, reject) =>
    fstat(descriptor, { bigint: true }, (error, stats) => (error === null ? resolve(stats) : reject(error)))
  )

/** Returns the path of an open file on Linux; `otherwise` on other systems. */
async function placeOf(descriptor: number, otherwise: string): Promise<string> {
  if (process.platform !== 'linux') return otherwise
  return await promises.readlink(`/proc/self/fd/${descriptor}`).catch(() => otherwise)
}

function ignore(): void {}
