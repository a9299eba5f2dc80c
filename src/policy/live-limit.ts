import type { Phase } from '../flow/flow.js'
import type { Json } from '../lib/json.js'
import type { Place } from '../lib/positions.js'

/** A part of a bucket key: a CEL expression, and the type of its values if known. */
export interface KeyPart {
  readonly source: string
  readonly type: string
}

/** Decisions of a limit since its start. */
interface LimitCounts {
  readonly admitted: number
  readonly refused: number
  /** Requests beyond the capacity that passed because the limit was not enforced. */
  readonly wouldRefuse: number
  /** Buckets with a current admission. */
  readonly buckets: number
}

/** Current state of one bucket. */
export interface LimitBucket {
  /** Admissions in the window. */
  readonly used: number
  /** Part of `used` that is counted for several keys together, because the limiter's memory is full. */
  readonly shared: number
  /** Capacity that is left; undefined if each request has its own capacity. */
  readonly remaining: number | undefined
  /** Seconds until the whole capacity is free without further admissions. */
  readonly resetSeconds: number
  /** Seconds until a request with cost 1 is admitted; 0 for now; undefined if that depends on its capacity. */
  readonly retryAfterSeconds: number | undefined
}

/** Usage of a limit in one step of its series. */
interface LimitStep {
  /** Milliseconds since the step began. */
  readonly age: number
  readonly admitted: number
  readonly refused: number
  /** Admissions of the fullest bucket. */
  readonly used: number
}

/** A key whose requests exceed the capacity. */
export interface LimitedKey {
  /** Key in the limit's form; undefined if too long to store. */
  readonly key: string | undefined
  /** Key values as a JSON list, null for a failed one; undefined if too long. */
  readonly text: string | undefined
  readonly failed: boolean
  /** Bounds of its recent rejections. */
  readonly most: number
  readonly least: number
  /** Milliseconds since the last rejection. */
  readonly age: number
}

/** A number of a limit: its source, and its value, undefined if an expression computes it per request. */
interface LimitAmount {
  readonly source: string
  readonly constant: number | undefined
}

/** Settings of a limit from its policy. */
interface LimitSettings {
  /** Identity of the buckets, equal in every process; a new identity means new buckets. */
  readonly identity: string
  readonly name: string
  readonly algorithm: string
  /** Processes that count together: each alone, or all on one store. */
  readonly scope: 'server' | 'cluster'
  readonly enforced: boolean
  /** Maximum admissions of one bucket in any `seconds`. */
  readonly capacity: LimitAmount
  /** Admissions that one request counts for. */
  readonly cost: LimitAmount
  readonly seconds: number
  readonly bucketKey: readonly KeyPart[]
}

/** A limit of a running policy, with its state and operations for its buckets. */
export interface LiveLimit extends LimitSettings {
  counts(): LimitCounts
  /** Total decisions within the series. */
  recent(): { readonly admitted: number; readonly refused: number }
  /** Steps of the last minutes, oldest first; the last step is incomplete. */
  series(): { readonly stepSeconds: number; readonly steps: readonly LimitStep[] }
  /** Keys with the most recent rejections; undefined if not recorded. */
  limitedKeys(most: number): readonly LimitedKey[] | undefined
  /** Returns the key for these values, one per part, as requests produce it. */
  keyOf(values: readonly Json[]): string
  /** Rejects, like `empty`, if the processes that count together cannot be reached. */
  bucket(key: string): Promise<LimitBucket>
  /** Empties a bucket, except for its shared part. */
  empty(key: string): Promise<void>
}

/** A limit with its position in its policy. */
export interface PolicyLimit {
  readonly limit: LiveLimit
  readonly phase: Phase
  /** Name of the rule, or `#<index>` if it has none. */
  readonly rule: string
  /** Index of the rule in its phase, from 0. */
  readonly ruleIndex: number
  /** Position of the action in the document. */
  readonly place: Place
}
