import { ControlError } from '../../control/control-error.js'
import type { LiveChange, LiveSession, LiveSources, LiveTunnel, SessionCommand } from '../../control/live-sources.js'
import type { ShardedMap } from '../../lib/sharded-map.js'
import type { SnapshotHolder } from '../../runtime/holder.js'
import type { TunnelUpstream, UpstreamUnit } from '../../runtime/plan.js'
import type { AgentSession } from '../server/agent-session.js'
import type { Labels } from '../server/authority.js'
import type { Registry } from '../server/registry.js'
import type { CredentialGrant } from './credential-grant.js'

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
    for (const { id, startedAt, session, url, proto, metadata, labels, forwardsTo } of this.#registry.tunnels()) {
      shown.set(id, {
        id,
        startedAt,
        session: session.id,
        publicUrl: url,
        proto,
        region: this.#region,
        metadata,
        labels: labels ?? {},
        forwardsTo
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

  /** A session or a tunnel has come, changed or gone. */
  changed(...change: Parameters<LiveChange>): void {
    this.#changed(...change)
  }

  /** Fails with `UNAVAILABLE` when the agent does not do it. */
  async command(id: string, command: SessionCommand): Promise<boolean> {
    const session = this.#registry.session(id)
    if (session === undefined) return false
    const why = await session.command(command)
    if (why !== undefined) throw new ControlError('UNAVAILABLE', `the agent does not ${command}: ${why}`)
    return true
  }

  /** The groups of tunnels of the configuration that serves; looked for once for each set of upstreams. */
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
export function liveSession(
  { id, startedAt, grant, facts }: AgentSession<CredentialGrant>,
  region: string
): LiveSession {
  const { ip, metadata, os, version, userAgent } = facts
  const agentVersion = version === '' ? userAgent : version
  return { id, startedAt, agentVersion, credential: grant.credential, ip, metadata, os, region, transport: TRANSPORT }
}

function carries(labels: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value)
}
