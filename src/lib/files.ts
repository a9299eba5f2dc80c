import { createHash, randomBytes } from 'node:crypto'
import { existsSync, type FSWatcher, mkdirSync, readdirSync, readFileSync, rmSync, statSync, watch } from 'node:fs'
import { link, open, readFile, rename, rm, stat, unlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type ResourceLimits, Worker } from 'node:worker_threads'
import { CodedError, codeOf, defineErrors } from './errors.js'

/** The error of a file that an option or a command names. */
export const fileErrors = defineErrors({
  FILE_UNREADABLE: {
    text: 'A file that an option or a command names cannot be read.',
    help: 'Correct the path, or let the user of the process read the file.'
  }
})

/**
 * Makes a folder for this user alone, with those above it; one that is there stays as it is. Throws the system's error. Node's own
 * option `recursive` never returns where folders cannot be made, such as in /proc.
 */
export function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    const code = codeOf(error)
    if (code === 'EEXIST' && statSync(path).isDirectory()) return
    const parent = dirname(path)
    if (code !== 'ENOENT' || existsSync(parent)) throw error
    makeFolder(parent)
    makeFolder(path)
  }
}

export interface ContentWatchOptions {
  /** Quiet time after the last sign of a change before the file is read, so that a write in pieces is one change. Default 200. */
  readonly settleMilliseconds?: number
  /** How often the file is looked at when the system says nothing (network folders, a folder that was replaced). Default 2000. */
  readonly pollMilliseconds?: number
  /** Called once when a file that was there cannot be read any more, with the system's code (`ENOENT`, `EACCES`). */
  readonly lost?: (code: string) => void
}

/**
 * Calls `changed` when the content of `file` is another than before; touching a file or writing the same text again is
 * no change, and neither is its absence, which `lost` reports.
 *
 * The folder is watched and not the file, because editors and deployments put a new file (or link) under the old name;
 * a slow poll finds what the folder's events miss. One call of `changed` ends before the next begins; an error of it is
 * given to `failed`.
 */
export class ContentWatch {
  readonly #file: string
  readonly #settle: number
  readonly #changed: () => Promise<void>
  readonly #failed: (error: unknown) => void
  readonly #lost: (code: string) => void
  readonly #poll: NodeJS.Timeout
  #watcher: FSWatcher | undefined
  #folderId = ''
  #fileId = ''
  #hash: string | undefined
  /** It could not be read when it was last looked at. */
  #absent = false
  #timer: NodeJS.Timeout | undefined
  #busy: Promise<void> = Promise.resolve()
  #closed = false

  private constructor(
    file: string,
    changed: () => Promise<void>,
    failed: (error: unknown) => void,
    options: ContentWatchOptions
  ) {
    this.#file = file
    this.#changed = changed
    this.#failed = failed
    this.#lost = options.lost ?? (() => undefined)
    this.#settle = options.settleMilliseconds ?? 200
    this.#poll = setInterval(() => this.#look(), options.pollMilliseconds ?? 2_000)
    this.#poll.unref()
  }

  /** Begins with the content that the file has now. Resolves when the watch is in place. */
  static async start(
    file: string,
    changed: () => Promise<void>,
    failed: (error: unknown) => void,
    options: ContentWatchOptions = {}
  ): Promise<ContentWatch> {
    const content = new ContentWatch(file, changed, failed, options)
    await content.#arm()
    content.#fileId = await identity(file)
    const found = await hashOf(file)
    content.#absent = 'code' in found
    if ('hash' in found) content.#hash = found.hash
    return content
  }

  /** No call of `changed` begins after this resolves. */
  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#poll)
    clearTimeout(this.#timer)
    this.#watcher?.close()
    await this.#busy
  }

