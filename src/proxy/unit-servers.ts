import type { Clock } from '../lib/clock.js'
import { ShardedMap } from '../lib/sharded-map.js'
import type { Steps } from '../lib/slices.js'
import type { AddressUpstream, TunnelUpstream, UpstreamUnit } from '../runtime/plan.js'
import type { Dialer, UpstreamKeys } from '../transport/contract.js'
import { Balancer } from './balance.js'
import type { ServerChecks } from './health.js'
import { isNamed, type Member, NamedServers, type NameState } from './named-servers.js'
import {
  type Observer,
  Outage,
  type OutageJudge,
  type OutageState,
  Server,
  type ServerState,
  type Surroundings,
  serverOf
} from './server.js'

/** Separator in a pool key between the group's key and the tunnel's part. */
const OF_TUNNEL = '\n'
/** Empty list of tunnels. */
const NO_TUNNELS: readonly LiveTunnel[] = []

/** Tunnel of an agent; the object stays the same while the tunnel lives. */
export interface LiveTunnel {
  /** Stable across reconnects of the agent. */
  readonly id: string
  /** Wall clock, milliseconds; changes with a reconnect. */
  readonly startedAt: number
  /** True if it accepts another visitor now. */
  readonly ready: boolean
}

/** Live tunnels by labels. */
export interface TunnelGroups {
  /** Returns the tunnels with these labels; the list object changes only with its content. */
  members(labels: TunnelUpstream['labels']): readonly LiveTunnel[]
  /** Returns a dialer through the tunnel; an unread refusal is retried on another tunnel with the labels. `key`: pool key. */
  dialer(key: string, labels: TunnelUpstream['labels'], tunnel: LiveTunnel): Dialer
  /** Notifies `follower` of all current and later tunnels until the returned function is called. */
  follow(follower: TunnelFollower): () => void
}

/** Receives starts and ends of tunnels; `labels` select the tunnel. Must not throw. */
export interface TunnelFollower {
  begins(tunnel: LiveTunnel, labels: TunnelUpstream['labels']): void
  ends(tunnel: LiveTunnel): void
}

/** Tunnels of one group as servers. */
export interface TunnelServers {
  readonly tunnels: readonly LiveTunnel[]
  readonly servers: readonly { readonly tunnel: LiveTunnel; readonly server: Server; readonly dialer: Dialer }[]
  readonly balancer: Balancer
}

/** Server of the current configuration that went down or recovered, as seen by this process. */
export interface ServerChange {
  /** Backend id, or option name. */
  readonly backend: string
  readonly server: string
  readonly state: ServerState
  readonly by: Observer
}

/** Server name of the current configuration that stopped or resumed resolving, as seen by this process. */
export interface NameChange {
  /** Backend id, or option name. */
  readonly backend: string
  readonly name: string
  readonly state: NameState
}

export interface UnitServersParts extends Surroundings {
  readonly clock: Clock
  readonly tunnels?: TunnelGroups
  /** Active health checks. @default passive health only */
  readonly checks?: ServerChecks
  /** Called at each change. Must not throw. */
  readonly changed?: (change: ServerChange) => void
  /** Called when the state of a name changes. Must not throw. */
  readonly named?: (change: NameChange) => void
  /** Called when the failures of an address change. Must not throw. */
  readonly outage?: (place: string, state: OutageState) => void
  /** Judges failures of addresses in another thread. @default this thread judges */
  readonly judge?: OutageJudge
  /** Called when the servers of a name change; connections with other keys can be closed. Must not throw. */
  readonly retain?: (keys: UpstreamKeys) => void
}

/** State of a unit's servers. */
export interface UnitState extends ServerState {
  /** State of each server, if the name may have several. */
  readonly servers?: readonly { readonly name: string; readonly state: ServerState }[]
  readonly name?: NameState
}

/**
 * Servers of upstream units: one per tunnel, per address unit, or per address of a name. While a unit is unchanged, its connections and
 * health are kept across snapshots.
 */
