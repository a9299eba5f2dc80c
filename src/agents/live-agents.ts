import { ControlError } from '../control/control-error.js'
import type { LiveSession, LiveSources, LiveTunnel, SessionCommand } from '../control/live-sources.js'
import type { ShardedMap } from '../lib/sharded-map.js'
import type { TunnelUpstream, UpstreamUnit } from '../plan/plan.js'
import type { SnapshotHolder } from '../snapshot/holder.js'
import type { Labels } from '../tunnel/authority.js'
import type { Registry } from '../tunnel/registry.js'
import type { CredentialGrant } from './credential-grant.js'

const TRANSPORT = 'ngrok/2'

/** Sessions and tunnels of this process as the API shows them. */
export class LiveAgents implements LiveSources {
  readonly #registry: Registry<CredentialGrant>
  readonly #holder: SnapshotHolder
  readonly #region: string
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
    for (const { id, startedAt, grant, facts } of this.#registry.sessions()) {
      const { credential } = grant
      const { ip, metadata, os, version, userAgent } = facts
      const agentVersion = version === '' ? userAgent : version
      const common = { agentVersion, credential, ip, metadata, os, region: this.#region, transport: TRANSPORT }
      shown.set(id, { id, startedAt, ...common })
    }
    return shown.values()
  }

  tunnels(): Iterable<LiveTunnel> {
    const groups = this.#liveGroups()
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
        forwardsTo,
        backends:
          labels === undefined ? [] : groups.filter((group) => carries(labels, group.labels)).map(({ id }) => id)
      })
    }
    return shown.values()
  }

  /** Ids of the live tunnels that a backend selects. */
  tunnelsOf(backend: string): readonly string[] {
    const unit = this.#holder.current().upstream(`upstream:${backend}`)
    if (unit?.form !== 'tunnels') return []
    return [...new Set(this.#registry.select(unit.labels).map(({ id }) => id))]
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

function carries(labels: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value)
}
