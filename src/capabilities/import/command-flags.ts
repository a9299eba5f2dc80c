import type { Capability } from '../../app/capability.js'

/** Flags of `sluice import nginx`, and what the command brings. */
export interface ImportFlags {
  readonly output?: string
  readonly overwrite?: boolean
  readonly report: string
  /** Flag of `sluice import caddy` alone. */
  readonly adapt?: boolean
  readonly prove?: boolean
  readonly old?: string
  readonly requests?: string
  readonly allMethods?: boolean
  readonly upstreams: string
  readonly recordPorts?: string
  /** Loads the capabilities of the server that a proof starts. */
  capabilities(): Promise<readonly Capability[]>
}
