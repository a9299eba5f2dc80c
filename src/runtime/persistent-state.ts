import { atOnce, type Steps } from '../lib/slices.js'
import type { KeptStateDraft } from '../policy/services.js'

interface Kept {
  readonly value: unknown
  readonly users: Set<string>
}

/** State that one unit uses, by identity. */
type Uses = ReadonlyMap<string, unknown>

const NO_USES: Uses = new Map()

/**
 * State that outlives snapshots (rate-limit windows, circuit breakers), by a key that defines when it is kept.
 *
 * A compilation requests state from a draft: known keys return the kept state, new keys create state that is not yet visible. `taking` and
 * `sweeping` apply the draft around the swap of the snapshot; a discarded draft changes nothing. State is released with its last unit. The
 * cost depends on the units of the change alone.
 */
export class PersistentState {
  readonly #kept = new Map<string, Kept>()
  /** State by unit; units without state have no entry. */
  readonly #uses = new Map<string, Uses>()

  get size(): number {
    return this.#kept.size
  }

  draft(): Draft {
    return new Draft(this.#kept, this.#uses)
  }
}

export class Draft {
  readonly #kept: Map<string, Kept>
  readonly #before: Map<string, Uses>
  readonly #made = new Map<string, unknown>()
  readonly #uses = new Map<string, Map<string, unknown>>()

  constructor(kept: Map<string, Kept>, uses: Map<string, Uses>) {
    this.#kept = kept
    this.#before = uses
  }

  /** Returns one unit's view of the draft. `JSON.stringify` of the key is the identity; units with the same key share state. */
  for(unit: string): KeptStateDraft {
    const used = new Map<string, unknown>()
    this.#uses.set(unit, used)
    return {
      keep: <T>(key: readonly unknown[], make: (identity: string) => T): T => {
        const identity = JSON.stringify(key)
        const value = this.#find(identity, make)
        used.set(identity, value)
        return value as T
      }
    }
  }

  /** Applies the draft at once. Cannot fail. */
  commit(dropped: readonly string[]): void {
    atOnce(this.taking())
    atOnce(this.sweeping(dropped))
  }

  /** Keeps the state of the recompiled units. Runs before `sweeping`, so that state can move between units. Cannot fail. */
  *taking(): Steps<void> {
    for (const [unit, uses] of this.#uses) {
      for (const [identity, value] of uses) this.#take(identity, value, unit)
      yield
    }
  }

  /** Releases state that recompiled and dropped units no longer use. Cannot fail. */
  *sweeping(dropped: readonly string[]): Steps<void> {
    for (const [unit, uses] of this.#uses) {
      this.#settle(unit, uses)
      yield
    }
    for (const unit of dropped) {
      this.#settle(unit, NO_USES)
      yield
    }
  }

  #settle(unit: string, uses: Uses): void {
    for (const identity of this.#before.get(unit)?.keys() ?? []) if (!uses.has(identity)) this.#giveUp(identity, unit)
    if (uses.size === 0) this.#before.delete(unit)
    else this.#before.set(unit, uses)
  }

  #find(identity: string, make: (identity: string) => unknown): unknown {
    const kept = this.#kept.get(identity)
    if (kept !== undefined) return kept.value
    if (!this.#made.has(identity)) this.#made.set(identity, make(identity))
    return this.#made.get(identity)
  }

  #take(identity: string, value: unknown, unit: string): void {
    const kept = this.#kept.get(identity)
    if (kept === undefined) this.#kept.set(identity, { value, users: new Set([unit]) })
    else kept.users.add(unit)
  }

  #giveUp(identity: string, unit: string): void {
    const kept = this.#kept.get(identity)
    kept?.users.delete(unit)
    if (kept?.users.size === 0) this.#kept.delete(identity)
  }
}
