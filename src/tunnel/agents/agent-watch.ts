import type { LiveChange } from '../../control/live-sources.js'
import type { AgentSession } from '../server/agent-session.js'
import type { TunnelWatch } from '../server/registry.js'
import type { CredentialGrant } from './credential-grant.js'

export interface AgentWatchParts {
  readonly log: { info(fields: object, message: string): void }
  readonly watch: TunnelWatch<CredentialGrant>
  readonly changed: LiveChange
}

/** Tells the log, those who show what lives, and whoever else wants to hear, who comes and goes. */
export function watching({ log, watch, changed }: AgentWatchParts): TunnelWatch<CredentialGrant> {
  return {
    sessionStarted(session) {
      log.info(about(session), 'an agent has connected')
      changed('session', session.id)
      watch.sessionStarted?.(session)
    },
    sessionEnded(session, why) {
      log.info({ ...about(session), why }, 'an agent has gone')
      changed('session', session.id)
      watch.sessionEnded?.(session, why)
    },
    tunnelStarted(tunnel) {
      changed('tunnel', tunnel.id)
      watch.tunnelStarted?.(tunnel)
    },
    tunnelEnded(tunnel) {
      changed('tunnel', tunnel.id)
      watch.tunnelEnded?.(tunnel)
    },
    tunnelChanged(tunnel) {
      changed('tunnel', tunnel.id)
      watch.tunnelChanged?.(tunnel)
    }
  }
}

function about({ id, ip, grant }: AgentSession<CredentialGrant>): object {
  return { session: id, ip, credential: grant.credential }
}