export class UnitServers {
  readonly #clock: Clock
  readonly #tunnels: TunnelGroups | undefined
  readonly #around: Surroundings
  readonly #checks: ServerChecks | undefined
  readonly #changed: UnitServersParts['changed']
  readonly #nameChanged: UnitServersParts['named']
  readonly #retain: UnitServersParts['retain']
  /** Single server of an address unit. */
  readonly #alone = new WeakMap<AddressUpstream, readonly [Member]>()
  readonly #named = new WeakMap<AddressUpstream, NamedServers>()
  /** Server of a tunnel, shared by all groups that select it. */
  readonly #tunnelServers = new WeakMap<LiveTunnel, Server>()
  readonly #groups = new WeakMap<TunnelUpstream, TunnelServers>()
  /** Tunnels by the key of their servers, the same in all threads. */
  readonly #live = new Map<string, LiveTunnel>()
  #followed: ShardedMap<UpstreamUnit> = ShardedMap.empty()
  /** Shared failures by address key. */
  readonly #outages = new Map<string, Outage>()
  readonly #outageChanged: UnitServersParts['outage']
  readonly #judge: OutageJudge | undefined
  /** Failures of addresses without a server in this thread. */
  readonly #known = new Map<string, OutageState>()
  /** Pool key → number of units with it. */
  readonly #uses = new Map<string, number>()
  #keys: UpstreamKeys = new Set<string>()
  #tunnelNumber = 0

  constructor({ clock, tunnels, checks, changed, named, outage, judge, retain, ...around }: UnitServersParts) {
    this.#outageChanged = outage
    this.#judge = judge
    this.#clock = clock
    this.#tunnels = tunnels
    this.#around = around
    this.#checks = checks
    this.#changed = changed
    this.#nameChanged = named
    this.#retain = retain
    tunnels?.follow({
      begins: (tunnel) => this.#live.set(placeOf(tunnel), tunnel),
      ends: (tunnel) => this.#tunnelEnded(tunnel)
    })
  }

  /** Returns the state of a unit's servers; undefined for a unit without servers. */
  stateOf(unit: UpstreamUnit | undefined): UnitState | undefined {
    if (unit?.form !== 'address') return undefined
    const members = this.members(unit)
    const named = this.#namedOf(unit)
    if (named === undefined) return members[0]?.server.state
    const servers = members.map(({ server: { name, state } }) => ({ name, state }))
    const best = servers.find(({ state }) => state.state !== 'down') ?? servers[0]
    return best === undefined ? undefined : { ...best.state, servers, name: named.state }
  }

  /** Returns the names of the current units with the keys of their units. */
  *names(): Generator<readonly [key: string, state: NameState]> {
    for (const [key, unit] of this.#followed) {
      const named = unit.form === 'address' ? this.#namedOf(unit) : undefined
      if (named !== undefined) yield [key, named.state]
    }
  }

  /** Returns the states of a group's tunnels by id; undefined for another unit. */
  tunnelStatesOf(unit: UpstreamUnit | undefined): (readonly [id: string, state: ServerState])[] | undefined {
    if (unit?.form !== 'tunnels') return undefined
    return this.tunnelsOf(unit).servers.map(({ tunnel, server }) => [tunnel.id, server.state] as const)
  }

  /** Returns true if the unit is in use. */
  follows(key: string): boolean {
    return this.#followed.get(key) !== undefined
  }

  /** Returns the servers of the current units with the keys of their units; a group's tunnels are adjacent. */
  *servers(): Generator<readonly [key: string, unit: UpstreamUnit, servers: readonly Server[]]> {
    for (const [key, unit] of this.#followed) {
      if (unit.form === 'address') for (const { server } of this.members(unit)) yield [key, unit, [server]]
      else if (unit.form === 'tunnels') yield [key, unit, this.tunnelsOf(unit).servers.map(({ server }) => server)]
    }
  }

