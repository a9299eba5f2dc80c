/**
 * Whether the process can carry traffic. /healthz answers 200 when it is `ready` or `degraded` (it serves, but not
 * everything that the store holds), else 503.
 */
export type Readiness = 'starting' | 'ready' | 'degraded' | 'draining'
