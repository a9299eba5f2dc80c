import type { StoreTransaction } from '../store/store.js'

/** Rates that a condition can bound, by the names that guards have for them. */
export const RATES = {
  'error-rate': 'failed',
  'refusal-rate': 'refused',
  'client-error-rate': 'clientErrors'
} as const

/** Name of a rate that a guard can limit. */
export type RateName = keyof typeof RATES

/** Limit of a rate. */
export interface RateLimit {
  readonly name: RateName
  /** Compared with before the write, or for itself. */
  readonly relative: boolean
  /** 0 to 1. */
  readonly share: number
}

/** The conditions that a write carries. */
export interface Guard {
  /** Milliseconds for which the write is watched. */
  readonly bake: number
  /** Minimum number of requests for a judgement. */
  readonly least: number
  readonly rates: readonly RateLimit[]
  /** Maximum share, 0 to 1, of requests with a changed decision; undefined for any. */
  readonly changed: number | undefined
}

/** States of a guard. `broken`: the write was reverted; `conflict`: the revert failed. */
export const GUARD_STATES = ['baking', 'passed', 'inconclusive', 'broken', 'conflict', 'superseded'] as const

type GuardState = (typeof GUARD_STATES)[number]

/** Traffic that a guard judges. These are types, not interfaces: they are JSON. */
export type GuardScope = {
  readonly all: boolean
  /** Ids of routes. */
  readonly routes: readonly string[]
  /** Ids of edges, those of TCP among them. */
  readonly edges: readonly string[]
  /** Hosts of these edges, including deleted edges. */
  readonly hosts: readonly string[]
}

/** Counts before a write. */
export type Baseline = {
  readonly requests: number
  readonly failed: number
  readonly refused: number
  readonly clientErrors: number
  /** Variation of each count over time, as a multiple of chance; at least 1. */
  readonly spread: { readonly failed: number; readonly refused: number; readonly clientErrors: number }
}

/** Stored state of a revision's guard. */
export type GuardNote = {
  /** Text in the form of `readGuard`. */
  readonly conditions: string
  readonly state: GuardState
  /** Reason of its state, for display; null while baking or passed. */
  readonly reason: string | null
  /** End (RFC 3339); null while baking. */
  readonly ended_at: string | null
  /** The revision that reverted or superseded the write; null if there is none. */
  readonly by: number | null
  /** Scopes that are judged separately, each with its baseline. */
  readonly scopes: readonly (GuardScope & { readonly before: Baseline })[]
}

/** Text in the JSON of every note whose guard bakes, and only those. */
export const BAKING = '"state":"baking"'

/** End of a guard. */
export interface GuardEnd {
  readonly state: Exclude<GuardState, 'baking'>
  readonly reason: string | null
  readonly by: number | null
}

/** A guard that has ended. */
export interface EndedGuard extends GuardEnd {
  readonly revision: number
  readonly note: GuardNote
}

/** Part of a guard's revert in the same transaction. */
export interface GuardedRevert {
  /** For the history. */
  readonly reason: string
  /** Id of the principal of the reverted write, whose rights to vaults and restrictions count. */
  readonly author: string
  /** Adds to the same transaction; an error aborts it. */
  also(tx: StoreTransaction): Promise<void>
}
