import type { KnownExplainKey } from './explain-keys.js'
import type { Following } from './followers.js'

/** What a recorder in another thread has to know. Plain data. */
export type ToThreadRecorder =
  | { readonly kind: 'follow'; readonly follower: number; readonly following: Following }
  | { readonly kind: 'unfollow'; readonly follower: number }
  | { readonly kind: 'explain-key'; readonly known: KnownExplainKey }

/** The threads whose recorders record for this one. */
export interface RecordingThreads {
  send(message: ToThreadRecorder): void
  /** Resolves when what they have recorded by now is here. */
  settle(): Promise<void>
}

/** What a recorder in another thread says. Plain data. */
export type FromThreadRecorder =
  /** What was recorded. `dropped`: exchanges that had no room on the way; `bytes`: of the others. */
  | {
      readonly kind: 'exchanges'
      readonly exchanges: readonly RelayedExchange[]
      readonly bytes: number
      readonly dropped: number
    }
  /** Exchanges that followers do not get because of their rate, by the number of the follower. */
  | { readonly kind: 'left-out'; readonly counts: ReadonlyMap<number, number> }

/** An exchange that another thread has recorded. Plain data. */
export interface RelayedExchange {
  readonly id: string
  /** A `RecordedExchange`, as JSON. */
  readonly text: string
  readonly explained: boolean
  /** For itself, and not only for those who follow. */
  readonly wanted: boolean
  /** Those who follow and mean it. */
  readonly followers: readonly number[]
}
