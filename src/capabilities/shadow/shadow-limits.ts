import type { Decision } from '../../features/rate-limit/limiter/decision.js'
import type { Limiter } from '../../features/rate-limit/limiter/sliding-window.js'
import { LimiterTable } from '../../features/rate-limit/limiter/table.js'
import type { Judge } from './judge.js'
import { unknown } from './trial.js'

/** Memory for the buckets of one shadow. */
const BUDGET = 32 * 1024 * 1024
/** Buckets whose counts are gone on from; beyond, what they hold is not known. */
const MOST_COPIED = 500_000
const UNLIMITED = Number.MAX_SAFE_INTEGER
const PASSES: Decision = { at: 0, admitted: true, remaining: 0, resetSeconds: 0, retryAfterSeconds: 0, before: -1 }

interface ShadowLimitsParts {
  readonly judge: Judge
  /** Absent: each bucket begins empty. */
  readonly counted?: { readonly by: LimiterTable; readonly until: number } | undefined
  /** Does the candidate see the exchanges of all clients? */
  readonly everyone: boolean
}

/**
 * The buckets of a candidate. Each begins with what was counted when the shadow began, which is copied when the bucket is first
 * asked: admissions that came later are those that the candidate decides itself.
 */
export class ShadowLimits implements Limiter {
  readonly #parts: ShadowLimitsParts
  #made: LimiterTable | undefined
  /** Stands for the present while admissions of the past are counted. */
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
      // What was counted then has left every window by now.
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

  /** Most policies have no limit, so its memory is taken when one is there. */
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

/** Admissions of a bucket that came until then. Where it counts by spans of time, the span that goes on beyond counts less its last one. */
function admissionsUntil(
  running: ReturnType<LimiterTable['window']>,
  key: string,
  until: number,
  seconds: number
): Admissions[] {
  const all: Admissions[] = []
  const last = running.pour(key, { add: (stamp, count) => all.push({ stamp, count }) })
  const span = Math.max((seconds * 1_000) / 120, seconds > 7_200 ? 60_000 : 0)
  return all.flatMap(({ stamp, count }) => {
    if (stamp <= until) return [{ stamp: last !== undefined && Math.ceil(last) === stamp ? last : stamp, count }]
    return count > 1 && stamp - span <= until ? [{ stamp: until, count: count - 1 }] : []
  })
}
