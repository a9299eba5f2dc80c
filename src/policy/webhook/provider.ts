import type { Challenge } from './challenge.js'
import type { Scheme } from './scheme.js'

/** A sender of webhooks. */
export interface Provider {
  readonly scheme: Scheme
  /** Answers questions that come without a signature. */
  readonly unsigned?: Challenge
  /** Answers questions that are signed as deliveries are. */
  readonly signed?: Challenge
  /** Status that the sender expects for a wrong signature; 403 when left out. */
  readonly refusal?: number
  /** It signs with a key of its own that nobody shares. */
  readonly withoutSecret?: boolean
  /** What of its scheme no public documentation of the sender confirms. */
  readonly unconfirmed?: string
}
