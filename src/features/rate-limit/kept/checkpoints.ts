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

/** How often logs are looked at, at most, and how full one is that is not left for the interval. Milliseconds. */
const LOOK_EVERY = 250
const FULL = 0.5
/** Milliseconds that this work may hold the loop at a stretch, and how long it rests for each of them. */
const HOLD = 0.3
const REST = 3
/** How long it rests where another thread has a part: the system gives that thread a processor meanwhile. Milliseconds. */
const TAKEN_REST = 1
/** A log that is longer than its base, and than so many bytes, makes a new base. */
const LEAST_LOG = 4 * 2 ** 20
/** How long nothing is written after it could not be. Milliseconds. */
const AGAIN_AFTER = 30_000
/** How long a stop waits for a base that it does not need. Milliseconds. */
const NEARLY = 500
/** A wall clock that has moved by so much against the other one is written down. Milliseconds. */
const MOVED = 100

export interface CheckpointsParts {
  /** One that logs what it admits. */
  readonly table: LimiterTable
  readonly clock: Clock
  /** Its folder is made where it is not there. */
  readonly path: string
  /** Milliseconds between two checkpoints. */
  readonly interval: number
  readonly report: CheckpointReports
}

/** What the operator has to know. */
export interface CheckpointReports {
  /** Counters cannot be written; it is tried again. */
  failed(error: unknown): void
  /** They can be, again. */
  recovered(): void
  /** So much was admitted that is in no log: until the next base is written, a process that is killed loses it. */
  lost(records: number): void
  /** Another process writes the file: this one does not any more. */
  ousted(): void
}

/**
 * Writes what the table admits into a file, interval by interval: logs first, and beside them a new base when logs have become long. All
 * of it is done by the thread that has made the table, in slices.
 */
export class Checkpoints {
  readonly #parts: CheckpointsParts
  readonly #timer: NodeJS.Timeout
  /** The file that a start would read; undefined: there is none with all that was admitted. */
  #file: CountersFile | undefined
  /** Bytes of its base. */
  #base = 0
  /** The one that takes its place when its base is complete. */
  #next: CountersFile | undefined
  #building: Promise<void> | undefined
  #group = 0
  /** How often logs have lost something, and how often they had when the present file was begun. */
  #losses = 0
  #covered = 0
  /** When a checkpoint was made last, and the mark that it has left. */
  #at = 0
  #last: Pick<Mark, 'monotonic' | 'wall'> = { monotonic: 0, wall: 0 }
  #again = 0
  #failing = false
  #state: 'open' | 'paused' | 'ousted' | 'closed' = 'open'
  /** A base is not to rest. */
  #hurry = false
  /** One checkpoint after the other. */
  #turn: Promise<unknown> = Promise.resolve()
  #waits = false

  /** `found`: the file to go on with, and the bytes of its base; undefined: begins with a base. */
  constructor(parts: CheckpointsParts, found: { readonly file: CountersFile; readonly base: number } | undefined) {
    this.#parts = parts
    this.#file = found?.file
    this.#base = found?.base ?? 0
    this.#last = this.#now()
    this.#at = this.#last.monotonic
    this.#timer = setInterval(() => this.#look(), Math.min(parts.interval, LOOK_EVERY)).unref()
    if (found === undefined || this.#long) this.#rebase()
  }

  /** Writes down what was admitted until now; where there is no file yet, when it is there. Does not fail. */
  async checkpoint(): Promise<void> {
    if (this.#file === undefined) await this.#building
    await this.#checkpoint()
  }

  /** Another process may go on with the file: writes once more, and no more until `resume`. Does not fail. */
  async pause(): Promise<void> {
    if (this.#state !== 'open') return
    await this.#finish('paused')
  }

  /** Goes on with a new base. */
  resume(): void {
    if (this.#state !== 'paused') return
    this.#state = 'open'
    this.#rebase()
  }

  /** Writes all, for the last time. Does not fail. */
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
    // A base that is nearly done spares the next process a long log.
    if (this.#building !== undefined) await atMost(NEARLY, this.#building)
    await this.#checkpoint()
    // The file that is there has everything, or another one must be completed: at worst the one behind the one that is being written.
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

  /** Is everything in the file that was admitted up to the last checkpoint? */
  get #whole(): boolean {
    return this.#file !== undefined && this.#covered === this.#losses
  }

  /** Is the log of the file longer than its base? */
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

  /** Begins with a new base, if none is being written. */
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
      // What waits is in the table.
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

  /** Writes bodies, as long as the file is wanted. */
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

  /** The new file takes the place of the one before. */
  async #swap(file: CountersFile, base: number, losses: number): Promise<void> {
    if (this.#next !== file) return
    const before = this.#file
    // A mark is never before a part of the base: who reads it goes on from there.
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

  /** Nothing is written for a while; then a new base is. */
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
