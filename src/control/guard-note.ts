import type { StoreTransaction } from '../store/store.js'

/** Rates that a condition can bound, by the names that guards have for them. */
export const RATES = {
  'error-rate': 'failed',
  'refusal-rate': 'refused',
  'client-error-rate': 'clientErrors'
} as const

export type RateName = keyof typeof RATES

/** How much of something there may be. */
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
  /** Fewer requests than these say nothing. */
  readonly least: number
  readonly rates: readonly RateLimit[]
  /** Largest share, 0 to 1, of requests that are decided otherwise than before; undefined: any. */
  readonly changed: number | undefined
}

/** How a guard stands. `broken`: the write was reverted; `conflict`: it is broken and could not be. */
export const GUARD_STATES = ['baking', 'passed', 'inconclusive', 'broken', 'conflict', 'superseded'] as const

type GuardState = (typeof GUARD_STATES)[number]

/** The traffic that a guard judges. A type, not an interface, as all of these: they are JSON. */
export type GuardScope = {
  readonly all: boolean
  /** Ids of routes. */
  readonly routes: readonly string[]
  /** Ids of edges, those of TCP among them. */
  readonly edges: readonly string[]
  /** Hosts of these edges, which may be gone. */
  readonly hosts: readonly string[]
}

/** What was counted before a write. */
export type Baseline = {
  readonly requests: number
  readonly failed: number
  readonly refused: number
  readonly clientErrors: number
  /** By how much each count varied from one time to another, as a multiple of what chance alone does; at least 1. */
  readonly spread: { readonly failed: number; readonly refused: number; readonly clientErrors: number }
}

/** What the history says of the guard of a revision. */
export type GuardNote = {
  /** As `readGuard` takes it. */
  readonly conditions: string
  readonly state: GuardState
  /** Why it has come to its state, for people; null: it bakes, or has passed. */
  readonly reason: string | null
  /** RFC 3339; null: it bakes. */
  readonly ended_at: string | null
  /** The revision that reverted or superseded the write; null: none did. */
  readonly by: number | null
  /** What is judged, each scope by itself, with what was counted before the write. */
  readonly scopes: readonly (GuardScope & { readonly before: Baseline })[]
}

/** In the JSON text of each note whose guard bakes, and of no other. */
export const BAKING = '"state":"baking"'

/** How a guard ends. */
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

/** What a revert that a guard asks for does in its own transaction. */
export interface GuardedRevert {
  /** For the history. */
  readonly reason: string
  /** Id of the principal whose write is reverted, and whose rights to vaults and restrictions count. */
  readonly author: string
  /** Does what belongs to the same transaction; what it throws undoes everything. */
  also(tx: StoreTransaction): Promise<void>
}
