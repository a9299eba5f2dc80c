import type { CandidatePolicies } from '../../control/candidate-policies.js'
import type { Rehearsed } from '../../control/writer.js'
import type { Snapshot } from '../../runtime/snapshot.js'
import type { ShadowCounts, ShadowView } from './answers.js'

/** Settings of a shadow. Times are milliseconds. */
export interface ShadowSettings {
  /** Display name; null for none. */
  readonly name: string | null
  /** Share of clients, greater than 0, at most 1. */
  readonly share: number
  /** For one exchange. */
  readonly budget: number
  readonly duration: number
  /** `running` copies the current counters of limits. */
  readonly counters: 'running' | 'empty'
  /** Examples of each kind of difference. */
  readonly examples: number
}

/** Configuration that a shadow tests. */
export interface ShadowCandidate {
  /** Policies instead of those that serve, by the keys of their units. */
  readonly instead: CandidatePolicies
  /** Result of rehearsed writes; undefined if there are none. */
  readonly changes: Rehearsed | undefined
}

/** A configuration that runs beside the running one, with its counts. */
export interface Beside {
  readonly counts: Pick<ShadowCounts, 'seen' | 'judged' | 'changed'>
  end(): void
}

/** Runs candidates beside traffic. */
export interface ShadowRunner {
  /**
   * Runs a whole configuration beside the running one, such as the one before a write. `routes`: ids of the judged routes.
   * The shadow is not listed by the API, does not count towards its limits, and runs until it is ended.
   */
  beside(base: Snapshot, routes: ReadonlySet<string> | 'every', settings: ShadowSettings): Beside
  /** Fails with `EXCHANGES_ELSEWHERE` where other threads carry the traffic. */
  mustBeHere(): void
  /** Fails with a ControlError for a policy with errors, a route that is not there, or when too many run. */
  start(candidate: ShadowCandidate, settings: ShadowSettings): Promise<ShadowView>
  /** The newest first, without examples. */
  list(): readonly ShadowView[]
  get(id: string): ShadowView | undefined
  /** Ends a shadow and deletes its results. Returns false if it does not exist. */
  remove(id: string): boolean
}
