import type { AbortSignalLike } from '../flow/exchange.js'
import type { AddressUpstream } from '../runtime/plan.js'
import type { Answer } from '../transport/contract.js'
import { ignore } from '../transport/pipes.js'

type Failed = Extract<Answer, { kind: 'failed' }>

/** Default queue length and timeout (ms). */
const USUAL_QUEUE = { length: 100, timeout: 10_000 }

/** Returns the unit with the share of its connections for one of the threads: at most the total, at least one. */
export function shareOf(unit: AddressUpstream, threads = 1): AddressUpstream {
  if (unit.maxConnections === undefined) return unit
  return { ...unit, maxConnections: Math.max(1, Math.floor(unit.maxConnections / threads)) }
}

/** Active exchanges and connections of a server within its limit, and a first-come, first-served queue. */
export class ServerPlaces {
  /** Active exchanges and connections. */
  active = 0
  /** Number refused. */
  refused = 0
  readonly #most: number
  readonly #queue: NonNullable<AddressUpstream['queue']>
  readonly #waiting = new Set<() => void>()

  constructor({ maxConnections, queue }: Pick<AddressUpstream, 'maxConnections' | 'queue'>) {
    this.#most = maxConnections ?? Number.POSITIVE_INFINITY
    this.#queue = queue ?? USUAL_QUEUE
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** `full`: the next request waits; `crowded`: the queue is full too. */
  get state(): 'free' | 'full' | 'crowded' {
    const waiting = this.#waiting.size
    if (waiting === 0 && this.active < this.#most) return 'free'
    return waiting < this.#queue.length ? 'full' : 'crowded'
  }

  /** Takes a place. Returns the function that releases it, which may be called more than once. */
  take(): () => void {
    this.active++
    let running = true
    return () => {
      if (!running) return
      running = false
      this.active--
      // The connection of a finished exchange is idle once its handler has returned.
      if (this.#waiting.size > 0) setImmediate(this.#next)
    }
  }

  /**
   * Calls `turn`, which must take the place, once one is free, or `failed`. `failed` is also called when `signal` fires, possibly before
   * this returns.
   */
  wait(signal: AbortSignalLike, turn: () => void, failed: (answer: Failed) => void): void {
    if (this.state === 'crowded') {
      this.#refuse('the queue of the server is full', failed)
      return
    }
    let stop = ignore
    const enter = (): void => {
      stop()
      turn()
    }
    const leave = (): boolean => {
      stop()
      return this.#waiting.delete(enter)
    }
    this.#waiting.add(enter)
    const timer = setTimeout(() => {
      if (leave()) this.#refuse('no connection of the server was free in time', failed)
    }, this.#queue.timeout)
    const unheard = signal.onAbort((failure) => {
      if (leave()) failed({ kind: 'failed', failure, retry: 'never', detail: 'the client ended the exchange' })
    })
    stop = () => {
      clearTimeout(timer)
      unheard()
    }
    if (signal.aborted !== undefined) stop()
  }

  #refuse(detail: string, failed: (answer: Failed) => void): void {
    this.refused++
    failed({ kind: 'failed', failure: 'upstream-busy', retry: 'never', detail })
  }

  readonly #next = (): void => {
    for (const enter of this.#waiting) {
      if (this.active >= this.#most) return
      this.#waiting.delete(enter)
      enter()
    }
  }
}
