import type { AbortSignalLike } from '../flow/exchange.js'
import type { AddressUpstream } from '../runtime/plan.js'
import type { Answer } from '../transport/contract.js'
import { ignore } from '../transport/pipes.js'

type Failed = Extract<Answer, { kind: 'failed' }>

/** A queue of a unit that does not say. Milliseconds. */
const USUAL_QUEUE = { length: 100, timeout: 10_000 }

/** The unit with the part of its places that each of so many threads has: together no more than it gives, but one at least. */
export function shareOf(unit: AddressUpstream, threads = 1): AddressUpstream {
  if (unit.maxConnections === undefined) return unit
  return { ...unit, maxConnections: Math.max(1, Math.floor(unit.maxConnections / threads)) }
}

/** What a server carries, in the places that its unit gives it, and the requests and connections that wait for one: first come, first served. */
export class ServerPlaces {
  /** Exchanges and connections that it carries now. */
  active = 0
  /** Those that got no place. */
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

  /** `full`: the next request waits; `crowded`: the queue is full, too. */
  get state(): 'free' | 'full' | 'crowded' {
    const waiting = this.#waiting.size
    if (waiting === 0 && this.active < this.#most) return 'free'
    return waiting < this.#queue.length ? 'full' : 'crowded'
  }

  /** Takes a place. The way to give it back may be called more than once. */
  take(): () => void {
    this.active++
    let running = true
    return () => {
      if (!running) return
      running = false
      this.active--
      // The connection of what has ended is idle once what ends it has returned.
      if (this.#waiting.size > 0) setImmediate(this.#next)
    }
  }

  /** Calls `turn`, which takes the place, once one is free, or `failed`. `failed` is called when `signal` fires, too, perhaps before this returns. */
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
