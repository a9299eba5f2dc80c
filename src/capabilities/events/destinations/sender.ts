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
  /** One sentence for display, without secrets and without data of the response. */
  readonly message: string
  /** Milliseconds that the receiver asks to wait. */
  readonly retryAfter?: number | undefined
  /**
   * Cause of the failure. `event`: the receiver rejects the content of these events; `unclear`: the events or the receiver;
   * undefined: every other event would have failed, too.
   */
  readonly fault?: 'event' | 'unclear'
  /** Number of events at the beginning of the batch that were delivered. @default 0 */
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
  /** Repairs an incomplete write of an earlier process. Never rejects; the next `send` reports a remaining error. */
  begin?(): Promise<void>
  /** Releases its resources. */
  close(): Promise<void>
}

/** Services that a sender may use. */
export interface SenderParts {
  readonly outbound: Outbound
  readonly clock: Clock
  /** Folders for event files. @default none */
  readonly folders?: EventFolders | undefined
  readonly stdout: StandardOutput
}

/** The configuration of one target, with its sealed values by their names in it. */
interface TargetConfig {
  readonly body: Readonly<Record<string, unknown>>
  secret(name: string): string | undefined
}

/** A kind of event target. */
export interface Kind {
  open(config: TargetConfig, parts: SenderParts): Sender
  /** Returns the reason why such a target receives no events; undefined if it does. */
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
