import type { Clock } from '../../lib/clock.js'

/**
 * Events and failures of a window that rolls in steps of one bucket. Buckets lie on a fixed grid of time; the window is
 * the bucket of now and those before it, so that it reaches back at most its length and at least its length less one
 * bucket. One bucket counts from grid line to grid line. Takes memory for its buckets only, whatever happens.
 */
class RollingCounts {
  readonly #bucket: number
  readonly #all: Float64Array
  readonly #failed: Float64Array
  /** Number of the newest bucket on the grid. */
  #newest = Number.NEGATIVE_INFINITY
  #sumAll = 0
  #sumFailed = 0

  /** `window`: milliseconds. */
  constructor(window: number, buckets: number) {
    this.#bucket = window / buckets
    this.#all = new Float64Array(buckets)
    this.#failed = new Float64Array(buckets)
  }

  /** Of the window that ends at the last `add`. */
  get all(): number {
    return this.#sumAll
  }

  get failed(): number {
    return this.#sumFailed
  }

  /** One event at `now`, monotonic milliseconds. */
  add(now: number, failed: boolean): void {
    this.#roll(Math.floor(now / this.#bucket))
    const slot = this.#newest % this.#all.length
    this.#all[slot] = (this.#all[slot] as number) + 1
    this.#sumAll++
    if (!failed) return
    this.#failed[slot] = (this.#failed[slot] as number) + 1
    this.#sumFailed++
  }

  clear(): void {
    this.#all.fill(0)
    this.#failed.fill(0)
    this.#sumAll = 0
    this.#sumFailed = 0
  }

  /** Makes `number` the newest bucket; what lies a window before it is forgotten. */
  #roll(number: number): void {
    if (number - this.#newest >= this.#all.length) this.clear()
    else {
      for (let i = this.#newest + 1; i <= number; i++) {
        const slot = i % this.#all.length
        this.#sumAll -= this.#all[slot] as number
        this.#sumFailed -= this.#failed[slot] as number
        this.#all[slot] = 0
        this.#failed[slot] = 0
      }
    }
    if (number > this.#newest) this.#newest = number
  }
}

/** When a breaker opens and for how long. May differ from call to call: a change of configuration applies at once. */
export interface BreakerSettings {
  /** Requests in the window below which it never opens. */
  readonly volume: number
  /** Share of failures in the window that opens it, 0 to 1; a window without a failure never does. */
  readonly threshold: number
  /** Milliseconds that it stays open before one request may try. */
  readonly tripped: number
}

/** `allow_while_open`: the one request that finds out whether the upstream has recovered. */
export type BreakerDecision = 'allow' | 'block' | 'allow_while_open'

export interface Admission {
  readonly decision: BreakerDecision
  /** Whole seconds until it is worth asking again; 0 unless blocked. */
  readonly retryAfter: number
  /** The turn of the state machine to which the outcome belongs. */
  readonly turn: number
  /** The outcome was reported. */
  settled: boolean
}

/** `unknown`: the upstream was not asked, or the client broke off before it had answered. */
export type Outcome = 'succeeded' | 'failed' | 'unknown'

/** What an outcome did to the breaker; undefined: it stays as it was. */
type Transition = 'opened' | 'closed' | undefined

/**
 * A circuit breaker over a rolling window.
 *
 *              volume and share reached                tripped time over: the next
 *            ┌──────────────────────────► open ───────────────────────────┐ request
 *            │                             ▲                               ▼ is the probe
 *          closed                          └────────── the probe ──────── half-open
 *            ▲                                          failed             │
 *            └──────────── the probe succeeded: all counts zero ───────────┘
 *
 * - closed: all pass. An outcome is counted when it is known; whenever one is, the window is looked at.
 * - open: all are blocked.
 * - half-open: exactly one request, the probe, is under way; all others are blocked. A probe of unknown outcome (its
 *   client left, something else answered) hands its role to the next request, and so does one that is not over within
 *   another tripped time, so that no request can hold the breaker half-open.
 *
 * Every transition begins a new turn, and so does every probe. An outcome counts only in the turn in which its request was
 * admitted: answers that come late neither open, nor close, nor fill the window of a later turn.
 */
export class Breaker {
  readonly #clock: Clock
  readonly #counts: RollingCounts
  #state: 'closed' | 'open' | 'half-open' = 'closed'
  #turn = 0
  /** When it opened or, half-open, when the probe began. Monotonic milliseconds. */
  #since = 0

  /** `window`: milliseconds, in `buckets` parts. */
  constructor({ clock, window, buckets }: { clock: Clock; window: number; buckets: number }) {
    this.#clock = clock
    this.#counts = new RollingCounts(window, buckets)
  }

  /** A caller that is not blocked reports the outcome with `settle`. */
  admit({ tripped }: BreakerSettings): Admission {
    if (this.#state === 'closed') return this.#admission('allow', 0)
    const now = this.#clock.monotonic()
    const rest = this.#since + tripped - now
    if (rest > 0) return this.#admission('block', this.#worthAfter(rest))
    this.#enter('half-open', now)
    return this.#admission('allow_while_open', 0)
  }

  /** The outcome of a request that was admitted; the first report counts. */
  settle(admission: Admission, outcome: Outcome, settings: BreakerSettings): Transition {
    if (admission.settled) return undefined
    admission.settled = true
    if (admission.turn !== this.#turn || admission.decision === 'block') return undefined
    const now = this.#clock.monotonic()
    if (this.#state === 'half-open') return this.#probed(outcome, now, settings)
    if (outcome === 'unknown') return undefined
    this.#counts.add(now, outcome === 'failed')
    return this.#overThreshold(settings) ? this.#enter('open', now) : undefined
  }

  #admission(decision: BreakerDecision, retryAfter: number): Admission {
    return { decision, retryAfter, turn: this.#turn, settled: false }
  }

  /** A probe may be over at any moment. */
  #worthAfter(rest: number): number {
    return this.#state === 'half-open' ? 1 : Math.ceil(rest / 1_000)
  }

  #probed(outcome: Outcome, now: number, { tripped }: BreakerSettings): Transition {
    if (outcome === 'succeeded') return this.#enter('closed', now)
    if (outcome === 'failed') return this.#enter('open', now)
    // Open, with its time over: the next request is the probe.
    this.#enter('open', now - tripped)
    return undefined
  }

  #overThreshold({ volume, threshold }: BreakerSettings): boolean {
    const { all, failed } = this.#counts
    // Divided, not multiplied: 3 of 30 is 0.1 exactly as written, and 0.1 × 30 is more than 3.
    return failed > 0 && all >= volume && failed / all >= threshold
  }

  #enter(state: 'closed' | 'open' | 'half-open', since: number): Transition {
    this.#state = state
    this.#turn++
    this.#since = since
    this.#counts.clear()
    return state === 'closed' ? 'closed' : state === 'open' ? 'opened' : undefined
  }
}
