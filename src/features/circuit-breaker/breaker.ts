import type { Clock } from '../../lib/clock.js'
import { ownRecords, type SharedRecord } from '../../lib/shared-records.js'

/** Numbers of the record before those of the buckets: when it opened or its probe began, and the number of the newest bucket on the grid. */
const SINCE = 0
const NEWEST = 1
const COUNTS = 2

/**
 * Events and failures of a window that rolls in steps of one bucket. Buckets lie on a fixed grid of time; the window is
 * the bucket of now and those before it, so that it reaches back at most its length and at least its length less one
 * bucket. One bucket counts from grid line to grid line. Takes memory for its buckets only, whatever happens.
 */
class RollingCounts {
  readonly #bucket: number
  readonly #numbers: Float64Array
  readonly #all: Float64Array
  readonly #failed: Float64Array

  /** `window`: milliseconds. `numbers`: where it counts, 0 as long as nothing is. */
  constructor(window: number, buckets: number, numbers: Float64Array) {
    this.#bucket = window / buckets
    this.#numbers = numbers
    this.#all = numbers.subarray(COUNTS, COUNTS + buckets)
    this.#failed = numbers.subarray(COUNTS + buckets, COUNTS + 2 * buckets)
  }

  /** Of the window that ends at the last `add`. */
  get all(): number {
    return sumOf(this.#all)
  }

  get failed(): number {
    return sumOf(this.#failed)
  }

  /** One event at `now`, monotonic milliseconds. */
  add(now: number, failed: boolean): void {
    this.#roll(Math.floor(now / this.#bucket))
    const slot = (this.#numbers[NEWEST] as number) % this.#all.length
    this.#all[slot] = (this.#all[slot] as number) + 1
    if (failed) this.#failed[slot] = (this.#failed[slot] as number) + 1
  }

  clear(): void {
    this.#all.fill(0)
    this.#failed.fill(0)
  }

  /** Makes `number` the newest bucket; what lies a window before it is forgotten. */
  #roll(number: number): void {
    const newest = this.#numbers[NEWEST] as number
    if (number <= newest) return
    if (number - newest >= this.#all.length) this.clear()
    else {
      for (let i = newest + 1; i <= number; i++) {
        const slot = i % this.#all.length
        this.#all[slot] = 0
        this.#failed[slot] = 0
      }
    }
    this.#numbers[NEWEST] = number
  }
}

function sumOf(counts: Float64Array): number {
  let sum = 0
  for (let i = 0; i < counts.length; i++) sum += counts[i] as number
  return sum
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
 *
 * Threads that have its record together have one breaker: state and turn are one word, which is read alone where requests pass, and
 * a thread that changes anything has the lock. What a thread leaves half done that ends inside costs at most one count, or the counts
 * before a transition.
 */
export class Breaker {
  readonly #clock: Clock
  readonly #record: SharedRecord
  readonly #counts: RollingCounts

  /** `window`: milliseconds, in `buckets` parts. `record`: has `numbersOf(buckets)` numbers. */
  constructor({
    clock,
    window,
    buckets,
    record = ownRecords.of('', Breaker.numbersOf(buckets))
  }: {
    clock: Clock
    window: number
    buckets: number
    record?: SharedRecord
  }) {
    this.#clock = clock
    this.#record = record
    this.#counts = new RollingCounts(window, buckets, record.numbers)
  }

  static numbersOf(buckets: number): number {
    return COUNTS + 2 * buckets
  }

  /** A caller that is not blocked reports the outcome with `settle`. */
  admit({ tripped }: BreakerSettings): Admission {
    const { mark } = this.#record
    if (stateOf(mark) === CLOSED) return admission('allow', 0, turnOf(mark))
    if (!this.#record.lock()) return admission('block', 1, turnOf(mark))
    try {
      return this.#admit(tripped)
    } finally {
      this.#record.unlock()
    }
  }

  /** The outcome of a request that was admitted; the first report counts. */
  settle(admission: Admission, outcome: Outcome, settings: BreakerSettings): Transition {
    if (admission.settled) return undefined
    admission.settled = true
    if (admission.decision === 'block') return undefined
    const { mark } = this.#record
    if (admission.turn !== turnOf(mark) || (outcome === 'unknown' && stateOf(mark) === CLOSED)) return undefined
    if (!this.#record.lock()) return undefined
    try {
      return admission.turn === this.#turn ? this.#settled(outcome, settings) : undefined
    } finally {
      this.#record.unlock()
    }
  }

  #admit(tripped: number): Admission {
    const state = stateOf(this.#record.mark)
    if (state === CLOSED) return admission('allow', 0, this.#turn)
    const now = this.#clock.monotonic()
    const rest = (this.#record.numbers[SINCE] as number) + tripped - now
    // A probe may be over at any moment.
    if (rest > 0) return admission('block', state === HALF_OPEN ? 1 : Math.ceil(rest / 1_000), this.#turn)
    this.#enter(HALF_OPEN, now)
    return admission('allow_while_open', 0, this.#turn)
  }

  #settled(outcome: Outcome, settings: BreakerSettings): Transition {
    const now = this.#clock.monotonic()
    const state = stateOf(this.#record.mark)
    if (state === HALF_OPEN) return this.#probed(outcome, now, settings)
    if (outcome === 'unknown') return undefined
    this.#counts.add(now, outcome === 'failed')
    return this.#overThreshold(settings) ? this.#enter(OPEN, now) : undefined
  }

  get #turn(): number {
    return turnOf(this.#record.mark)
  }

  #probed(outcome: Outcome, now: number, { tripped }: BreakerSettings): Transition {
    if (outcome === 'succeeded') return this.#enter(CLOSED, now)
    if (outcome === 'failed') return this.#enter(OPEN, now)
    // Open, with its time over: the next request is the probe.
    this.#enter(OPEN, now - tripped)
    return undefined
  }

  #overThreshold({ volume, threshold }: BreakerSettings): boolean {
    const { all, failed } = this.#counts
    // Divided, not multiplied: 3 of 30 is 0.1 exactly as written, and 0.1 × 30 is more than 3.
    return failed > 0 && all >= volume && failed / all >= threshold
  }

  #enter(state: State, since: number): Transition {
    this.#counts.clear()
    this.#record.numbers[SINCE] = since
    this.#record.mark = ((this.#turn + 1) << STATE_BITS) | state
    return state === CLOSED ? 'closed' : state === OPEN ? 'opened' : undefined
  }
}

function admission(decision: BreakerDecision, retryAfter: number, turn: number): Admission {
  return { decision, retryAfter, turn, settled: false }
}

const CLOSED = 0
const OPEN = 1
const HALF_OPEN = 2
type State = typeof CLOSED | typeof OPEN | typeof HALF_OPEN
/** Of the word that has the state, and above it the turn. */
const STATE_BITS = 2
const STATE_MASK = (1 << STATE_BITS) - 1

function stateOf(mark: number): State {
  return (mark & STATE_MASK) as State
}

function turnOf(mark: number): number {
  return mark >> STATE_BITS
}
