import type { Phase } from '../flow/flow.js'
import type { Json } from '../lib/json.js'
import type { Place } from '../lib/positions.js'

/** A part of the key of a bucket: a CEL expression, and the type of its values where that is known. */
export interface KeyPart {
  readonly source: string
  readonly type: string
}

/** What a limit has decided since it began. */
interface LimitCounts {
  readonly admitted: number
  readonly refused: number
  /** Beyond the capacity while the limit was not enforced. */
  readonly wouldRefuse: number
  /** Buckets that hold an admission now. */
  readonly buckets: number
}

/** One bucket now. */
export interface LimitBucket {
  /** Admissions in the window. */
  readonly used: number
  /** Of these, what is known of several keys together, because the memory of the limiter is full. */
  readonly shared: number
  /** Undefined: each request brings its own capacity. */
  readonly remaining: number | undefined
  /** Seconds until the whole capacity is free when nothing more is admitted. */
  readonly resetSeconds: number
  /** Seconds until the next request that counts once is admitted; 0: now; undefined: that depends on its capacity. */
  readonly retryAfterSeconds: number | undefined
}

/** How a limit was used in one step of its series. */
interface LimitStep {
  /** Milliseconds since it began. */
  readonly age: number
  readonly admitted: number
  readonly refused: number
  /** Admissions that the fullest bucket held. */
  readonly used: number
}

/** A key whose requests go beyond the capacity. */
export interface LimitedKey {
  /** The key as the limit takes it; undefined: it is too long to be kept. */
  readonly key: string | undefined
  /** Its values as a JSON list, null for one that failed; undefined where it is too long. */
  readonly text: string | undefined
  readonly failed: boolean
  /** Bounds of how often it was refused lately. */
  readonly most: number
  readonly least: number
  /** Milliseconds since the last time. */
  readonly age: number
}

/** A number of a limit: as the document has it, and undefined where an expression says another one for each request. */
interface LimitAmount {
  readonly source: string
  readonly constant: number | undefined
}

/** Settings of a limit, as its policy has them. */
interface LimitSettings {
  /** The same as long as its buckets stay the same, in every process. */
  readonly identity: string
  readonly name: string
  readonly algorithm: string
  /** Who counts together: each process by itself, or all on one store. */
  readonly scope: 'server' | 'cluster'
  readonly enforced: boolean
  /** Admissions of one bucket in any span of `seconds`. */
  readonly capacity: LimitAmount
  /** For how many a request counts. */
  readonly cost: LimitAmount
  readonly seconds: number
  readonly bucketKey: readonly KeyPart[]
}

/** A limit of a policy that runs: what people see of it, and what they do to its buckets. */
export interface LiveLimit extends LimitSettings {
  counts(): LimitCounts
  /** What it decided within the steps of its series together. */
  recent(): { readonly admitted: number; readonly refused: number }
  /** The last minutes, oldest first; the last step is not over. */
  series(): { readonly stepSeconds: number; readonly steps: readonly LimitStep[] }
  /** Who is refused most lately; undefined: that is not kept. */
  limitedKeys(most: number): readonly LimitedKey[] | undefined
  /** The key with these values, one for each part, as a request with them has it. */
  keyOf(values: readonly Json[]): string
  /** Rejects, as `empty` does, when those who count together cannot be asked. */
  bucket(key: string): Promise<LimitBucket>
  /** Empties a bucket, but for what is shared. */
  empty(key: string): Promise<void>
}

/** A limit with its place in its policy. */
export interface PolicyLimit {
  readonly limit: LiveLimit
  readonly phase: Phase
  /** Name of the rule, or `#<index>` when it has none. */
  readonly rule: string
  /** Of the rule in its phase, from 0. */
  readonly ruleIndex: number
  /** Where the action stands in the document. */
  readonly place: Place
}
