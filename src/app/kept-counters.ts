import { rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import { type CheckpointReports, Checkpoints } from '../features/rate-limit/kept/checkpoints.js'
import { CountersFile } from '../features/rate-limit/kept/counters-file.js'
import { NotCounters, resumedTime } from '../features/rate-limit/kept/format.js'
import { KeptCounters } from '../features/rate-limit/kept/reading.js'
import type { LimiterTable } from '../features/rate-limit/limiter/table.js'
import { type Clock, clockThatReads } from '../lib/clock.js'
import { codeOf } from '../lib/errors.js'
import { writtenFile } from '../lib/files.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'

/** The folder of counters in the data folder, and their file in it. */
const FOLDER = 'limits'
/** File of the counters. */
const FILE = 'counters'
/** New name of an unusable file. */
const REFUSED = 'counters.refused'

interface CountersParts {
  readonly table: LimiterTable
  readonly clock: Clock
  readonly log: Logger
}

/** Saves a table while its process serves. */
export type KeepingCounters = Pick<Checkpoints, 'checkpoint' | 'pause' | 'resume' | 'close'>

/** Counters of limits in the data folder: loaded at start, saved while the process serves. */
export class CountersOfLimits {
  readonly #path: string
  readonly #interval: number
  #kept: KeptCounters | undefined
  #problem: unknown
  /** Is everything in the table that the file has? */
  #read = false

  private constructor(path: string, interval: number) {
    this.#path = path
    this.#interval = interval
  }

  /** Returns undefined if the options disable saving. Reads only the beginning of the file. */
  static find({ data, limiter }: Pick<Options, 'data' | 'limiter'>): CountersOfLimits | undefined {
    if (data === IN_MEMORY || limiter.checkpoint === 0) return undefined
    const counters = new CountersOfLimits(join(data, FOLDER, FILE), limiter.checkpoint)
    try {
      counters.#kept = KeptCounters.open(counters.#path)
    } catch (error) {
      counters.#problem = error
    }
    return counters
  }

  /** Returns the problem of the counters' file, as text; undefined if it is valid or missing. The file is only read. */
  static problem({ data }: Pick<Options, 'data'>): { readonly file: string; readonly reason: string } | undefined {
    const file = join(data, FOLDER, FILE)
    let kept: KeptCounters | undefined
    try {
      kept = KeptCounters.open(file)
      kept?.check()
      return undefined
    } catch (error) {
      return { file, reason: error instanceof Error ? error.message : String(error) }
    } finally {
      kept?.close()
    }
  }

  /** Secret of the file's hashes; undefined without a usable file. */
  get secret(): Uint8Array | undefined {
    return this.#kept?.head.secret
  }

  /** Returns a clock that continues that of the file, if there is one. */
  clock(clock: Clock): Clock {
    return this.#kept === undefined ? clock : clockThatReads(clock, resumedTime(this.#kept.mark, clock.wall()))
  }

  /** Fills an empty table before any decision. A damaged file is rejected and logged. */
  async fill({ table, log }: Omit<CountersParts, 'clock'>): Promise<void> {
    const kept = this.#kept
    try {
      if (this.#problem !== undefined) throw this.#problem
      if (kept === undefined) return
      if (Buffer.compare(kept.head.secret, table.secret) !== 0) return
      kept.check()
      kept.fill(table.contents)
      this.#read = true
    } catch (error) {
      await this.#refuse(error, log)
    } finally {
      this.ignore()
    }
  }

  /** Closes the file, which is not needed or no longer valid. */
  ignore(): void {
    this.#kept?.close()
  }

  /** Starts saving the table's counters. */
  async keep({ table, clock, log }: CountersParts): Promise<KeepingCounters> {
    const parts = { table, clock, path: this.#path, interval: this.#interval, report: reports(log, this.#path) }
    return new Checkpoints(parts, await this.#goOn(clock))
  }

  /** Returns the loaded file; undefined if it must be rewritten, after logging its problem. */
  async #goOn(clock: Clock): Promise<{ readonly file: CountersFile; readonly base: number } | undefined> {
    try {
      if (!this.#read || this.#kept === undefined) return undefined
      const now = { monotonic: clock.monotonic(), wall: clock.wall() }
      return { file: await CountersFile.goOn(this.#path, this.#kept.mark, now), base: this.#kept.base }
    } catch {
      return undefined
    }
  }

  async #refuse(error: unknown, log: Logger): Promise<void> {
    const refused = join(dirname(this.#path), REFUSED)
    const about = { file: this.#path, reason: error instanceof Error ? error.message : String(error) }
    if (!(error instanceof NotCounters)) {
      log.error(
        { ...about, code: codeOf(error) },
        'counters of limits cannot be read: every bucket is empty; let the user of the process read the file, and start again'
      )
      return
    }
    if (writtenFile(this.#path).kind === 'plain') await rename(this.#path, refused).catch(() => undefined)
    log.error(
      { ...about, refused },
      'the file of counters is damaged or of another version: every bucket is empty; the file was moved and can be deleted'
    )
  }
}

function reports(log: Logger, file: string): CheckpointReports {
  return {
    failed: (error) =>
      log.error(
        { err: error, file },
        'counters of limits cannot be written: traffic goes on, and a restart begins with what was written last; let the user of the process write the folder, or set limiter.checkpoint: off'
      ),
    recovered: () => log.info({ file }, 'counters of limits are written again'),
    lost: (records) =>
      log.warn(
        { records, file },
        'limits have admitted more than could be written: until all counters are written anew, a process that is killed loses it'
      ),
    ousted: () =>
      log.error(
        { file },
        'another process writes the counters of limits: this one does not any more; give each process a data folder of its own'
      )
  }
}
