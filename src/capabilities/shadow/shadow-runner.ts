import type { CandidatePolicies } from '../../control/candidate-policies.js'
import type { Rehearsed } from '../../control/writer.js'
import type { Snapshot } from '../../runtime/snapshot.js'
import type { ShadowCounts, ShadowView } from './answers.js'

/** How a shadow runs. Times are milliseconds. */
export interface ShadowSettings {
  /** For people; null: none. */
  readonly name: string | null
  /** Of the clients, above 0 to 1. */
  readonly share: number
  /** For one exchange. */
  readonly budget: number
  readonly duration: number
  /** Do limits go on from what is counted now? */
  readonly counters: 'running' | 'empty'
  /** Examples of each kind of difference. */
  readonly examples: number
}

/** What a shadow tries. */
export interface ShadowCandidate {
  /** Policies instead of those that serve, by the keys of their units. */
  readonly instead: CandidatePolicies
  /** What writes would make serve; undefined: there are none. */
  readonly changes: Rehearsed | undefined
}

/** A configuration that runs beside the one that serves, for what decides by its counts. */
export interface Beside {
  readonly counts: Pick<ShadowCounts, 'seen' | 'judged' | 'changed'>
  end(): void
}

/** Runs candidates beside traffic. */
export interface ShadowRunner {
  /**
   * Runs a whole configuration beside the one that serves, such as the one before a write. `routes`: ids of those whose exchanges
   * are judged. It is none of those that the API limits and lists, and goes on until it is ended.
   */
  beside(base: Snapshot, routes: ReadonlySet<string> | 'every', settings: ShadowSettings): Beside
  /** Fails with a ControlError for a policy with errors, a route that is not there, or when too many run. */
  start(candidate: ShadowCandidate, settings: ShadowSettings): Promise<ShadowView>
  /** The newest first, without examples. */
  list(): readonly ShadowView[]
  get(id: string): ShadowView | undefined
  /** Ends it and forgets what it has seen. False: there is none. */
  remove(id: string): boolean
}
