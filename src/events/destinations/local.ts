import { constants, realpathSync } from 'node:fs'
import { type FileHandle, lstat, mkdir, open } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { Mutex } from '../../lib/concurrency.js'
import { CodedError, codeOf, defineErrors } from '../../lib/errors.js'
import { joined, LINES } from './payload.js'
import type { Batch, Sender, SendFailure } from './sender.js'

/** Why events are not written to a file. */
export const eventFileErrors = defineErrors({
  FILE_MISPLACED: {
    text: 'The file lies outside of the folders for events, or is a link.',
    help: 'Choose a path inside of events.folders.'
  }
})

const MODE = 0o600
const LINE_FEED = 10
const AFTER_A_CUT = { ...LINES, before: '\n' }
/** A file, made when it is missing; never one that a reader of a pipe holds up, never what a link leads to. */
const FLAGS =
  constants.O_APPEND |
  constants.O_CREAT |
  constants.O_RDWR |
  constants.O_NONBLOCK |
  constants.O_NOCTTY |
  constants.O_NOFOLLOW
const MISPLACED = eventFileErrors.FILE_MISPLACED

/**
 * Appends a line for each event. The file is opened anew when its path leads to another one, so that it can be rotated by
 * renaming; each time it must lie in the folders for such files. A line that a full disk or a crash has cut off is ended first, so that only that one is broken.
 */
export class File implements Sender {
  readonly most = 100
  readonly #path: string
  readonly #folders: EventFolders
  readonly #mutex = new Mutex()
  #file: { readonly handle: FileHandle; readonly dev: bigint; readonly ino: bigint } | undefined
  #cut = false

  constructor(path: string, folders: EventFolders) {
    this.#path = path
    this.#folders = folders
  }

  async send({ events }: Batch): Promise<SendFailure | undefined> {
    return await this.#mutex.run(async () => {
      try {
        const handle = await this.#open()
        await this.#write(handle, joined(events, this.#cut ? AFTER_A_CUT : LINES))
        return undefined
      } catch (error) {
        await this.#let()
        return { message: `the file cannot be written: ${reasonOf(error)}` }
      }
    })
  }

  /** A line that was cut off is ended now and not by the next event, so that readers of lines see all of them. */
  async begin(): Promise<void> {
    await this.#mutex.run(async () => {
      try {
        if ((await lstat(this.#path).catch(() => undefined)) === undefined) return
        const handle = await this.#open()
        if (this.#cut) await this.#write(handle, Buffer.of(LINE_FEED))
      } catch {
        // Told by the first event, which meets the same.
        await this.#let()
      }
    })
  }

  async close(): Promise<void> {
    await this.#mutex.run(() => this.#let())
  }

  async #open(): Promise<FileHandle> {
    const at = await lstat(this.#path, { bigint: true }).catch((error: unknown) => {
      if (codeOf(error) === 'ENOENT') return undefined
      throw error
    })
    const known = this.#file
    if (known !== undefined && at?.dev === known.dev && at.ino === known.ino) return known.handle
    await this.#let()
    this.#mustLieInside()
    await this.#folders.make(this.#path)
    const handle = await open(this.#path, FLAGS, MODE)
    const opened = await handle.stat({ bigint: true })
    const { dev, ino, size, nlink } = opened
    this.#file = { handle, dev, ino }
    if (!opened.isFile()) throw new CodedError(MISPLACED, 'it is no regular file')
    if (nlink > 1n) throw new CodedError(MISPLACED, 'the file has a second name (a hard link)')
    // Whatever was put in the place of a folder since it was looked at is seen now, before anything is written.
    this.#mustLieInside()
    this.#cut = size > 0n && (await lastByte(handle, Number(size))) !== LINE_FEED
    return handle
  }

  #mustLieInside(): void {
    const refusal = this.#folders.refusal(this.#path)
    if (refusal !== undefined) throw new CodedError(MISPLACED, `the path ${refusal}`)
  }

  async #write(handle: FileHandle, bytes: Buffer): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      done += (await handle.write(bytes, done)).bytesWritten
    }
    this.#cut = false
  }

  async #let(): Promise<void> {
    const { handle } = this.#file ?? {}
    this.#file = undefined
    try {
      await handle?.close()
    } catch {
      // What could not be written was reported by the write itself; the descriptor is gone either way.
    }
  }
}

