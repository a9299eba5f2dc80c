import { createHash } from 'node:crypto'
import { type FSWatcher, watch } from 'node:fs'
import { readFile, readlink, stat } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join } from 'node:path'
import { codeOf } from './errors.js'

export interface ContentWatchOptions {
  /**
   * Quiet time after the last change before the file is read, so that a write in pieces is one change (ms).
   * @default 200
   */
  readonly settleMilliseconds?: number
  /**
   * Maximum time from the first change until the file is read, however often it is written (ms).
   * @default 500
   */
  readonly boundMilliseconds?: number
  /**
   * Poll interval for changes without a system event (network folders, a replaced folder) (ms).
   * @default 2000
   */
  readonly pollMilliseconds?: number
  /** Called once when a file that was there cannot be read any more, with the system's code (`ENOENT`, `EACCES`). */
  readonly lost?: (code: string) => void
  /** Called when the file keeps changing for ten readings in a row, once until it is quiet again. */
  readonly restless?: () => void
}

/** Number of consecutive forced readings. */
const RESTLESS = 10
/** Maximum number of links followed from a name to its file. */
const MOST_LINKS = 10

/**
 * Calls `changed` when the content of `file` is another than before; touching a file or writing the same text again is
 * no change, and neither is its absence, which `lost` reports.
 *
 * The folder is watched and not the file, because editors and deployments put a new file (or link) under the old name; of its events
 * those count that are about this name, or about one that its links lead through. A slow poll finds what the folder's events miss. One
 * call of `changed` ends before the next begins; an error of it is given to `failed`.
 */
export class ContentWatch {
  readonly #file: string
  readonly #settle: number
  readonly #bound: number
  readonly #changed: () => Promise<void>
  readonly #failed: (error: unknown) => void
  readonly #lost: (code: string) => void
  readonly #restless: () => void
  readonly #poll: NodeJS.Timeout
  #watcher: FSWatcher | undefined
  #folderId = ''
  #fileId = ''
  #hash: string | undefined
  /** Names in the folder that lead to the file. */
  #names: ReadonlySet<string>
  /** Set if the file could not be read at the last check. */
  #absent = false
  #timer: NodeJS.Timeout | undefined
  /** Time of the first pending change (ms of the process clock). */
  #since: number | undefined
  #forced = 0
  #busy: Promise<void> = Promise.resolve()
  #closed = false

  private constructor(
    file: string,
    changed: () => Promise<void>,
    failed: (error: unknown) => void,
    options: ContentWatchOptions
  ) {
    this.#file = file
    this.#names = new Set([basename(file)])
    this.#changed = changed
    this.#failed = failed
    this.#lost = options.lost ?? (() => undefined)
    this.#restless = options.restless ?? (() => undefined)
    this.#settle = options.settleMilliseconds ?? 200
    this.#bound = options.boundMilliseconds ?? 500
    this.#poll = setInterval(() => this.#look(), options.pollMilliseconds ?? 2_000)
    this.#poll.unref()
  }

  /** Starts with the current content. Resolves when the watch is active. */
  static async start(
    file: string,
    changed: () => Promise<void>,
    failed: (error: unknown) => void,
    options: ContentWatchOptions = {}
  ): Promise<ContentWatch> {
    const content = new ContentWatch(file, changed, failed, options)
    await content.#arm()
    content.#fileId = await identity(file)
    content.#names = await namesLeadingTo(file)
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

  /** Watches the folder that the path currently leads to, which changes when a link is swapped. */
  async #arm(): Promise<void> {
    const folder = dirname(this.#file)
    const id = await identity(folder, false)
    if (id === this.#folderId || this.#closed) return
    this.#watcher?.close()
    this.#watcher = undefined
    this.#folderId = ''
    try {
      this.#watcher = watch(folder, { persistent: false }, (_, name) => {
        if (name === null || this.#names.has(name)) this.#notice()
      })
      // The poll restarts the watch when the folder exists again.
      this.#watcher.on('error', () => {
        this.#folderId = ''
      })
      this.#folderId = id
    } catch {
      // The folder is missing, or the watch limit is reached: only the poll remains.
      this.#folderId = ''
    }
  }

  #look(): void {
    this.#enqueue(async () => {
      await this.#arm()
      const id = await identity(this.#file)
      if (id !== this.#fileId) this.#notice()
      else if (this.#timer === undefined) this.#forced = 0
    })
  }

  #notice(): void {
    if (this.#closed) return
    const now = performance.now()
    this.#since ??= now
    const left = this.#since + this.#bound - now
    const forced = left < this.#settle
    clearTimeout(this.#timer)
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined
        this.#since = undefined
        this.#forced = forced ? this.#forced + 1 : 0
        if (this.#forced === RESTLESS) this.#restless()
        this.#enqueue(() => this.#compare())
      },
      Math.max(0, Math.min(this.#settle, left))
    )
    this.#timer.unref()
  }

  async #compare(): Promise<void> {
    this.#fileId = await identity(this.#file)
    this.#names = await namesLeadingTo(this.#file)
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

/** Returns the file's name and the names in its folder that its links lead through, such as `..data` of a mounted ConfigMap. */
async function namesLeadingTo(file: string): Promise<ReadonlySet<string>> {
  const folder = dirname(file)
  const names = new Set<string>()
  const follow = async (path: string): Promise<void> => {
    const inside = isAbsolute(path) ? path : join(folder, path)
    if (!inside.startsWith(join(folder, '/'))) return
    const [name = ''] = inside.slice(join(folder, '/').length).split('/')
    if (name === '' || names.has(name) || names.size === MOST_LINKS) return
    names.add(name)
    const target = await readlink(join(folder, name)).catch(() => undefined)
    if (target !== undefined) await follow(target)
  }
  await follow(basename(file))
  return names
}

/** Returns an id of the file behind the path, with `content` also of its size and times; empty if it does not exist. */
async function identity(path: string, content = true): Promise<string> {
  try {
    const { dev, ino, size, mtimeMs, ctimeMs } = await stat(path)
    return content ? `${dev}:${ino}:${size}:${mtimeMs}:${ctimeMs}` : `${dev}:${ino}`
  } catch {
    // Unreadable counts as empty, and as a change once it is readable again.
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
