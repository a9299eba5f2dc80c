import { serviceKey } from '../../policy/services.js'
import { type RefusedNumbers, sumOfRefused } from './refused-keys.js'
import { sumOfUsage, type UsageNumbers } from './usage.js'

/** What one thread has counted of a limit, as plain data. */
export interface LimitNumbers {
  readonly admitted: number
  readonly refused: number
  readonly wouldRefuse: number
  readonly usage: UsageNumbers
  /** Undefined: keys are not kept, or there was none. */
  readonly keys: RefusedNumbers | undefined
}

/** What two threads have counted of one limit. */
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

/** A limit that decides in this thread. */
interface DecidingLimit {
  /** How often it has decided. */
  readonly decided: number
  /** Undefined: it has not decided yet. `at`: monotonic milliseconds. */
  numbers(at: number): LimitNumbers | undefined
}

/** What limits that decide in several threads have to do with one another beside their buckets, which they share. */
export interface LimitRelay {
  /** The limit decides in this thread from now on. */
  begins(identity: string, limit: DecidingLimit): void
  /** What other threads have counted of it; undefined: nothing. */
  elsewhere(identity: string): LimitNumbers | undefined
}

/** Undefined: limits decide in this thread alone. */
export const limitRelay = serviceKey<LimitRelay | undefined>('limit_relay', () => undefined)

/** In a thread that carries traffic: reports what its limits have counted. */
export class LimitReports implements LimitRelay {
  /** Those whose policies are gone go with them. A policy that is compiled and never serves has limits, too. */
  #limits: { readonly identity: string; readonly limit: WeakRef<DecidingLimit>; reported: number }[] = []

  begins(identity: string, limit: DecidingLimit): void {
    this.#limits.push({ identity, limit: new WeakRef(limit), reported: 0 })
  }

  elsewhere(): undefined {
    return undefined
  }

  /** What has changed since the last call, whole: numbers by the identity of the limit. */
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
  /** By thread. */
  readonly counted: Map<object, LimitNumbers>
}

/** In the thread of the control plane: what the threads that carry traffic have reported of their limits. */
export class LimitsElsewhere implements LimitRelay {
  readonly #limits = new Map<string, KnownLimit>()
  /** In the place of threads that have ended, together. */
  readonly #ended = {}

  /** A limit with this identity begins anew, or another policy of it is compiled that may never serve. */
  begins(identity: string, limit: DecidingLimit): void {
    const before = this.#limits.get(identity)
    const limits = [...(before?.limits ?? []).filter((one) => one.deref() !== undefined), new WeakRef(limit)]
    this.#limits.set(identity, { limits, counted: new Map() })
  }

  elsewhere(identity: string): LimitNumbers | undefined {
    const counted = [...(this.#limits.get(identity)?.counted.values() ?? [])]
    return counted.length === 0 ? undefined : counted.reduce(sumOfLimits)
  }

  /** `thread` has counted this since it began. What is of no limit of this thread is gone already. */
  take(thread: object, changed: ReadonlyMap<string, LimitNumbers>): void {
    for (const [identity, numbers] of changed) this.#limits.get(identity)?.counted.set(thread, numbers)
    for (const [identity, known] of this.#limits) {
      known.limits = known.limits.filter((limit) => limit.deref() !== undefined)
      if (known.limits.length === 0) this.#limits.delete(identity)
    }
  }

  /** The thread has ended: what it has counted stays. */
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
