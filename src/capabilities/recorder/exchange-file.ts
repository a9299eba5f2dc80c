import { closeSync, fstatSync, renameSync } from 'node:fs'
import { CodedError, codeOf, defineErrors } from '../../lib/errors.js'
import { openToAppend, writtenFile } from '../../lib/files.js'
import { LineOutput } from '../../lib/line-output.js'
import { printableJson } from '../../lib/printable.js'

/** Why exchanges are not written to a file. */
export const exchangeFileErrors = defineErrors({
  RECORDER_FILE: {
    text: 'The file for recorded exchanges cannot be opened.',
    help: 'Correct recorder.file: the folder must exist, and the file must be one that the process may write.'
  }
})

const MODE = 0o600
/** Bytes that may wait for the disk. */
const WAITING = 4 * 1024 * 1024
/** Maximum time for writing the last lines (ms). */
const LAST_LINES = 1_000

/**
 * Writes each exchange as one line of JSON. A full file is renamed to `<path>.1`, and a new one begins; links are followed.
 * A special file, such as a pipe, receives all lines.
 */
export class ExchangeFile {
  readonly path: string
  /** Bytes of one file. */
  readonly most: number
  readonly #lost: (reason: string) => void
  #fd: number
  #output: LineOutput
  #bytes: number

  /** `lost`: called when lines were lost. Throws a CodedError `RECORDER_FILE`. */
  constructor(path: string, most: number, lost: (reason: string) => void) {
    this.path = path
    this.most = most
    this.#lost = lost
    this.#fd = opened(path)
    this.#bytes = sizeOf(this.#fd)
    this.#output = this.#outputTo(this.#fd)
  }

  /** Writes an exchange as it may be shown. */
  write(shown: object): void {
    const line = `${printableJson(JSON.stringify(shown))}\n`
    const bytes = Buffer.byteLength(line)
    if (this.#bytes > 0 && this.#bytes + bytes > this.most) this.#rotate()
    this.#bytes += bytes
    this.#output.write(line)
  }

  /** Writes the queued lines, for at most a second. */
  async close(): Promise<void> {
    const fd = this.#fd
    await this.#output.close(LAST_LINES)
    closeSync(fd)
  }

  #rotate(): void {
    try {
      const { path, kind } = writtenFile(this.path)
      if (kind === 'plain') renameSync(path, `${path}.1`)
      const fd = opened(path)
      void this.close()
      this.#fd = fd
      this.#output = this.#outputTo(fd)
      this.#bytes = sizeOf(fd)
    } catch (error) {
      // Keep the old file; the next line tries again.
      this.#lost(codeOf(error) ?? 'it failed')
    }
  }

  #outputTo(fd: number): LineOutput {
    return new LineOutput({ fd, bytes: WAITING, recovered: ({ reason }) => this.#lost(reason) })
  }
}

/** Throws a CodedError `RECORDER_FILE` when the file cannot be opened. */
export function mustBeWritable(path: string): void {
  closeSync(opened(path))
}

function opened(path: string): number {
  try {
    return openToAppend(path, MODE)
  } catch (error) {
    const message = `recorder.file: ${path} cannot be opened (${codeOf(error) ?? 'it failed'})`
    throw new CodedError(exchangeFileErrors.RECORDER_FILE, message, { cause: error })
  }
}

/** Returns the bytes of an open file. A special file never becomes full. */
function sizeOf(fd: number): number {
  const found = fstatSync(fd)
  return found.isFile() ? found.size : Number.NEGATIVE_INFINITY
}
