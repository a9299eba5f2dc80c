import type { KeptStateDraft } from '../policy/services.js'

interface Kept {
  readonly value: unknown
  readonly users: Set<string>
}

/**
 * State that outlives snapshots (windows of limits, breakers), by a key that says when continuity holds.
 *
 * A compilation asks for state through a draft: known keys answer what is kept, unknown ones build something new that
 * nobody else sees. `commit` makes the draft real when the snapshot is swapped in; a draft that is dropped
 * neither adds nor removes anything. State is swept when the last unit that uses it is gone.
 */
export class KeptState {
  readonly #kept = new Map<string, Kept>()

  get size(): number {
    return this.#kept.size
  }

  draft(): Draft {
    return new Draft(this.#kept)
  }
}

export class Draft {
  readonly #kept: Map<string, Kept>
  readonly #made = new Map<string, unknown>()
  readonly #uses = new Map<string, Set<string>>()

  constructor(kept: Map<string, Kept>) {
    this.#kept = kept
  }

  /** The draft as one unit sees it. `JSON.stringify` of the key is the identity; keys of different units may meet. */
  for(unit: string): KeptStateDraft {
    const used = new Set<string>()
    this.#uses.set(unit, used)
    return {
      keep: <T>(key: readonly unknown[], make: (identity: string) => T): T => {
        const identity = JSON.stringify(key)
        used.add(identity)
        const kept = this.#kept.get(identity)
        if (kept !== undefined) return kept.value as T
        if (!this.#made.has(identity)) this.#made.set(identity, make(identity))
        return this.#made.get(identity) as T
      }
    }
  }

  /** Keeps what the recompiled units asked for and sweeps what they and the dropped units no longer use. Cannot fail. */
  commit(dropped: readonly string[]): void {
    for (const [unit, identities] of this.#uses) {
      for (const identity of identities) {
        let kept = this.#kept.get(identity)
        if (kept === undefined) {
          kept = { value: this.#made.get(identity), users: new Set() }
          this.#kept.set(identity, kept)
        }
        kept.users.add(unit)
      }
    }
    for (const [identity, kept] of this.#kept) {
      for (const unit of kept.users) {
        const gone = dropped.includes(unit) || (this.#uses.has(unit) && !this.#uses.get(unit)?.has(identity))
        if (gone) kept.users.delete(unit)
      }
      if (kept.users.size === 0) this.#kept.delete(identity)
    }
  }
}
