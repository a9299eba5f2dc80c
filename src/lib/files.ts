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
import { basename, dirname, join, resolve } from 'node:path'
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

/** For the eyes of the owner alone. */
const PRIVATE = 0o600
const FOR_OTHERS = 0o077

/** A file as it is written: links of its path are followed, also to a place where nothing is yet. */
export interface WrittenFile {
  readonly path: string
  /** `other`: a device, a pipe or a socket, which is written into and never replaced. */
  readonly kind: 'absent' | 'plain' | 'other'
  /** Of the plain file that is there. */
  readonly mode?: number
  readonly owner?: { readonly uid: number; readonly gid: number }
}

/** Links of one path that are followed, as Linux does (path_resolution(7)). */
const MOST_LINKS = 40

/** What stands where `path` leads. Throws the system's error: `EISDIR` for a folder, `ELOOP` for links that lead to each other. */
export function writtenFile(path: string): WrittenFile {
  let real = path
  for (let links = 0; links <= MOST_LINKS; links++) {
    const there = statSync(real, { throwIfNoEntry: false })
    if (there?.isDirectory() === true) throw failureAt('EISDIR', 'it is a folder', path)
    // What /dev/stdout leads to may have no name any more: it is opened by the one that was given.
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

/** Gives a file that takes the place of another one the owner of that one. Throws the system's error, `EPERM` where only root may. */
export function keepOwner(path: string, { owner }: WrittenFile): void {
  if (owner === undefined) return
  const { uid, gid } = statSync(path)
  if (uid !== owner.uid || gid !== owner.gid) chownSync(path, owner.uid, owner.gid)
}

/**
 * Opens a file for lines that are added to it, and makes it with `mode` when it is missing. A pipe without a reader does not block: it
 * takes lines until it is full. Throws the system's error.
 */
export function openToAppend(path: string, mode: number): number {
  const { O_APPEND, O_CREAT, O_WRONLY, O_RDWR, O_NONBLOCK, O_NOCTTY } = constants
  const isPipe = statSync(path, { throwIfNoEntry: false })?.isFIFO() === true
  return openSync(path, isPipe ? O_RDWR | O_NONBLOCK : O_APPEND | O_CREAT | O_WRONLY | O_NOCTTY, mode)
}

/**
 * Makes a file that only its owner may read, unless there is one: of two processes that make it, one wins. No reader sees
 * half of it, and it outlives a power failure. Fails with the system's error.
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

/** What a file is to hold; what comes piece by piece is written so. */
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

/** Only root gives files away. */
function canKeepOwner({ owner }: WrittenFile): boolean {
  const user = process.geteuid?.()
  return owner === undefined || user === undefined || user === 0 || user === owner.uid
}

async function fill(handle: FileHandle, content: FileContent): Promise<void> {
  if (typeof content === 'string' || content instanceof Uint8Array) await handle.writeFile(content)
  // From where the piece before has ended.
  else for await (const piece of content) await handle.writeFile(piece)
}

/** The content of a file that only its owner may read; undefined when there is none, `exposed` when others may read it too. */
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
 * Returns the path of a file that a page needs: `name` beside the file `library` that a package exports. The build puts it into a folder
 * `assets`, which is looked for beside the module, in the folders above it and in `dist`; otherwise the file is in the package.
 * `from`: the URL of the calling module. Throws where the file is in neither.
 */
export function shippedFile(from: string, library: string, name: string): string {
  const root = packageRoot()
  const folders = [join(root, 'dist')]
  for (let folder = dirname(fileURLToPath(from)); folder.length > root.length; folder = dirname(folder))
    folders.push(folder)
  const built = folders.map((folder) => join(folder, 'assets', library, name)).findLast((path) => existsSync(path))
  return built ?? join(dirname(createRequire(from).resolve(library)), name)
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
