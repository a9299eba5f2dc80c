import type { Clock } from '../../lib/clock.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import type { EventFolders } from './event-folders.js'
import type { Sender } from './sender.js'
import type { StandardOutput } from './stdout.js'

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
