import { dirname } from 'node:path'
import { setTimeout as sleep, setImmediate as turnOfLoop } from 'node:timers/promises'
import type { Clock } from '../../../lib/clock.js'
import { atMost } from '../../../lib/concurrency.js'
import { makeFolder, partialFor, writtenFile } from '../../../lib/files.js'
import { Slices } from '../../../lib/slices.js'
import { LONGEST_WAIT } from '../limiter/admission-log.js'
import type { LimiterTable } from '../limiter/table.js'
import { partBodies, sketchBodies, TAKEN } from './base.js'
import { AnotherOwner, type Chunk, CountersFile } from './counters-file.js'
import { CHUNK, type ChunkKind, type Mark } from './format.js'

/** Maximum interval between checks of the logs (ms). */
const LOOK_EVERY = 250
/** Fill level at which a log is written before the interval ends. */
const FULL = 0.5
/** Maximum time slice on the event loop (ms). */
const HOLD = 0.3
/** Pause after a slice, as a multiple of it. */
const REST = 3
/** Pause if another thread has a part (ms), so that the system can run that thread. */
const TAKEN_REST = 1
/** Minimum log size for a new base (bytes), besides being longer than the base. */
const LEAST_LOG = 4 * 2 ** 20
/** Pause after a failed write (ms). */
const AGAIN_AFTER = 30_000
/** Maximum time that a stop waits for an unnecessary base (ms). */
const NEARLY = 500
/** Clock difference that is written as a change of the wall clock (ms). */
const MOVED = 100

export interface CheckpointsParts {
  /** Table with a log of admissions. */
  readonly table: LimiterTable
  readonly clock: Clock
  /** Path of the file; its folder is created. */
  readonly path: string
  /** Milliseconds between checkpoints. */
  readonly interval: number
  readonly report: CheckpointReports
}

/** Reports to the operator. */
export interface CheckpointReports {
  /** Counters cannot be written; retried. */
  failed(error: unknown): void
  /** Counters can be written again. */
  recovered(): void
  /** Number of admissions missing in the logs: until the next base is written, a killed process loses them. */
  lost(records: number): void
  /** Another process writes the file; this one stops. */
  ousted(): void
}

/**
 * Writes the table's admissions to a file at an interval: logs, and a new base when they become long. The thread that created the table
 * does all of it in slices.
 */
export class Checkpoints {
  readonly #parts: CheckpointsParts
  readonly #timer: NodeJS.Timeout
  /** File for the next start; undefined if none is complete. */
  #file: CountersFile | undefined
  /** Size of its base (bytes). */
  #base = 0
  /** Replacement file, used once its base is complete. */
  #next: CountersFile | undefined
  #building: Promise<void> | undefined
  #group = 0
  /** Number of log losses, now and at the start of the current file. */
  #losses = 0
  #covered = 0
  /** Time of the last checkpoint, and its mark. */
  #at = 0
  #last: Pick<Mark, 'monotonic' | 'wall'> = { monotonic: 0, wall: 0 }
  #again = 0
  #failing = false
  #state: 'open' | 'paused' | 'ousted' | 'closed' = 'open'
  /** True if the base is written without pauses. */
  #hurry = false
  /** Serializes checkpoints. */
  #turn: Promise<unknown> = Promise.resolve()
  #waits = false