function reasonOf(error: unknown): string {
  const code = codeOf(error)
  if (code === MISPLACED.code) return (error as CodedError).message
  return code === 'ELOOP' ? 'it is a symbolic link, and links are not followed' : (code ?? 'it failed')
}

async function lastByte(handle: FileHandle, size: number): Promise<number | undefined> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(1), 0, 1, size - 1)
  return bytesRead === 1 ? buffer[0] : undefined
}

/** The standard output of the process, shared with the log. */
export interface StandardOutput {
  /** `text`: whole lines. `settled` is called once, with an error when they were not written. */
  write(text: string, settled: (error?: Error | null) => void): unknown
}

/** A line for each event on the standard output of the process. */
export class Stdout implements Sender {
  readonly most = 100
  readonly #stream: StandardOutput

  constructor(stream: StandardOutput) {
    this.#stream = stream
  }

  async send({ events }: Batch): Promise<SendFailure | undefined> {
    return await new Promise((resolve) => {
      this.#stream.write(`${events.join('\n')}\n`, (error) => {
        resolve(error ? { message: 'the standard output takes nothing' } : undefined)
      })
    })
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}

interface EventFoldersParts {
  /** Absolute folders below which files of events may lie. */
  readonly folders: readonly string[]
  /** Files and folders of the product itself: nothing at or below them is written, whatever folder holds them. */
  readonly own: readonly string[]
  /** A folder below `own` that is there for files of events. */
  readonly spared?: string | undefined
}

/** Where the operator lets event destinations write files. */
export class EventFolders {
  readonly #parts: EventFoldersParts

  constructor(parts: EventFoldersParts) {
    this.#parts = parts
  }

  /** No file may be written anywhere. */
  static readonly none = new EventFolders({ folders: [], own: [] })

  /** Why no events go to a file of this name, by the name alone; undefined when they may. */
  outside(path: string): string | undefined {
    const { folders } = this.#parts
    if (!folders.some((folder) => liesBelow(folder, path))) {
      const named = folders.length === 0 ? 'there are none' : `they are ${folders.join(', ')}`
      return `is in no folder for files of events: ${named}; the option events.folders names them`
    }
    return this.#isOwn(path, (one) => one) ? 'is a file of the service itself' : undefined
  }

  /** As `outside`, and by where the name leads now: through symbolic links it must not leave the folders. */
  refusal(path: string): string | undefined {
    const outside = this.outside(path)
    if (outside !== undefined) return outside
    const real = realPath(path)
    if (!this.#parts.folders.some((folder) => liesBelow(realPath(folder), real))) {
      return 'leads out of the folders for files of events through a symbolic link'
    }
    return this.#isOwn(real, realPath) ? 'leads to a file of the service itself' : undefined
  }

  /** Makes the named folder that holds `path` when it is missing. Rejects as `mkdir` does. */
  async make(path: string): Promise<void> {
    const folder = this.#parts.folders.find((one) => liesBelow(one, path))
    if (folder !== undefined) await mkdir(folder, { recursive: true, mode: 0o700 })
  }

  #isOwn(path: string, form: (path: string) => string): boolean {
    const { own, spared } = this.#parts
    if (spared !== undefined && liesBelow(form(spared), path)) return false
    return own.map(form).some((one) => one === path || liesBelow(one, path))
  }
}

function liesBelow(folder: string, path: string): boolean {
  const way = relative(folder, resolve(path))
  return way !== '' && way !== '..' && !way.startsWith('../') && !isAbsolute(way)
}

/** Where a path leads; what is missing at its end stays as it is named. */
function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch (error) {
    const above = dirname(path)
    // A link into nothing is not there either; opening it follows no links.
    return codeOf(error) === 'ENOENT' && above !== path ? join(realPath(above), basename(path)) : resolve(path)
  }
}
