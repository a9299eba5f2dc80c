import type { Phase } from '../exchange/flow.js'
import type { Expressions } from '../expression/expression.js'
import type { Clock } from '../lib/clock.js'
import type { LimiterTable } from '../limiter/table.js'

export interface Counter {
  inc(): void
}

/** Counters of the policy layer; every method binds its labels once, when a policy is compiled. */
export interface PolicyMeter {
  /** A rule's expressions were all true. */
  matched(owner: string, phase: Phase, rule: string): Counter
  /** An action of the rule ended the exchange. */
  decided(owner: string, phase: Phase, rule: string, action: string): Counter
  /** An expression or an action had no value: `absent` (the rule did not match) or `failed` (the exchange failed closed). */
  failed(owner: string, phase: Phase, rule: string, kind: 'absent' | 'failed'): Counter
  /** One limit: admitted, refused, and refused had it been enforced. */
  limit(
    owner: string,
    name: string
  ): { readonly admitted: Counter; readonly refused: Counter; readonly wouldRefuse: Counter }
}

/** Where the policy layer says what went wrong at run time. Fields hold no data of the exchange. */
export interface PolicyLog {
  debug(fields: Readonly<Record<string, unknown>>, message: string): void
  warn(fields: Readonly<Record<string, unknown>>, message: string): void
}

/** What compiled policies use of the rest of the house. */
export interface PolicyServices {
  readonly clock: Clock
  readonly expressions: Expressions
  readonly limiter: LimiterTable
  readonly meter: PolicyMeter
  readonly log: PolicyLog
  /** `draft` adds `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10) to answers. */
  readonly rateLimitHeaders: 'none' | 'draft'
}

/**
 * State that outlives a snapshot, by a key that says when continuity holds. What `make` builds becomes kept at the swap;
 * `identity` is the whole key as text, the same in every process and after every restart.
 */
export interface KeptStateDraft {
  keep<T>(key: readonly unknown[], make: (identity: string) => T): T
}