  /** `found`: existing file and the size of its base; undefined: starts with a new base. */
  constructor(parts: CheckpointsParts, found: { readonly file: CountersFile; readonly base: number } | undefined) {
    this.#parts = parts
    this.#file = found?.file
    this.#base = found?.base ?? 0
    this.#last = this.#now()
    this.#at = this.#last.monotonic
    this.#timer = setInterval(() => this.#look(), Math.min(parts.interval, LOOK_EVERY)).unref()
    if (found === undefined || this.#long) this.#rebase()
  }

  /** Writes all admissions so far; without a file, once it exists. Does not fail. */
  async checkpoint(): Promise<void> {
    if (this.#file === undefined) await this.#building
    await this.#checkpoint()
  }

  /** Writes a last time until `resume`, because another process may continue the file. Does not fail. */
  async pause(): Promise<void> {
    if (this.#state !== 'open') return
    await this.#finish('paused')
  }

  /** Continues with a new base. */
  resume(): void {
    if (this.#state !== 'paused') return
    this.#state = 'open'
    this.#rebase()
  }

  /** Writes everything for the last time. Does not fail. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    if (this.#state === 'open') await this.#finish('closed')
    this.#state = 'closed'
  }

  #checkpoint(): Promise<void> {
    const done = this.#turn.then(() => this.#write())
    this.#turn = done
    return done
  }

  async #finish(state: 'paused' | 'closed'): Promise<void> {
    this.#hurry = true
    // A nearly complete base saves the next process a long log.
    if (this.#building !== undefined) await atMost(NEARLY, this.#building)
    await this.#checkpoint()
    // Either the existing file is complete, or another one must be: at worst the one after the one being written.
    for (let attempt = 0; attempt < 2 && !this.#whole && this.#state === 'open'; attempt += 1) {
      this.#rebase()
      await this.#building
      await this.#checkpoint()
    }
    this.#state = state
    this.#hurry = false
    const [file, next] = [this.#file, this.#next]
    this.#file = undefined
    this.#next = undefined
    await this.#building
    await next?.discard()
    await file?.close().catch(() => undefined)
  }

  /** True if the file contains every admission up to the last checkpoint. */
  get #whole(): boolean {
    return this.#file !== undefined && this.#covered === this.#losses
  }

  /** True if the log is longer than its base. */
  get #long(): boolean {
    return this.#file !== undefined && this.#file.length - this.#base > Math.max(this.#base, LEAST_LOG)
  }

  #now(): Pick<Mark, 'monotonic' | 'wall'> {
    const { clock } = this.#parts
    return { monotonic: clock.monotonic(), wall: clock.wall() }
  }

  #look(): void {
    if (this.#state !== 'open' || this.#waits) return
    const { table, interval } = this.#parts
    const { monotonic } = this.#now()
    if (!this.#whole && monotonic >= this.#again) this.#rebase()
    if (this.#file === undefined && this.#next === undefined) return
    const due = monotonic - this.#at >= interval
    if (!due && ![...table.logs.values()].some((log) => log.fill >= FULL)) return
    this.#waits = true
    void this.#checkpoint().then(() => {
      this.#waits = false
    })
  }

  async #write(): Promise<void> {
    if (this.#state !== 'open' || (this.#file === undefined && this.#next === undefined)) return
    const now = this.#now()
    if (now.monotonic - this.#at > LONGEST_WAIT) {
      await this.#failed(new Error('the checkpoint before took too long'))
      return
    }
    const waiting = [...this.#parts.table.logs.values()].map((log) => ({ log, ...log.waiting() }))
    const chunks = waiting
      .filter(({ records }) => records > 0)
      .map(({ views }) => ({ kind: CHUNK.log, group: this.#group, time: now.monotonic, views }))
    this.#group += 1
    try {
      for (const file of [this.#file, this.#next]) if (chunks.length > 0) await file?.append(chunks, this.#slices())
      const moved = Math.abs(now.wall - this.#last.wall - (now.monotonic - this.#last.monotonic)) > MOVED
      if (chunks.length > 0 || moved || this.#hurry) {
        await this.#file?.commit(now)
        this.#last = now
      }
      for (const { log, records } of waiting) log.take(records)
      this.#at = now.monotonic
    } catch (error) {
      await this.#failed(error)
      return
    }
    const lost = [...this.#parts.table.logs.values()].reduce((sum, log) => sum + log.takeLost(), 0)
    if (lost > 0) {
      this.#losses += 1
      this.#parts.report.lost(lost)
    }
    if (this.#long || !this.#whole) this.#rebase()
  }

  /** Starts a new base unless one is being written. */
  #rebase(): void {
    if (this.#building !== undefined || this.#state !== 'open') return
    this.#building = this.#build()
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#building = undefined
      })
  }

  async #build(): Promise<void> {
    const { table, path } = this.#parts
    const { secret, contents } = table
    makeFolder(dirname(path))
    const file = await CountersFile.create(partialFor(writtenFile(path).path), {
      secret,
      segments: contents.segments,
      buckets: contents.buckets
    })
    if (this.#state !== 'open') {
      await file.discard()
      return
    }
    if (this.#file === undefined) {
      // Pending admissions are in the table.
      this.#at = this.#now().monotonic
      for (const log of table.logs.values()) {
        log.takeLost()
        log.take(log.waiting().records)
      }
    }
    this.#next = file
    const losses = this.#losses
    await this.#fill(file, CHUNK.base, partBodies(contents))
    await this.#fill(file, CHUNK.sketch, sketchBodies(contents))
    const base = file.length
    await this.#checkpoint()
    const moved = this.#turn.then(() => this.#swap(file, base, losses))
    this.#turn = moved.catch(() => undefined)
    await moved
  }

  /** Writes bodies while the file is needed. */
  async #fill(
    file: CountersFile,
    kind: ChunkKind,
    bodies: Iterable<Uint8Array | typeof TAKEN | undefined>
  ): Promise<void> {
    const slices = this.#slices()
    for (const body of bodies) {
      if (this.#next !== file) return
      if (body === TAKEN) {
        await sleep(TAKEN_REST)
        continue
      }
      const chunk: Chunk | undefined = body && { kind, group: 0, time: 0, views: [body] }
      if (chunk !== undefined) await file.append([chunk], slices)
      if (slices.due) await slices.rest()
    }
  }

  /** Replaces the previous file. */
  async #swap(file: CountersFile, base: number, losses: number): Promise<void> {
    if (this.#next !== file) return
    const before = this.#file
    // A mark is never earlier than a part of the base: readers continue from there.
    this.#last = this.#now()
    await file.commit(this.#last)
    await file.moveTo(this.#parts.path)
    this.#file = file
    this.#next = undefined
    this.#base = base
    this.#covered = losses
    await before?.close()
    if (this.#failing) this.#parts.report.recovered()
    this.#failing = false
  }

  /** Pauses writing, then writes a new base. */
  async #failed(error: unknown): Promise<void> {
    const [file, next] = [this.#file, this.#next]
    this.#file = undefined
    this.#next = undefined
    this.#again = this.#parts.clock.monotonic() + AGAIN_AFTER
    if (error instanceof AnotherOwner) {
      if (this.#state === 'open' && !this.#hurry) this.#parts.report.ousted()
      this.#state = 'ousted'
    } else if (!this.#failing) {
      this.#failing = true
      this.#parts.report.failed(error)
    }
    await next?.discard()
    await file?.close().catch(() => undefined)
  }

  #slices(): Slices {
    return new Slices({ hold: HOLD, turn: (worked) => (this.#hurry ? turnOfLoop() : sleep(worked * REST)) })
  }
}