  /** Watches the folder that the path leads to now; another one than before when a link was swapped. */
  async #arm(): Promise<void> {
    const folder = dirname(this.#file)
    const id = await identity(folder, false)
    if (id === this.#folderId || this.#closed) return
    this.#watcher?.close()
    this.#watcher = undefined
    this.#folderId = ''
    try {
      this.#watcher = watch(folder, { persistent: false }, () => this.#notice())
      // The poll arms again when the folder is there again.
      this.#watcher.on('error', () => {
        this.#folderId = ''
      })
      this.#folderId = id
    } catch {
      // No such folder now, or no more watches to be had: the poll alone does it then.
      this.#folderId = ''
    }
  }

  #look(): void {
    this.#enqueue(async () => {
      await this.#arm()
      const id = await identity(this.#file)
      if (id !== this.#fileId) this.#notice()
    })
  }

  #notice(): void {
    if (this.#closed) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#enqueue(() => this.#compare()), this.#settle)
    this.#timer.unref()
  }

  async #compare(): Promise<void> {
    this.#fileId = await identity(this.#file)
    const found = await hashOf(this.#file)
    if (this.#closed) return
    const before = this.#absent
    this.#absent = 'code' in found
    if ('code' in found) {
      if (!before) this.#lost(found.code)
      return
    }
    if (found.hash === this.#hash) return
    this.#hash = found.hash
    await this.#changed()
  }

  #enqueue(work: () => Promise<void>): void {
    this.#busy = this.#busy.then(work).catch(this.#failed)
  }
}

/** Changes with the file behind the path and, when `content` is set, with its size and times; empty when there is none. */
async function identity(path: string, content = true): Promise<string> {
  try {
    const { dev, ino, size, mtimeMs, ctimeMs } = await stat(path)
    return content ? `${dev}:${ino}:${size}:${mtimeMs}:${ctimeMs}` : `${dev}:${ino}`
  } catch {
    // Absent or unreadable: the same as empty, and a change as soon as it can be read again.
    return ''
  }
}

async function hashOf(path: string): Promise<{ readonly hash: string } | { readonly code: string }> {
  try {
    return {
      hash: createHash('sha256')
        .update(await readFile(path))
        .digest('hex')
    }
  } catch (error) {
    return { code: codeOf(error) ?? 'unknown' }
  }
}

/** For the eyes of the owner alone. */
const PRIVATE = 0o600
const FOR_OTHERS = 0o077

/**
 * Makes a file that only its owner may read, unless there is one: of two processes that make it, one wins. No reader sees
 * half of it, and it outlives a power failure. Fails with the system's error.
 */
export async function createFile(path: string, content: string | Uint8Array): Promise<void> {
  await beside(path, content, PRIVATE, async (written) => {
    try {
      await link(written, path)
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error
    }
    await unlink(written)
  })
}

/** What a file is to hold; what comes piece by piece is written so. */
export type FileContent = string | Uint8Array | AsyncIterable<Uint8Array>

/**
 * Puts a file in the place of what is there, as a whole: a reader, or a crash, finds the old or the new. Fails with the
 * system's error, or as the content does.
 */
export async function replaceFile(path: string, content: FileContent, mode = PRIVATE): Promise<void> {
  await beside(path, content, mode, (written) => rename(written, path))
}

