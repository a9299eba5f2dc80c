import { Rerun } from '../lib/rerun.js'
import type { PostgresDriver } from './postgres-driver.js'
import type { StoreLog } from './store.js'

const POLL_MILLISECONDS = 250
const FIRST_PAUSE_MILLISECONDS = 100
const LONGEST_PAUSE_MILLISECONDS = 5000

export interface RevisionWatchParts {
  readonly driver: PostgresDriver
  readonly channel: string
  /** Hears, on the same connection, what is said on another channel; undefined: something may have been missed. */
  readonly beside: { readonly channel: string; readonly heard: (message: string | undefined) => void }
  /** Reads the last committed revision. */
  readonly read: () => Promise<number>
  readonly onRevision: (revision: number) => void
  readonly log: StoreLog
}

/**
 * Finds the revisions that other processes commit. A notification only wakes it: what counts is the number it then reads.
 * Notifications are lost while the connection is, so it reads after each reconnection and every 250 ms besides.
 */
export class RevisionWatch {
  readonly #parts: RevisionWatchParts
  #seen: number
  #stopped = false
  readonly #reading = new Rerun(() => this.#look())
  #poll: NodeJS.Timeout | undefined
  #reconnect: NodeJS.Timeout | undefined
  #pause = FIRST_PAUSE_MILLISECONDS
  #connecting: Promise<void> = Promise.resolve()
  #unlisten: (() => Promise<void>) | undefined
  #reachable = true

  /** `seen` is the revision that needs no report. */
  constructor(parts: RevisionWatchParts, seen: number) {
    this.#parts = parts
    this.#seen = seen
  }

  /** Resolves when the first attempt to listen has ended; the watch works either way. */
  async start(): Promise<void> {
    this.#schedule()
    this.#connecting = this.#listen()
    await this.#connecting
  }

  /** A revision that this process has committed itself needs no report. */
  saw(revision: number): void {
    this.#seen = Math.max(this.#seen, revision)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#poll)
    clearTimeout(this.#reconnect)
    await this.#reading.settle()
    await this.#connecting
    await this.#unlisten?.()
  }

  #wake(): void {
    if (this.#stopped) return
    this.#reading.ask()
  }

  async #look(): Promise<void> {
    try {
      const revision = await this.#parts.read()
      this.#reachable = true
      if (this.#stopped || revision <= this.#seen) return
      this.#seen = revision
      this.#parts.onRevision(revision)
    } catch (error) {
      if (this.#reachable && !this.#stopped) this.#parts.log.warn({ err: error }, 'cannot look for new revisions')
      this.#reachable = false
    }
  }

  #schedule(): void {
    if (this.#stopped) return
    this.#poll = setTimeout(() => {
      this.#wake()
      this.#schedule()
    }, POLL_MILLISECONDS)
  }

  async #listen(): Promise<void> {
    const { driver, channel, beside, log } = this.#parts
    try {
      const heard = { [channel]: () => this.#wake(), [beside.channel]: beside.heard }
      this.#unlisten = await driver.listen(heard, () => this.#lost())
      this.#pause = FIRST_PAUSE_MILLISECONDS
      this.#wake()
      beside.heard(undefined)
    } catch (error) {
      log.warn({ err: error, store: driver.name }, 'cannot listen for new revisions; polling')
      this.#lost()
    }
  }

  #lost(): void {
    this.#unlisten = undefined
    if (this.#stopped) return
    this.#reconnect = setTimeout(() => {
      this.#connecting = this.#listen()
    }, this.#pause)
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE_MILLISECONDS)
  }
}
