import { defineErrors } from '../lib/errors.js'
import type { Snapshot } from './snapshot.js'

/** Reasons for a port that is not open, if the system gives no error code. */
export const portErrors = defineErrors({
  UNKNOWN: { text: 'A port could not be opened and the system gave no reason.', help: 'Look into the log.' }
})

/** Socket that could not be bound. */
export interface PortProblem {
  /** Key of the unit with the port. */
  readonly unit: string
  readonly host: string
  readonly port: number
  /** System error code, such as EADDRINUSE. */
  readonly reason: string
}

/** Bound sockets that do not accept connections yet. Exactly one of `commit` and `abandon` must be called; neither fails. */
export interface BoundPorts {
  /** Ports that could not be bound. */
  readonly failed: readonly PortProblem[]
  /** Starts accepting on new ports; closes and drains removed ones. Called once their snapshot is current. */
  commit(): void
  abandon(): void
}

/** Opens and closes the ports of the configuration. */
export interface Ports {
  /** Ports that could not be bound. They are retried periodically. */
  readonly missing: readonly PortProblem[]
  /** Binds the ports that `next` adds to `running`. Never rejects. */
  bind(running: Snapshot, next: Snapshot): Promise<BoundPorts>
}

const NOTHING: BoundPorts = { failed: [], commit: () => undefined, abandon: () => undefined }

/** Ports of a process or test whose configuration opens none. */
export const noPorts: Ports = { missing: [], bind: async () => NOTHING }