/** The content of a file that only its owner may read; undefined when there is none, `exposed` when others may read it too. */
export async function readPrivateFile(path: string): Promise<Buffer | 'exposed' | undefined> {
  try {
    const { mode } = await stat(path)
    return (mode & FOR_OTHERS) === 0 ? await readFile(path) : 'exposed'
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** A name in a folder outlives a power failure only when the folder is on the disk too. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function beside(
  path: string,
  content: FileContent,
  mode: number,
  move: (written: string) => Promise<void>
): Promise<void> {
  const written = `${path}.${randomBytes(6).toString('hex')}`
  const handle = await open(written, 'wx', mode)
  try {
    // The mode of `open` is what the process's mask leaves of it.
    await handle.chmod(mode)
    if (typeof content === 'string' || content instanceof Uint8Array) await handle.writeFile(content)
    // From where the piece before has ended.
    else for await (const piece of content) await handle.writeFile(piece)
    await handle.sync()
    await handle.close()
    await move(written)
  } catch (error) {
    await handle.close()
    await unlink(written)
    throw error
  }
  await syncFolder(dirname(path))
}

/** A lock is held for a few milliseconds: one that is as old was left by a process that died. Milliseconds. */
const OLDEST_LOCK = 10_000
const LOCK_PAUSE = 5

/**
 * Does `work` while no other caller, here or in another process, works on the same file under its lock: what is read there is
 * still so when it is written. The lock is a file beside it, `<path>.lock`. Fails with the system's error, or as `work` does.
 */
export async function withFileLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  const lock = `${path}.lock`
  while (!(await locked(lock))) {
    await removeOld(lock)
    await sleep(LOCK_PAUSE)
  }
  try {
    return await work()
  } finally {
    await rm(lock, { force: true })
  }
}

/** False: there is one. */
async function locked(lock: string): Promise<boolean> {
  try {
    await (await open(lock, 'wx', PRIVATE)).close()
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
}

async function removeOld(lock: string): Promise<void> {
  const made = await madeAt(lock)
  if (made === undefined || Date.now() - made < OLDEST_LOCK) return
  const moved = `${lock}.${randomBytes(6).toString('hex')}`
  try {
    await rename(lock, moved)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return
    throw error
  }
  // Another process has removed the old one too, and this is its own.
  if ((await madeAt(moved)) !== made) await link(moved, lock).catch(() => undefined)
  await rm(moved, { force: true })
}

/** Undefined when there is none. */
async function madeAt(lock: string): Promise<number | undefined> {
  try {
    return (await stat(lock)).mtimeMs
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Names that this process has given. */
const ours = new Set<string>()

/**
 * A new name beside `path` for a file that is to take that name once it is whole. Removes what processes that died have left
 * under such names. Fails with the system's error when the folder cannot be read.
 */
export function partialFor(path: string): string {
  const folder = dirname(path)
  const start = `${basename(path)}.partial-`
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(start)) continue
    const left = join(folder, name)
    if (!ours.has(left) && !runs(Number(name.slice(start.length).split('-', 1)[0]))) rmSync(left, { force: true })
  }
  const name = join(folder, `${start}${process.pid}-${randomBytes(6).toString('hex')}`)
  ours.add(name)
  return name
}

/** A process of this number that is another one than this. */
function runs(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 0 || pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}

/** The folder of the installed program: the nearest one above this file that holds a package.json. Absolute. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'package.json')) && folder !== dirname(folder)) folder = dirname(folder)
  return folder
}

/**
 * The path of a file that a page needs: `name` beside the file `library` that a package exports. The build puts it below `assets`,
 * beside the bundle; from sources it is in the package. `from`: the URL of the module that asks. Throws where it is in neither.
 */
export function shippedFile(from: string, library: string, name: string): string {
  const bundled = join(dirname(fileURLToPath(from)), 'assets', library, name)
  return existsSync(bundled) ? bundled : join(dirname(createRequire(from).resolve(library)), name)
}

/** The version of the installed program. */
export function packageVersion(): string {
  const text = readFileSync(join(packageRoot(), 'package.json'), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

/** Starts the thread `name` that lies beside the file `from` (its `import.meta.url`), in the same language: a loader may run the sources as they are. */
export function threadBeside(
  from: string,
  name: string,
  workerData: unknown,
  resourceLimits: ResourceLimits = {}
): Worker {
  const extension = from.slice(from.lastIndexOf('.'))
  return new Worker(new URL(`./${name}${extension}`, from), { workerData, resourceLimits })
}

/** The text of a file that an option names. Fails with `FILE_UNREADABLE`, which names both. */
export async function readOptionFile(path: string, option: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw new CodedError(fileErrors.FILE_UNREADABLE, `${option}: cannot read ${path}`, { cause: error })
  }
}
