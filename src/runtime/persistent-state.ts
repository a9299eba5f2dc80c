import { atOnce, type Steps } from '../lib/slices.js'
import type { KeptStateDraft } from '../policy/services.js'

interface Kept {
  readonly value: unknown
  readonly users: Set<string>
}

/** What one unit has asked for, by identity. */
type Uses = ReadonlyMap<string, unknown>

const NO_USES: Uses = new Map()

/**
 * State that outlives snapshots (windows of limits, breakers), by a key that says when continuity holds.
 *
 * A compilation asks for state through a draft: known keys answer what is kept, unknown ones build something new that
 * no other code sees. `taking` and `sweeping` make the draft real around the swap of the snapshot; a draft that is dropped
 * neither adds nor removes anything. State is swept when the last unit that uses it is gone. What they cost
 * depends on the units of its change alone, not on how much is kept.
 */
export class PersistentState {
  readonly #kept = new Map<string, Kept>()
  /** Unit to what it uses; units that use nothing are not in it. */
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

  /** The draft as one unit sees it. `JSON.stringify` of the key is the identity; keys of different units may meet. */
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

  /** Makes the draft real in one go. Cannot fail. */
  commit(dropped: readonly string[]): void {
    atOnce(this.taking())
    atOnce(this.sweeping(dropped))
  }

  /** Keeps what the recompiled units asked for. Comes before `sweeping`: state that goes from one unit to another stays. Cannot fail. */
  *taking(): Steps<void> {
    for (const [unit, uses] of this.#uses) {
      for (const [identity, value] of uses) this.#take(identity, value, unit)
      yield
    }
  }

  /** Gives up what the recompiled and the dropped units no longer use. Cannot fail. */
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
