import type { Clock } from './clock.js'

/** How much work one caller may ask for, in units of the one who counts. */
export interface WorkLimits {
  /** At once. */
  readonly burst: number
  /** By which the balance grows until it is `burst` again. */
  readonly perSecond: number
}

/** Callers beyond which those with a whole balance are forgotten. */
const MANY = 1_000

/**
 * A balance of work for each caller. Work is asked for while the balance is above zero and taken from it whole, so that it may become a
 * debt: the more a caller has had done, the longer it waits.
 */
export class WorkBudget {
  readonly #clock: Clock
  readonly #limits: WorkLimits
  readonly #balances = new Map<string, { left: number; at: number }>()

  constructor(clock: Clock, limits: WorkLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Seconds until the caller may ask for work; 0: now. */
  wait(caller: string): number {
    const left = this.#left(caller)
    return left > 0 ? 0 : (1 - left) / this.#limits.perSecond
  }

  /** Takes work from the balance of a caller. */
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

/** Pauses after refusals that follow one another. */
export interface PauseLimits {
  /** Refusals without a pause. */
  readonly free: number
  /** The first pause, which each further refusal doubles. Milliseconds. */
  readonly first: number
  /** Milliseconds. */
  readonly longest: number
}

/** A pause for each caller that grows while it is refused again and again. What is accepted ends it, and so does a time as long as the longest pause. */
export class GrowingPauses {
  readonly #clock: Clock
  readonly #limits: PauseLimits
  readonly #refusals = new Map<string, { count: number; until: number }>()

  constructor(clock: Clock, limits: PauseLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Seconds until the caller is looked at again; 0: now. */
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

  /** Forgets callers whose last pause ended long ago. */
  #forget(now: number): void {
    for (const [caller, refusals] of this.#refusals) if (this.#isPast(refusals, now)) this.#refusals.delete(caller)
  }

  #isPast({ until }: { readonly until: number }, now: number): boolean {
    return until + this.#limits.longest < now
  }
}
