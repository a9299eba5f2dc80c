import type {
  LiveChange,
  LiveSession,
  LiveSources,
  LiveTunnel,
  SessionCommand
} from '../../../control/cluster/live-sources.js'
import { ControlError, controlErrors } from '../../../control/errors.js'
import { sessionRecord } from '../../../control/reads.js'
import type { Clock } from '../../../lib/clock.js'
import { type Json, timestampText } from '../../../lib/json.js'
import type { ShardedMap } from '../../../lib/sharded-map.js'
import { tunnelSession } from '../../../resources/live.js'
import { present } from '../../../resources/present.js'
import type { TunnelUpstream, UpstreamUnit } from '../../../runtime/plan.js'
import type { SnapshotHolder } from '../../../runtime/snapshot.js'
import type { CredentialGrant, Labels } from '../server/authority.js'
import type { RegisteredSession, Registry, TunnelWatch } from '../server/registry.js'

const TRANSPORT = 'ngrok/2'

/** Sessions and tunnels of this process as the API shows them. */
export class LiveAgents implements LiveSources {
  readonly #registry: Registry<CredentialGrant>
  readonly #holder: SnapshotHolder
  readonly #region: string
  #changed: LiveChange = () => undefined
  #groups: readonly TunnelUpstream[] = []
  #groupsOf: ShardedMap<UpstreamUnit> | undefined

  constructor(registry: Registry<CredentialGrant>, holder: SnapshotHolder, region: string) {
    this.#registry = registry
    this.#holder = holder
    this.#region = region
  }

  /** One for each agent: a connection that another has replaced is not shown. */
  tunnelSessions(): Iterable<LiveSession> {
    const shown = new Map<string, LiveSession>()
    for (const session of this.#registry.sessions()) shown.set(session.id, liveSession(session, this.#region))
    return shown.values()
  }

  tunnels(): Iterable<LiveTunnel> {
    const shown = new Map<string, LiveTunnel>()
    for (const tunnel of this.#registry.tunnels()) {
      const { id, startedAt, session, url, proto, metadata, labels, forwardsTo, pooled } = tunnel
      shown.set(id, {
        id,
        startedAt,
        session: session.id,
        publicUrl: url,
        proto,
        region: this.#region,
        metadata,
        labels: labels ?? {},
        forwardsTo,
        pooled
      })
    }
    return shown.values()
  }

  backendsOf(labels: Labels): readonly string[] {
    return this.#liveGroups()
      .filter((group) => carries(labels, group.labels))
      .map(({ id }) => id)
  }

  watch(changed: LiveChange): void {
    this.#changed = changed
  }

  /** Reports a started, changed or ended session or tunnel. */
  changed(...change: Parameters<LiveChange>): void {
    this.#changed(...change)
  }

  /** Fails with `UNAVAILABLE` when the agent does not do it. */
  async command(id: string, command: SessionCommand): Promise<boolean> {
    const session = this.#registry.session(id)
    if (session === undefined) return false
    const why = await session.command(command)
    if (why !== undefined) throw new ControlError(controlErrors.UNAVAILABLE, `the agent does not ${command}: ${why}`)
    return true
  }

  /** Returns the tunnel groups of the running configuration, cached for each set of upstreams. */
  #liveGroups(): readonly TunnelUpstream[] {
    const { upstreams } = this.#holder.current().tables
    if (upstreams !== this.#groupsOf) {
      this.#groups = [...upstreams].flatMap(([, unit]) => (unit.form === 'tunnels' ? unit : []))
      this.#groupsOf = upstreams
    }
    return this.#groups
  }
}

/** A session as the API shows it. */
function liveSession({ id, startedAt, grant, facts }: RegisteredSession<CredentialGrant>, region: string): LiveSession {
  const { ip, metadata, os, version, userAgent } = facts
  const agentVersion = version === '' ? userAgent : version
  return { id, startedAt, agentVersion, credential: grant.credential, ip, metadata, os, region, transport: TRANSPORT }
}

function carries(labels: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value)
}

interface SessionEventsParts {
  readonly events: {
    /** Does a subscription take this type? */
    wants(type: string): boolean
    /** Must not throw. */
    publish(type: string, object: Json): void
  }
  readonly clock: Clock
  /** Scheme, host and port of the API as clients see it, without a slash at the end. */
  readonly baseUrl: () => string
  readonly zone: string
  readonly regions: readonly string[]
}

type Session = RegisteredSession<CredentialGrant>

const START = 'agent_session_start.v0'
const STOP = 'agent_session_stop.v0'
/** The reason may be an agent's own words. Characters. */
const MOST_REASON = 255

/**
 * Events of the sessions of this process: one when a session starts and one when it ends. A connection that replaces another
 * one of the same session causes no events.
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
    if (connections === 0) this.#publish(START, session, {})
  }

  sessionEnded(session: Session, why: string): void {
    const left = (this.#connections.get(session.id) ?? 1) - 1
    if (left > 0) {
      this.#connections.set(session.id, left)
      return
    }
    this.#connections.delete(session.id)
    const { clock } = this.#parts
    this.#publish(STOP, session, { stopped_at: timestampText(clock.wall()), reason: why.slice(0, MOST_REASON) })
  }

  /** The object is the session as the API shows it. */
  #publish(type: string, session: Session, more: Readonly<Record<string, Json>>): void {
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
    events.publish(type, present(tunnelSession, record, context, more))
  }
}

interface AgentWatchParts {
  readonly log: { info(fields: object, message: string): void }
  readonly watch: TunnelWatch<CredentialGrant>
  readonly changed: LiveChange
}

/** Reports connecting and disconnecting agents to the log, the live view and subscribers. */
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

function about({ id, ip, grant }: RegisteredSession<CredentialGrant>): object {
  return { session: id, ip, credential: grant.credential }
}
