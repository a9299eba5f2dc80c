import { type BackoffRange, Coalescer, pauseAfter } from '../../lib/concurrency.js'
import type { Batch, Sender, SendFailure } from './destinations/sender.js'

/** What waits for one destination, oldest first. */
export interface Source {
  /** What goes next; the same until `done`, undefined when nothing waits. */
  next(): Promise<Batch | undefined>
  /** It was taken. */
  done(batch: Batch): Promise<void>
  /**
   * It was not taken, for the `failures`th time in a row. True when something else goes next, which need not wait: less of
   * it, or what comes behind.
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
 * Brings what waits to one destination, one batch after the other: the next goes when the one before was taken. It sleeps
 * while nothing waits and pauses after failures.
 */
export class DeliveryQueue {
  readonly #parts: LaneParts
  /** Breaks off what is on its way. */
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

  /** Resolves when nothing is under way and nothing is waited for. */
  async idle(): Promise<void> {
    await this.#running.answered()
  }

  /**
   * What is on its way gets `grace` milliseconds to arrive, then it is aborted; the next process sends it again. Nothing
   * else is begun.
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
        // Whatever our own store refuses may work later.
        this.#parts.fault(error)
        await this.#wait(this.#pauseAfter(++this.#failures))
      }
    }
  }

  /** Sends until nothing waits; answers how many attempts have failed since the last success. */
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
