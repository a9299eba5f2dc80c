import type { Clock } from '../../lib/clock.js'
import { ownRecords, type SharedRecord } from '../../lib/shared-records.js'

/** Index of the time when it opened or its probe began. */
const SINCE = 0
/** Index of the number of the newest bucket. */
const NEWEST = 1
/** Index of the first bucket. */
const COUNTS = 2

/**
 * Events and failures of a window that moves by one bucket. Buckets have a fixed time grid; the window is the current bucket and those
 * before it, so it covers at most its length and at least its length less one bucket. A single bucket counts from grid line to grid line.
 * Memory use is fixed.
 */
class RollingCounts {
  readonly #bucket: number
  readonly #numbers: Float64Array
  readonly #all: Float64Array
  readonly #failed: Float64Array

  /** `window`: milliseconds. `numbers`: storage, all 0 at first. */
  constructor(window: number, buckets: number, numbers: Float64Array) {
    this.#bucket = window / buckets
    this.#numbers = numbers
    this.#all = numbers.subarray(COUNTS, COUNTS + buckets)
    this.#failed = numbers.subarray(COUNTS + buckets, COUNTS + 2 * buckets)
  }

  /** Number of events in the window that ends at the last `add`. */
  get all(): number {
    return sumOf(this.#all)
  }

  get failed(): number {
    return sumOf(this.#failed)
  }

  /** Adds an event at `now`, monotonic milliseconds. */
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

  /** Makes `number` the newest bucket and clears those before the window. */
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

/** Settings of a breaker. May differ from call to call: configuration changes apply at once. */
export interface BreakerSettings {
  /** Minimum requests in the window before it opens. */
  readonly volume: number
  /** Share of failures in the window that opens it, 0 to 1; a window without failures never does. */
  readonly threshold: number
  /** Time before an open breaker allows a probe (ms). */
  readonly tripped: number
}

/** `allow_while_open`: the probe that tests whether the upstream has recovered. */
export type BreakerDecision = 'allow' | 'block' | 'allow_while_open'

export interface Admission {
  readonly decision: BreakerDecision
  /** Whole seconds before a retry makes sense; 0 unless blocked. */
  readonly retryAfter: number
  /** Turn of the state machine that the outcome belongs to. */
  readonly turn: number
  /** The outcome was reported. */
  settled: boolean
}

/** `unknown`: the upstream was not contacted, or the client disconnected before its response. */
export type Outcome = 'succeeded' | 'failed' | 'unknown'

/** State change by an outcome; undefined for none. */
type Transition = 'opened' | 'closed' | undefined

/**
 * A circuit breaker over a rolling window.
 *
 *              volume and share reached                open time elapsed: the next
 *            ┌──────────────────────────► open ───────────────────────────┐ request
 *            │                             ▲                               ▼ is the probe
 *          closed                          └────────── the probe ──────── half-open
 *            ▲                                          failed             │
 *            └──────────── the probe succeeded: all counts zero ───────────┘
 *
 * - closed: all requests pass. An outcome is counted when it is known; then the window is checked.
 * - open: all requests are blocked.
 * - half-open: exactly one request, the probe, is in progress; all others are blocked. If its outcome is unknown (client
 *   disconnected, response not from the upstream), or it takes longer than another open time, the next request is the probe,
 *   so that no request can keep the breaker half-open.
 *
 * Every transition starts a new turn, and so does every probe. An outcome counts only in the turn in which its request was
 * admitted: late responses neither open, nor close, nor fill the window of a later turn.
 *
 * Threads that share a record share the breaker: state and turn are one word, which passing requests read without a lock; a thread
 * that changes anything holds the lock. A thread that stops during a change costs at most one count, or the counts before a transition.
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

  /** Decides a request. Unless blocked, the caller must report the outcome with `settle`. */
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

  /** Records the outcome of an admitted request; the first report counts. */
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
    // The probe may finish at any moment.
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
    // The open time has elapsed: the next request is the probe.
    this.#enter(OPEN, now - tripped)
    return undefined
  }

  #overThreshold({ volume, threshold }: BreakerSettings): boolean {
    const { all, failed } = this.#counts
    // Division, not multiplication: 3 / 30 equals 0.1, but 0.1 × 30 is greater than 3.
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
/** Bits of the word for the state; the bits above are the turn. */
const STATE_BITS = 2
/** Mask of the state. */
const STATE_MASK = (1 << STATE_BITS) - 1

function stateOf(mark: number): State {
  return (mark & STATE_MASK) as State
}

function turnOf(mark: number): number {
  return mark >> STATE_BITS
}
