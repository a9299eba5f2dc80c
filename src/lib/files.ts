import { randomBytes } from 'node:crypto'
import {
  chownSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync
} from 'node:fs'
import { type FileHandle, link, open, readFile, rename, rm, stat, unlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type ResourceLimits, Worker } from 'node:worker_threads'
import { CodedError, codeOf, defineErrors } from './errors.js'

/** Error for a file named by an option or a command. */
export const fileErrors = defineErrors({
  FILE_UNREADABLE: {
    text: 'A file that an option or a command names cannot be read.',
    help: 'Correct the path, or let the user of the process read the file.'
  }
})

/**
 * Creates a folder for this user only, with its parents; existing ones are unchanged. Throws the system's error. Node's option `recursive`
 * never returns if folders cannot be created, such as in /proc.
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

/** File mode for the owner only. */
const PRIVATE = 0o600
/** Mode bits of group and others. */
const FOR_OTHERS = 0o077

/** Destination of a write, with links resolved; it need not exist. */
export interface WrittenFile {
  readonly path: string
  /** `other`: a device, a pipe or a socket, which is written to and never replaced. */
  readonly kind: 'absent' | 'plain' | 'other'
  /** Mode of the existing regular file. */
  readonly mode?: number
  readonly owner?: { readonly uid: number; readonly gid: number }
}

/** Maximum number of links followed, as in Linux (path_resolution(7)). */
const MOST_LINKS = 40

/** Resolves the file that `path` leads to. Throws the system's error: `EISDIR` for a folder, `ELOOP` for circular links. */
export function writtenFile(path: string): WrittenFile {
  let real = path
  for (let links = 0; links <= MOST_LINKS; links++) {
    const there = statSync(real, { throwIfNoEntry: false })
    if (there?.isDirectory() === true) throw failureAt('EISDIR', 'it is a folder', path)
    // The file behind /dev/stdout may be deleted: it is opened by the given name.
    if (there !== undefined && !there.isFile()) return { path: real, kind: 'other' }
    if (lstatSync(real, { throwIfNoEntry: false })?.isSymbolicLink() !== true) {
      if (there === undefined) return { path: real, kind: 'absent' }
      return { path: real, kind: 'plain', mode: there.mode & 0o7777, owner: { uid: there.uid, gid: there.gid } }
    }
    real = resolve(realpathSync(dirname(real)), readlinkSync(real))
  }
  throw failureAt('ELOOP', 'its links lead to each other', path)
}

function failureAt(code: string, message: string, path: string): Error {
  return Object.assign(new Error(`${path}: ${message}`), { code, path })
}

/** Gives a replacement file the owner of the replaced one. Throws the system's error, `EPERM` without root. */
export function keepOwner(path: string, { owner }: WrittenFile): void {
  if (owner === undefined) return
  const { uid, gid } = statSync(path)
  if (uid !== owner.uid || gid !== owner.gid) chownSync(path, owner.uid, owner.gid)
}

/**
 * Opens a file for appending, and creates it with `mode` if missing. A pipe without a reader does not block: it accepts lines until it is
 * full. Throws the system's error.
 */
export function openToAppend(path: string, mode: number): number {
  const { O_APPEND, O_CREAT, O_WRONLY, O_RDWR, O_NONBLOCK, O_NOCTTY } = constants
  const isPipe = statSync(path, { throwIfNoEntry: false })?.isFIFO() === true
  return openSync(path, isPipe ? O_RDWR | O_NONBLOCK : O_APPEND | O_CREAT | O_WRONLY | O_NOCTTY, mode)
}

/**
 * Creates a file readable by its owner only, unless it exists: of two concurrent processes, one wins. Readers never see a partial file, and
 * it survives a power failure. Rejects with the system's error.
 */
export async function createFile(path: string, content: string | Uint8Array): Promise<void> {
  const place = writtenFile(path).path
  await beside(place, content, PRIVATE, async (written) => {
    try {
      await link(written, place)
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error
    }
    await unlink(written)
  })
}

/** New content of a file; an iterable is written piece by piece. */
export type FileContent = string | Uint8Array | AsyncIterable<Uint8Array>

/**
 * Puts a file in the place of the plain one that is there, as a whole: a reader, or a crash, finds the old or the new. Links are
 * followed, and the owner stays. What is no plain file, such as a pipe, and the file of another user gets the content instead. `mode`: of
 * the file from now on; `keep`: that of the one that is there, or for its owner alone. `before`: called with the path of the plain file when
 * the new one is whole. Fails with the system's error, or as the content does.
 */
