import type { Clock } from '../../../lib/clock.js'
import type { Outbound } from '../../../lib/http-client/outbound.js'
import type { EventFolders } from './folders.js'

/** Events that travel together: JSON texts of envelopes. */
export interface Batch {
  /** The same in every repetition of this batch. */
  readonly id: string
  /** At least one. */
  readonly events: readonly string[]
  /** One object, or a list of them? Traffic events come in lists, however many there are. */
  readonly list: boolean
}

/** Why a batch was not taken. */
export interface SendFailure {
  /** For people: one sentence without secrets and without data of the answer. */
  readonly message: string
  /** Milliseconds that the receiver asks to wait. */
  readonly retryAfter?: number | undefined
  /**
   * Whose fault it is. `event`: the receiver refuses what these events are; `unclear`: it may be these events, and it may be
   * the receiver. Left out: every other event would have met the same.
   */
  readonly fault?: 'event' | 'unclear'
  /** How many events at the beginning of the batch were taken all the same; left out: none. */
  readonly taken?: number
}

/** The failure of something that had to come before the events, such as a log-in: no fault of theirs. */
export function beforeEvents({ fault: _, ...failure }: SendFailure): SendFailure {
  return failure
}

/** The way to one destination. */
export interface Sender {
  /** Most audit events that one batch may hold. */
  readonly most: number
  /** Sends once. Undefined when the receiver has taken all of it; never rejects. */
  send(batch: Batch, signal: AbortSignal): Promise<SendFailure | undefined>
  /** Mends what an earlier process has left half done. Never rejects; the next `send` meets what still is wrong. */
  begin?(): Promise<void>
  /** Lets go of what it holds. */
  close(): Promise<void>
}

/** What a destination may use to deliver. */
export interface SenderParts {
  readonly outbound: Outbound
  readonly clock: Clock
  /** Where files of events may lie; absent: nowhere. */
  readonly folders?: EventFolders | undefined
  readonly stdout: StandardOutput
}

/** The configuration of one target, with its sealed values by their names in it. */
interface TargetConfig {
  readonly body: Readonly<Record<string, unknown>>
  secret(name: string): string | undefined
}

/** How one kind of target gets its events. */
export interface Kind {
  open(config: TargetConfig, parts: SenderParts): Sender
  /** Why nothing is sent to such a target; undefined when something is. */
  unsupported?(body: TargetConfig['body'], folders: EventFolders): string | undefined
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** The standard output of the process, shared with the log. */
export interface StandardOutput {
  /** `text`: whole lines. `settled` is called once, with an error when they were not written. */
  write(text: string, settled: (error?: Error | null) => void): unknown
}
