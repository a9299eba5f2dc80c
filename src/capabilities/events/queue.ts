import { type BackoffRange, Coalescer, pauseAfter } from '../../lib/concurrency.js'
import type { Batch, Sender, SendFailure } from './destinations/sender.js'

/** Queue of one destination, oldest first. */
export interface Source {
  /** Returns the next batch, the same one until `done`; undefined if the queue is empty. */
  next(): Promise<Batch | undefined>
  /** It was taken. */
  done(batch: Batch): Promise<void>
  /**
   * Handles the `failures`th consecutive failure. Returns true if a different batch, smaller or later, can be sent without a
   * pause.
   */
  failed(failure: SendFailure, failures: number): Promise<boolean>
}

export interface LaneParts {
  readonly source: Source
  readonly sender: Sender
  readonly backOff: BackoffRange
  /** In [0, 1). */
  readonly random: () => number
  /** Something of our own failed, the store most likely. Must not throw. */
  readonly fault: (error: unknown) => void
}

/**
 * Delivers the queue of one destination in sequence: each batch is sent after the previous one was accepted. Sleeps while
 * the queue is empty, and pauses after failures.
 */
export class DeliveryQueue {
  readonly #parts: LaneParts
  /** Aborts the batch in flight. */
  readonly #ending = new AbortController()
  readonly #running = new Coalescer(() => this.#run())
  #stopping = false
  #failures = 0
  #pause: { readonly timer: NodeJS.Timeout; readonly over: () => void } | undefined

  constructor(parts: LaneParts) {
    this.#parts = parts
  }

  /** Something may wait. */
  wake(): void {
    if (!this.#stopping) this.#running.ask()
  }

  /** Ends a pause: try again now. */
  hurry(): void {
    this.#pause?.over()
    this.wake()
  }

  /** Resolves when no batch is in flight or awaited. */
  async idle(): Promise<void> {
    await this.#running.answered()
  }

  /**
   * Waits up to `grace` milliseconds for the batch in flight, then aborts it; the next process sends it again. No other
   * batch is started.
   */
  async stop(grace: number): Promise<void> {
    this.#stopping = true
    this.#pause?.over()
    const timer = setTimeout(() => this.#ending.abort(), grace)
    await this.#running.settle()
    clearTimeout(timer)
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      try {
        this.#failures = await this.#drain(this.#failures)
        return
      } catch (error) {
        // Errors of the own store may be temporary.
        this.#parts.fault(error)
        await this.#wait(this.#pauseAfter(++this.#failures))
      }
    }
  }

  /** Sends until the queue is empty. Returns the number of failed attempts since the last success. */
  async #drain(failures: number): Promise<number> {
    const { source, sender } = this.#parts
    const { signal } = this.#ending
    let failed = failures
    while (!this.#stopping) {
      const batch = await source.next()
      if (batch === undefined || this.#stopping) return failed
      const failure = await sender.send(batch, signal)
      if (failure === undefined) {
        failed = 0
        await source.done(batch)
      } else if (!signal.aborted) {
        if (await source.failed(failure, failed + 1)) continue
        failed += 1
        await this.#wait(Math.max(this.#pauseAfter(failed), failure.retryAfter ?? 0))
      }
    }
    return failed
  }

  #pauseAfter(failures: number): number {
    const { backOff, random } = this.#parts
    return pauseAfter(failures, backOff, random)
  }

  async #wait(milliseconds: number): Promise<void> {
    if (this.#stopping) return
    await new Promise<void>((resolve) => {
      const over = () => {
        clearTimeout(this.#pause?.timer)
        this.#pause = undefined
        resolve()
      }
      this.#pause = { timer: setTimeout(over, milliseconds).unref(), over }
    })
  }
}