  /**
   * Updates the units in use and returns their pool keys, in steps whose cost depends on the changes. `added` is called for each new or
   * changed unit, `dropped` for the key of each removed one. Must finish before it is called again.
   */
  *following(
    units: ShardedMap<UpstreamUnit>,
    { added, dropped }: { added(key: string, unit: UpstreamUnit): void; dropped(key: string): void }
  ): Steps<UpstreamKeys> {
    let changed = false
    const before = this.#followed
    this.#followed = units
    for (const { key, before: former, after } of units.since(before)) {
      yield
      if (after !== undefined) added(key, after)
      else dropped(key)
      changed = this.#count(key, after, 1) || changed
      changed = this.#count(key, former, -1) || changed
    }
    if (changed) this.#keys = withTunnels(new Set(this.#uses.keys()))
    return this.#keys
  }

  /** Returns the current servers of a unit, at least one. */
  members(unit: AddressUpstream): readonly Member[] {
    const known = this.#alone.get(unit)
    if (known !== undefined) return known
    const named = this.#namedOf(unit)
    if (named !== undefined) return named.members
    const alone = [{ server: serverOf(unit, this.#clock, this.#around), address: '', priority: 0, weight: 1 }] as const
    this.#alone.set(unit, alone)
    return alone
  }

  /** Returns the tunnels of a group as servers; the object changes only with the tunnels. */
  tunnelsOf(unit: TunnelUpstream): TunnelServers {
    const known = this.#groups.get(unit)
    const tunnels = this.#tunnels?.members(unit.labels) ?? NO_TUNNELS
    if (known?.tunnels === tunnels) return known
    const before = new Map(known?.servers.map((one) => [one.tunnel, one]))
    const servers = tunnels.map((tunnel) => before.get(tunnel) ?? this.#tunnelServer(unit, tunnel))
    const names = tunnels.map(({ id }) => id)
    const group = { tunnels, servers, balancer: new Balancer(unit, names) }
    this.#groups.set(unit, group)
    return group
  }

  /** Returns the resolver of a unit's name; undefined for an address. */
  #namedOf(unit: AddressUpstream): NamedServers | undefined {
    const { names } = this.#around
    if (names === undefined || !isNamed(unit)) return undefined
    let named = this.#named.get(unit)
    if (named === undefined) {
      named = new NamedServers(unit, this.#clock, this.#around, names)
      this.#named.set(unit, named)
    }
    return named
  }

  #tunnelServer(unit: TunnelUpstream, tunnel: LiveTunnel): TunnelServers['servers'][number] {
    const key = `${groupKey(unit)}${OF_TUNNEL}${++this.#tunnelNumber}`
    const dialer = (this.#tunnels as TunnelGroups).dialer(key, unit.labels, tunnel)
    let server = this.#tunnelServers.get(tunnel)
    if (server === undefined) {
      const place = placeOf(tunnel)
      server = new Server(dialer, `tunnel ${tunnel.id}`, this.#clock, undefined, place)
      const about = { backend: unit.id, server: server.name }
      server.onChange = (state, by) => this.#changed?.({ ...about, state, by })
      this.#tunnelServers.set(tunnel, server)
      if (this.#live.get(place) === tunnel) this.#share(server)
    }
    return { tunnel, server, dialer }
  }

  #tunnelEnded(tunnel: LiveTunnel): void {
    const place = placeOf(tunnel)
    if (this.#live.get(place) !== tunnel) return
    this.#live.delete(place)
    this.#known.delete(place)
    const server = this.#tunnelServers.get(tunnel)
    if (server !== undefined) this.#unshare(server)
  }

  /** Returns true if the set of keys has changed. */
  #count(unitKey: string, unit: UpstreamUnit | undefined, by: 1 | -1): boolean {
    if (unit?.form === 'tunnels') return this.#counted(groupKey(unit), by)
    if (unit?.form !== 'address') return false
    const backend = backendOf(unitKey)
    const named = this.#namedOf(unit)
    if (named === undefined) {
      const [only] = this.members(unit)
      return only !== undefined && this.#countServer(backend, only.server, by)
    }
    if (by === 1) this.#beginNamed(backend, named)
    else named.end()
    return true
  }

  #beginNamed(backend: string, named: NamedServers): void {
    named.begin({
      added: (server) => this.#countServer(backend, server, 1),
      removed: (server) => this.#countServer(backend, server, -1),
      changed: () => {
        this.#keys = withTunnels(new Set(this.#uses.keys()))
        this.#retain?.(this.#keys)
      },
      named: (state) => this.#nameChanged?.({ backend, name: named.name, state })
    })
  }

  #countServer(backend: string, server: Server, by: 1 | -1): boolean {
    if (by === 1) {
      const about = { backend, server: server.name }
      server.onChange = (state, seenBy) => this.#changed?.({ ...about, state, by: seenBy })
      this.#share(server)
      this.#checks?.begin(server)
    } else {
      server.onChange = undefined
      this.#unshare(server)
      this.#checks?.end(server)
    }
    return this.#counted(server.dialer.key, by)
  }

  /** Applies an observation of another thread. */
  reported(place: string, how: Parameters<Outage['failed']>[0] | 'answered'): void {
    const outage = this.#outages.get(place) ?? this.#outageElsewhere(place)
    if (outage === undefined) return
    if (how === 'answered') outage.succeeded()
    else outage.failed(how)
    // Failures of an address used only by other threads are remembered while they last.
    if (outage.isOver && outage.servers.size === 0) this.#outages.delete(place)
  }

  /** Applies a judgement of another thread. */
  learn(place: string, state: OutageState): void {
    if (isTunnel(place) && !this.#live.has(place)) return
    if (state.failures === 0 && state.downUntil === 0) this.#known.delete(place)
    else this.#known.set(place, state)
    this.#outages.get(place)?.learn(state)
  }

  /** Returns the failures of all addresses. */
  *outages(): Generator<readonly [place: string, state: OutageState]> {
    for (const [place, outage] of this.#outages) if (!outage.isOver) yield [place, outage.state]
  }

  #share(server: Server): void {
    const { place } = server
    const outage = this.#outages.get(place) ?? this.#outageAt(place, server.outage)
    server.join(outage)
  }

  #unshare(server: Server): void {
    server.leave()
    const outage = this.#outages.get(server.place)
    if (outage?.servers.size !== 0) return
    this.#outages.delete(server.place)
    outage.changed = undefined
  }

  /** Returns the failures of an address without a server here; undefined for a closed tunnel. */
  #outageElsewhere(place: string): Outage | undefined {
    if (!isTunnel(place)) return this.#outageAt(place, new Outage(this.#clock))
    // A server reports when it goes down, so it must exist even if this thread has not used the tunnel yet.
    if (this.#live.has(place)) for (const [, unit] of this.#followed) if (unit.form === 'tunnels') this.tunnelsOf(unit)
    return this.#outages.get(place)
  }

  #outageAt(place: string, outage: Outage): Outage {
    this.#outages.set(place, outage)
    if (this.#judge !== undefined) outage.judge = { by: this.#judge, place }
    const known = this.#known.get(place)
    if (known !== undefined) outage.learn(known)
    outage.changed = (state) => this.#outageChanged?.(place, state)
    return outage
  }

  #counted(key: string, by: 1 | -1): boolean {
    const before = this.#uses.get(key) ?? 0
    if (before + by === 0) this.#uses.delete(key)
    else this.#uses.set(key, before + by)
    return before === 0 || before + by === 0
  }
}

/** Prefix of a tunnel's key in all threads; no other key begins with it. */
const TUNNEL = 'tunnel '

function placeOf({ id, startedAt }: LiveTunnel): string {
  return `${TUNNEL}${id} ${startedAt}`
}

function isTunnel(place: string): boolean {
  return place.startsWith(TUNNEL)
}

function groupKey({ id }: TunnelUpstream): string {
  return `tunnels ${id}`
}

/** Extends the keys: a group's key includes those of its tunnels. */
function withTunnels(keys: ReadonlySet<string>): UpstreamKeys {
  return {
    has(key) {
      const end = key.indexOf(OF_TUNNEL)
      return keys.has(end === -1 ? key : key.slice(0, end))
    }
  }
}

/** Returns the backend id or option name from a unit's key. */
export function backendOf(key: string): string {
  return key.slice(key.indexOf(':') + 1)
}