export async function replaceFile(
  path: string,
  content: FileContent,
  mode: number | 'keep' = PRIVATE,
  before: (path: string) => Promise<void> = () => Promise.resolve()
): Promise<void> {
  const there = writtenFile(path)
  if (there.kind === 'other' || !canKeepOwner(there)) {
    const handle = await open(there.path, constants.O_WRONLY | constants.O_NOCTTY | constants.O_TRUNC)
    await fill(handle, content).finally(() => handle.close())
    return
  }
  await beside(there.path, content, mode === 'keep' ? (there.mode ?? PRIVATE) : mode, async (written) => {
    keepOwner(written, there)
    await before(there.path)
    await rename(written, there.path)
  })
}

/** Only root can change the owner of files. */
function canKeepOwner({ owner }: WrittenFile): boolean {
  const user = process.geteuid?.()
  return owner === undefined || user === undefined || user === 0 || user === owner.uid
}

async function fill(handle: FileHandle, content: FileContent): Promise<void> {
  if (typeof content === 'string' || content instanceof Uint8Array) await handle.writeFile(content)
  // Continues at the end of the previous piece.
  else for await (const piece of content) await handle.writeFile(piece)
}

/** Reads a file that only its owner may read; undefined if missing, `exposed` if others may read it, too. */
export async function readPrivateFile(path: string): Promise<Buffer | 'exposed' | undefined> {
  try {
    const there = await stat(path)
    if (there.isDirectory()) throw failureAt('EISDIR', 'it is a folder', path)
    return (there.mode & FOR_OTHERS) === 0 ? await readFile(path) : 'exposed'
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** A file name survives a power failure only if its folder is synced, too. */
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
    // The process's umask reduces the mode of `open`.
    await handle.chmod(mode)
    await fill(handle, content)
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

/** Age of a lock left behind by a stopped process; locks are held for a few milliseconds only (ms). */
const OLDEST_LOCK = 10_000
/** Pause between attempts to lock (ms). */
const LOCK_PAUSE = 5

/**
 * Runs `work` exclusively for a file, across callers and processes, so that a read-modify-write is safe. The lock is the file
 * `<path>.lock`. Rejects with the system's error, or as `work` does.
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

/** Returns false if the lock exists. */
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
  // Another process has removed the old lock, too, and this one is its own.
  if ((await madeAt(moved)) !== made) await link(moved, lock).catch(() => undefined)
  await rm(moved, { force: true })
}

/** Returns undefined if the lock does not exist. */
async function madeAt(lock: string): Promise<number | undefined> {
  try {
    return (await stat(lock)).mtimeMs
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Names in use by this process. */
const ours = new Set<string>()

/**
 * Returns a new name beside `path` for a partial file to be renamed to it. Removes such files of stopped processes. Throws the system's
 * error if the folder cannot be read.
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

/** Returns whether another process with this number is running. */
function runs(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 0 || pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}

/** Returns the absolute folder of the installed program: the nearest parent of this file with a package.json. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'package.json')) && folder !== dirname(folder)) folder = dirname(folder)
  return folder
}

/**
 * Returns the path of a page's file: `name` beside the file `library` that a package exports. The build puts it into a folder `assets`,
 * searched beside the module, in its parent folders and in `dist`; otherwise the file is in the package. `from`: URL of the calling module.
 * Throws if the file is not found.
 */
export function shippedFile(from: string, library: string, name: string): string {
  const root = packageRoot()
  const folders = [join(root, 'dist')]
  for (let folder = dirname(fileURLToPath(from)); folder.length > root.length; folder = dirname(folder))
    folders.push(folder)
  const built = folders.map((folder) => join(folder, 'assets', library, name)).findLast((path) => existsSync(path))
  return built ?? join(dirname(createRequire(from).resolve(library)), name)
}

/** Returns the version of the installed program. */
export function packageVersion(): string {
  const text = readFileSync(join(packageRoot(), 'package.json'), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

/** Starts the thread `name` beside the file `from` (its `import.meta.url`), in the same language: a loader may run the sources directly. */
export function threadBeside(
  from: string,
  name: string,
  workerData: unknown,
  resourceLimits: ResourceLimits = {}
): Worker {
  const extension = from.slice(from.lastIndexOf('.'))
  return new Worker(new URL(`./${name}${extension}`, from), { workerData, resourceLimits })
}

/** Reads a file named by an option. Rejects with `FILE_UNREADABLE`, which names both. */
export async function readOptionFile(path: string, option: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw new CodedError(fileErrors.FILE_UNREADABLE, `${option}: cannot read ${path}`, { cause: error })
  }
}

/** Paths below the working directory are shown relative to it. */
export function shownPath(path: string): string {
  const near = relative(process.cwd(), path)
  return near.startsWith('..') ? path : near
}
