import { defineErrors } from '../lib/errors.js'
import type { Snapshot } from './snapshot.js'

/** Why a port is not open, where the system gives no code of its own. */
export const portErrors = defineErrors({
  UNKNOWN: { text: 'A port could not be opened and the system gave no reason.', help: 'Look into the log.' }
})

/** A socket that could not be bound. */
export interface PortProblem {
  /** Key of the unit that asks for it. */
  readonly unit: string
  readonly host: string
  readonly port: number
  /** The system's word, such as EADDRINUSE. */
  readonly reason: string
}

/** Sockets that are bound and accept nothing yet. Exactly one of `commit` and `abandon` is called; neither fails. */
export interface BoundPorts {
  /** What could not be bound. */
  readonly failed: readonly PortProblem[]
  /** New ports accept, those that are no longer wanted close and drain. The snapshot they belong to serves already. */
  commit(): void
  abandon(): void
}

/** Opens and closes what a configuration listens on. */
export interface Ports {
  /** What is asked for and not open, because it could not be bound. It is tried again from time to time. */
  readonly missing: readonly PortProblem[]
  /** Binds what `next` asks for and `running` does not have. Never rejects. */
  bind(running: Snapshot, next: Snapshot): Promise<BoundPorts>
}

const NOTHING: BoundPorts = { failed: [], commit: () => undefined, abandon: () => undefined }

/** Of a process, or a test, that opens nothing by configuration. */
export const noPorts: Ports = { missing: [], bind: async () => NOTHING }
