import { constants } from 'node:fs'
import { type FileHandle, lstat, open } from 'node:fs/promises'
import { Mutex } from '../../../lib/concurrency.js'
import { CodedError, codeOf, defineErrors } from '../../../lib/errors.js'
import type { EventFolders } from './folders.js'
import { joined, LINES } from './payload.js'
import type { Batch, Sender, SendFailure, StandardOutput } from './sender.js'

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

/** Flags that create a missing file, never block on the reader of a pipe, and never follow links. */
const FLAGS =
  constants.O_APPEND |
  constants.O_CREAT |
  constants.O_RDWR |
  constants.O_NONBLOCK |
  constants.O_NOCTTY |
  constants.O_NOFOLLOW
const MISPLACED = eventFileErrors.FILE_MISPLACED

/**
 * Appends a line for each event. The file is reopened if its path refers to another one, so that it can be rotated by renaming; each time it must
 * be in the folders for such files. A line that a full disk or a crash has truncated is terminated first, so that only that line is broken.
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
        // The first event meets the same error and reports it.
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
    // A replaced folder is detected here, before any write.
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
      // Write errors were reported by the write; the descriptor is closed in either case.
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
