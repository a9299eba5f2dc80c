import { serviceKey } from '../../policy/services.js'
import { type RefusedNumbers, sumOfRefused } from './refused-keys.js'
import { sumOfUsage, type UsageNumbers } from './usage.js'

/** Counts of one thread for a limit, as plain data. */
export interface LimitNumbers {
  readonly admitted: number
  readonly refused: number
  readonly wouldRefuse: number
  readonly usage: UsageNumbers
  /** Numbers of refused keys; undefined if keys are not recorded, or none was refused. */
  readonly keys: RefusedNumbers | undefined
}

/** Adds the counts of two threads for one limit. */
export function sumOfLimits(one: LimitNumbers, other: LimitNumbers): LimitNumbers {
  return {
    admitted: one.admitted + other.admitted,
    refused: one.refused + other.refused,
    wouldRefuse: one.wouldRefuse + other.wouldRefuse,
    usage: sumOfUsage(one.usage, other.usage),
    keys:
      one.keys === undefined || other.keys === undefined ? (one.keys ?? other.keys) : sumOfRefused(one.keys, other.keys)
  }
}

/** Limit that decides in this thread. */
interface DecidingLimit {
  /** Number of its decisions. */
  readonly decided: number
  /** Returns its counts; undefined before the first decision. `at`: monotonic milliseconds. */
  numbers(at: number): LimitNumbers | undefined
}

/** Exchange of counts between threads for limits with shared buckets. */
export interface LimitRelay {
  /** Registers a limit that decides in this thread. */
  begins(identity: string, limit: DecidingLimit): void
  /** Returns the counts of other threads; undefined for none. */
  elsewhere(identity: string): LimitNumbers | undefined
}

/** Relay to the thread that decides; undefined if limits decide in this thread alone. */
export const limitRelay = serviceKey<LimitRelay | undefined>('limit_relay', () => undefined)

/** Reports the counts of limits from a traffic thread. */
export class LimitReports implements LimitRelay {
  /** Weak references, because limits disappear with their policies, and a compiled policy may never be used. */
  #limits: { readonly identity: string; readonly limit: WeakRef<DecidingLimit>; reported: number }[] = []

  begins(identity: string, limit: DecidingLimit): void {
    this.#limits.push({ identity, limit: new WeakRef(limit), reported: 0 })
  }

  elsewhere(): undefined {
    return undefined
  }

  /** Returns the complete counts that changed since the last call, by limit identity. */
  changed(at: number): Map<string, LimitNumbers> {
    const changed = new Map<string, LimitNumbers>()
    this.#limits = this.#limits.filter((known) => {
      const limit = known.limit.deref()
      if (limit === undefined) return false
      const { decided } = limit
      const numbers = decided === known.reported ? undefined : limit.numbers(at)
      known.reported = decided
      if (numbers !== undefined) changed.set(known.identity, numbers)
      return true
    })
    return changed
  }
}

interface KnownLimit {
  limits: WeakRef<DecidingLimit>[]
  /** Counts by thread. */
  readonly counted: Map<object, LimitNumbers>
}

/** Counts reported by traffic threads, in the control plane's thread. */
export class LimitsElsewhere implements LimitRelay {
  readonly #limits = new Map<string, KnownLimit>()
  /** Key for the sum of all stopped threads. */
  readonly #ended = {}

  /** Registers a limit with this identity, new or from another compiled policy that may never be used. */
  begins(identity: string, limit: DecidingLimit): void {
    const before = this.#limits.get(identity)
    const limits = [...(before?.limits ?? []).filter((one) => one.deref() !== undefined), new WeakRef(limit)]
    this.#limits.set(identity, { limits, counted: new Map() })
  }

  elsewhere(identity: string): LimitNumbers | undefined {
    const counted = [...(this.#limits.get(identity)?.counted.values() ?? [])]
    return counted.length === 0 ? undefined : counted.reduce(sumOfLimits)
  }

  /** Stores the counts of `thread` since its start. Counts of unknown limits are ignored. */
  take(thread: object, changed: ReadonlyMap<string, LimitNumbers>): void {
    for (const [identity, numbers] of changed) this.#limits.get(identity)?.counted.set(thread, numbers)
    for (const [identity, known] of this.#limits) {
      known.limits = known.limits.filter((limit) => limit.deref() !== undefined)
      if (known.limits.length === 0) this.#limits.delete(identity)
    }
  }

  /** Adds the counts of a stopped thread to the sum. */
  ends(thread: object): void {
    for (const { counted } of this.#limits.values()) {
      const last = counted.get(thread)
      if (last === undefined) continue
      counted.delete(thread)
      const before = counted.get(this.#ended)
      counted.set(this.#ended, before === undefined ? last : sumOfLimits(before, last))
    }
  }
}
