/**
 * Whether the process can carry traffic. /healthz and /readyz answer 200 when it is `ready` or `degraded` (it serves, but
 * something is not as it should be), else 503.
 */
export type Readiness = 'starting' | 'ready' | 'degraded' | 'draining'

/** Why a process that serves is degraded. */
export interface Degradation {
  /** Short words of a closed set, in the order of their list; none: it is not. */
  readonly reasons: readonly string[]
  /** How many revisions of the store are late here. */
  readonly revisionsBehind: number
}
