import { sessionRecord } from '../../control/live-records.js'
import type { Clock } from '../../lib/clock.js'
import { type Json, timestampText } from '../../lib/json.js'
import { tunnelSession } from '../../resources/live.js'
import { present } from '../../resources/present.js'
import type { AgentSession } from '../server/agent-session.js'
import type { TunnelWatch } from '../server/registry.js'
import type { CredentialGrant } from './credential-grant.js'
import { liveSession } from './live-agents.js'

export interface SessionEventsParts {
  readonly events: {
    /** Does anybody subscribe to this type? */
    wants(type: string): boolean
    /** Must not throw. */
    tell(type: string, object: Json): void
  }
  readonly clock: Clock
  /** Scheme, host and port of the API as clients see it, without a slash at the end. */
  readonly baseUrl: () => string
  readonly zone: string
  readonly regions: readonly string[]
}

type Session = AgentSession<CredentialGrant>

const START = 'agent_session_start.v0'
const STOP = 'agent_session_stop.v0'
/** The reason may be an agent's own words. Characters. */
const MOST_REASON = 255

/**
 * Events of the sessions of this process: one when a session starts and one when it ends. A connection that takes the
 * place of another of the same session begins and ends nothing.
 */
export class SessionEvents implements TunnelWatch<CredentialGrant> {
  readonly #parts: SessionEventsParts
  /** Connections of each session, by its id. */
  readonly #connections = new Map<string, number>()

  constructor(parts: SessionEventsParts) {
    this.#parts = parts
  }

  sessionStarted(session: Session): void {
    const connections = this.#connections.get(session.id) ?? 0
    this.#connections.set(session.id, connections + 1)
    if (connections === 0) this.#tell(START, session, {})
  }

  sessionEnded(session: Session, why: string): void {
    const left = (this.#connections.get(session.id) ?? 1) - 1
    if (left > 0) {
      this.#connections.set(session.id, left)
      return
    }
    this.#connections.delete(session.id)
    const { clock } = this.#parts
    this.#tell(STOP, session, { stopped_at: timestampText(clock.wall()), reason: why.slice(0, MOST_REASON) })
  }

  /** The object is the session as the API shows it. */
  #tell(type: string, session: Session, more: Readonly<Record<string, Json>>): void {
    const { events, baseUrl, zone, regions } = this.#parts
    if (!events.wants(type)) return
    const context = {
      baseUrl: baseUrl(),
      zone,
      regions,
      showSecrets: () => false,
      children: () => [],
      tunnelsOf: () => []
    }
    const record = sessionRecord(liveSession(session, regions[0] ?? ''))
    events.tell(type, present(tunnelSession, record, context, more))
  }
}
