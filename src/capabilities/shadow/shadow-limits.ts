import type { Decision } from '../../features/rate-limit/limiter/decision.js'
import { geometryOf } from '../../features/rate-limit/limiter/layout.js'
import type { Limiter } from '../../features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../features/rate-limit/limiter/table.js'
import type { Judge } from './judge.js'
import { unknown } from './trial.js'

/** Memory for the buckets of one shadow. */
const BUDGET = 32 * 1024 * 1024
/** Maximum number of copied buckets; the contents of further buckets are unknown. */
const MOST_COPIED = 500_000
/** Capacity for copying admissions, which are never rejected. */
const UNLIMITED = Number.MAX_SAFE_INTEGER
const PASSES: Decision = { at: 0, admitted: true, remaining: 0, resetSeconds: 0, retryAfterSeconds: 0, before: -1 }

interface ShadowLimitsParts {
  readonly judge: Judge
  /** Initial counters. @default empty */
  readonly counted?: { readonly by: LimiterTable; readonly until: number } | undefined
  /** Does the candidate see the exchanges of all clients? */
  readonly everyone: boolean
}

/**
 * The buckets of a candidate. Each starts with a copy of the running bucket when the shadow began, made on first use: the
 * candidate itself decides later admissions.
 */
export class ShadowLimits implements Limiter {
  readonly #parts: ShadowLimitsParts
  #made: LimiterTable | undefined
  /** Time that replaces the current one while past admissions are counted. */
  #past: number | undefined
  #copied = 0

  constructor(parts: ShadowLimitsParts) {
    this.#parts = parts
  }

  statistics(): ReturnType<LimiterTable['statistics']> {
    return this.#table.statistics()
  }

  window(identity: string, seconds: number): ReturnType<Limiter['window']> {
    const { judge, counted, everyone } = this.#parts
    const own = this.#table.window(identity, seconds)
    const running = counted?.by.window(identity, seconds)
    const begun = new Set<string>()
    const goesOn = (key: string): boolean => {
      if (counted === undefined || running === undefined || begun.has(key)) return true
      // All copied admissions have left every window.
      if (judge.clock.monotonic() > counted.until + 2_000 * seconds) {
        this.#copied -= begun.size
        begun.clear()
        return true
      }
      if (this.#copied >= MOST_COPIED) return false
      this.#copied++
      begun.add(key)
      for (const { stamp, count } of admissionsUntil(running, key, counted.until, seconds)) {
        this.#past = stamp
        own.take(key, UNLIMITED, count)
      }
      this.#past = undefined
      return true
    }
    return {
      take: (key, capacity, cost) => {
        const { trial } = judge
        if (trial === undefined) throw new TypeError('a limit was asked outside of a run')
        if (trial.repeated !== undefined) return (trial.decisions[trial.repeated++] ?? PASSES) as Decision
        if (!everyone && !key.includes(trial.live.flow.clientAddress)) {
          unknown(trial, 'limit_of_all_clients')
          return PASSES
        }
        if (!goesOn(key)) {
          unknown(trial, 'too_many_buckets')
          return PASSES
        }
        const decision = { ...own.take(key, capacity, cost) }
        trial.decisions.push(decision)
        return decision
      },
      peek: (key, capacity) => own.peek(key, capacity),
      forget: (key) => own.forget(key)
    }
  }

  /** Created on first use, because most policies have no limit. */
  get #table(): LimiterTable {
    const { judge } = this.#parts
    this.#made ??= new LimiterTable({
      budgetBytes: BUDGET,
      clock: { monotonic: () => this.#past ?? judge.clock.monotonic(), wall: judge.clock.wall }
    })
    return this.#made
  }
}

interface Admissions {
  /** Monotonic milliseconds: whole ones, but for the last. */
  readonly stamp: number
  readonly count: number
}

/** Returns the admissions of a bucket up to a time. For windows, the span that continues beyond that time counts without its last admission. */
function admissionsUntil(
  running: ReturnType<LimiterTable['window']>,
  key: string,
  until: number,
  seconds: number
): Admissions[] {
  const all: Admissions[] = []
  const last = running.pour(key, { add: (stamp, count) => all.push({ stamp, count }) })
  const span = geometryOf(seconds).grain
  return all.flatMap(({ stamp, count }) => {
    if (stamp <= until) return [{ stamp: last !== undefined && Math.ceil(last) === stamp ? last : stamp, count }]
    return count > 1 && stamp - span <= until ? [{ stamp: until, count: count - 1 }] : []
  })
}
