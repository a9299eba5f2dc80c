import { atOnce, type Steps } from '../../lib/slices.js'
import type { Action } from '../../policy/action.js'
import { type CompiledPolicy, compilingPolicy } from '../../policy/compile.js'
import type { UnitProblems } from '../../policy/problems.js'
import type { PolicyServices } from '../../policy/services.js'
import type { PolicyUnit } from '../../runtime/plan.js'
import { type PolicySource, Snapshot } from '../../runtime/snapshot.js'

/** Inputs for compiling the policies of a simulated exchange. */
export interface CandidateParts {
  readonly services: PolicyServices
  readonly actions: readonly Action[]
  /** Texts of policies instead of those that run, by the keys of their units. */
  readonly instead?: ReadonlyMap<string, PolicySource>
  /** State that outlives the snapshot, by its identity. @default a new map */
  readonly kept?: Map<string, unknown>
}

/**
 * The running configuration with its own policies: they are compiled when an exchange reaches them, have their own counters
 * and use the given services. The running configuration does not change.
 */
export class CandidateSnapshot extends Snapshot {
  readonly #parts: CandidateParts
  readonly #compiled = new Map<string, CompiledPolicy | undefined>()
  readonly #kept: Map<string, unknown>
  /** Vault values that policies have read; they are hidden in all output. */
  readonly read = new Set<string>()

  constructor(running: Snapshot, parts: CandidateParts) {
    super(running.plan, running.tables, running.revision)
    this.#parts = parts
    this.#kept = parts.kept ?? new Map()
  }

  override policy(key: string): CompiledPolicy | undefined {
    if (!this.#compiled.has(key)) this.#compiled.set(key, atOnce(this.#compiling(key)).policy)
    return this.#compiled.get(key)
  }

  override policySource(key: string): PolicySource | undefined {
    return this.#parts.instead?.get(key) ?? super.policySource(key)
  }

  override secret(vault: string, name: string): string | undefined {
    const value = super.secret(vault, name)
    if (value !== undefined) this.read.add(value)
    return value
  }

  /** Yields between the checks of the candidate policies; returns their errors, without warnings. */
  *checking(): Steps<UnitProblems[]> {
    const all: UnitProblems[] = []
    for (const [key, { text, source }] of this.#parts.instead ?? []) {
      const { policy, problems: found } = yield* this.#compiling(key)
      this.#compiled.set(key, policy)
      const problems = found.filter(({ severity }) => severity === 'error')
      if (problems.length > 0) all.push({ key, source, text, problems })
    }
    return all
  }

  *#compiling(key: string): ReturnType<typeof compilingPolicy> {
    const { services, actions, instead } = this.#parts
    const unit = this.plan.units.get(key) as PolicyUnit | undefined
    const text = instead?.get(key)?.text ?? unit?.text
    if (text === undefined) return { problems: [] }
    const { owner = key.slice(key.indexOf(':') + 1), carrier = 'http' } = unit ?? {}
    return yield* compilingPolicy(text, {
      owner,
      services,
      actions,
      carrier,
      connections: carrier === 'http' ? 'http' : 'edge',
      keep: { keep: (parts, make) => this.#keep([key, ...parts], make) },
      unavailable: 'refuse'
    })
  }

  #keep<T>(key: readonly unknown[], make: (identity: string) => T): T {
    // The identity of the running policy finds the counters to copy.
    const identity = JSON.stringify(key.slice(1))
    const known = JSON.stringify(key)
    if (!this.#kept.has(known)) this.#kept.set(known, make(identity))
    return this.#kept.get(known) as T
  }
}
