import { Backoff, Coalescer } from '../lib/concurrency.js'
import { FirstFailure } from '../lib/first-failure.js'
import type { PostgresDriver } from './postgres.js'
import { type Place, type StoreLog, samePlace } from './store.js'

const POLL_MILLISECONDS = 250
const RECONNECTING = { first: 100, longest: 5_000 }

export interface RevisionWatchParts {
  readonly driver: PostgresDriver
  readonly channel: string
  /** Hears, on the same connection, what is said on another channel; undefined: something may have been missed. */
  readonly beside: { readonly channel: string; readonly heard: (message: string | undefined) => void }
  /** Reads the place of the last committed revision. */
  readonly read: () => Promise<Place>
  readonly onRevision: (place: Place) => void
  readonly log: StoreLog
}

/**
 * Finds the revisions that other processes commit. A notification only wakes it: what counts is the place it then reads.
 * Notifications are lost while the connection is, so it reads after each reconnection and every 250 ms besides. A smaller
 * revision, or the same one with another mark, is reported like a larger one: the store may have gone back in time.
 */
export class RevisionWatch {
  readonly #parts: RevisionWatchParts
  #seen: Place
  #stopped = false
  readonly #reading = new Coalescer(() => this.#look())
  #poll: NodeJS.Timeout | undefined
  #reconnect: NodeJS.Timeout | undefined
  readonly #backoff = new Backoff(RECONNECTING)
  #connecting: Promise<void> = Promise.resolve()
  #unlisten: (() => Promise<void>) | undefined
  readonly #looks = new FirstFailure()
  readonly #listens = new FirstFailure()

  /** `seen` is the place that needs no report. */
  constructor(parts: RevisionWatchParts, seen: Place) {
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
  saw(place: Place): void {
    if (place.revision > this.#seen.revision) this.#seen = place
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
      const place = await this.#parts.read()
      this.#looks.passed()
      if (this.#stopped || samePlace(place, this.#seen)) return
      // A read that began before a commit of this process may come back behind it: the next read puts that right.
      this.#seen = place
      this.#parts.onRevision(place)
    } catch (error) {
      if (this.#stopped) return
      this.#looks.failed(() => this.#parts.log.warn({ err: error }, 'cannot look for new revisions'))
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
      this.#backoff.reset()
      this.#listens.passed()
      this.#wake()
      beside.heard(undefined)
    } catch (error) {
      this.#listens.failed(() => {
        log.warn({ err: error, store: driver.name }, 'cannot listen for new revisions; polling')
      })
      this.#lost()
    }
  }

  #lost(): void {
    this.#unlisten = undefined
    if (this.#stopped) return
    this.#reconnect = setTimeout(() => {
      this.#connecting = this.#listen()
    }, this.#backoff.next())
  }
}
