import type { Clock } from './clock.js'

/** Work limits of one caller, in the caller's unit of work. */
export interface WorkLimits {
  /** Maximum balance. */
  readonly burst: number
  /** Growth of the balance per second, up to `burst`. */
  readonly perSecond: number
}

/** Number of callers above which those with a full balance are dropped. */
const MANY = 1_000

/**
 * A work balance per caller. Work is allowed while the balance is positive and charged as a whole, so that the balance may become negative:
 * the more work a caller has caused, the longer it waits.
 */
export class WorkBudget {
  readonly #clock: Clock
  readonly #limits: WorkLimits
  readonly #balances = new Map<string, { left: number; at: number }>()

  constructor(clock: Clock, limits: WorkLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Returns the seconds until the caller may request work; 0 for now. */
  wait(caller: string): number {
    const left = this.#left(caller)
    return left > 0 ? 0 : (1 - left) / this.#limits.perSecond
  }

  /** Charges work to a caller. */
  spend(caller: string, amount: number): void {
    const left = this.#left(caller) - amount
    if (this.#balances.size >= MANY) this.#forget()
    this.#balances.set(caller, { left, at: this.#clock.monotonic() })
  }

  #left(caller: string): number {
    const { burst, perSecond } = this.#limits
    const balance = this.#balances.get(caller)
    if (balance === undefined) return burst
    return Math.min(burst, balance.left + ((this.#clock.monotonic() - balance.at) / 1_000) * perSecond)
  }

  #forget(): void {
    for (const caller of this.#balances.keys()) {
      if (this.#left(caller) >= this.#limits.burst) this.#balances.delete(caller)
    }
  }
}

/** Pauses after consecutive rejections. */
export interface PauseLimits {
  /** Rejections without a pause. */
  readonly free: number
  /** First pause, doubled by each further rejection (ms). */
  readonly first: number
  /** Longest pause (ms). */
  readonly longest: number
}

/** A pause per caller that grows with consecutive rejections. Acceptance ends it, and so does a time as long as the longest pause. */
export class GrowingPauses {
  readonly #clock: Clock
  readonly #limits: PauseLimits
  readonly #refusals = new Map<string, { count: number; until: number }>()

  constructor(clock: Clock, limits: PauseLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Returns the seconds until the caller is checked again; 0 for now. */
  wait(caller: string): number {
    const { until } = this.#refusals.get(caller) ?? { until: 0 }
    return Math.max(0, until - this.#clock.monotonic()) / 1_000
  }

  refused(caller: string): void {
    const { free, first, longest } = this.#limits
    const now = this.#clock.monotonic()
    const last = this.#refusals.get(caller)
    const count = last === undefined || this.#isPast(last, now) ? 1 : last.count + 1
    const pause = count <= free ? 0 : Math.min(longest, first * 2 ** Math.min(count - free - 1, 32))
    if (this.#refusals.size >= MANY) this.#forget(now)
    this.#refusals.set(caller, { count, until: now + pause })
  }

  accepted(caller: string): void {
    this.#refusals.delete(caller)
  }

  /** Drops callers whose last pause ended long ago. */
  #forget(now: number): void {
    for (const [caller, refusals] of this.#refusals) if (this.#isPast(refusals, now)) this.#refusals.delete(caller)
  }

  #isPast({ until }: { readonly until: number }, now: number): boolean {
    return until + this.#limits.longest < now
  }
}
