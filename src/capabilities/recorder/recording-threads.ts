import type { KnownExplainKey } from './explain-keys.js'
import type { Following } from './followers.js'

/** Messages to the recorder of a worker. Plain data. */
export type ToThreadRecorder =
  | { readonly kind: 'follow'; readonly follower: number; readonly following: Following }
  | { readonly kind: 'unfollow'; readonly follower: number }
  | { readonly kind: 'explain-key'; readonly known: KnownExplainKey }

/** Workers whose recorders record for this one. */
export interface RecordingThreads {
  send(message: ToThreadRecorder): void
  /** Resolves when all records of the workers have arrived. */
  settle(): Promise<void>
}

/** Messages from the recorder of a worker. Plain data. */
export type FromThreadRecorder =
  /** Recorded exchanges. `dropped`: number of exchanges dropped in transit; `bytes`: size of the others. */
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
  /** Recorded even without followers. */
  readonly wanted: boolean
  /** Numbers of the matching followers. */
  readonly followers: readonly number[]
}
