import type { AuthThrottle } from '../../../lib/auth-throttle.js'
import type { Clock } from '../../../lib/clock.js'
import type { Grant, Identities, TunnelAuthority } from './authority.js'
import type { BindThrottle } from './bind-throttle.js'
import type { Endpoints } from './binding.js'
import type { RegisteredSession, Registry } from './registry.js'
import type { TunnelLimits } from './tunnel.js'

/** State shared by all sessions of a listener. */
export interface SessionHost<G extends Grant> {
  readonly authority: TunnelAuthority<G>
  readonly registry: Registry<G>
  readonly endpoints: Endpoints<G>
  readonly identities: Identities
  readonly throttle: AuthThrottle
  readonly binds: BindThrottle
  readonly clock: Clock
  readonly limits: TunnelLimits
  /** Names that are made up lie below it. */
  readonly zone: string
  readonly region: string
  readonly version: string
  /** A former connection of the same agent may be given up. */
  replaced(session: RegisteredSession<G>): void
  authenticated(session: RegisteredSession<G>): void
  ended(session: RegisteredSession<G>): void
  /** For the log: an error of ours. */
  failed(error: unknown): void
}
