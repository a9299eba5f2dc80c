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

/** Stands in the key of a pool between the key of a group and what is of one tunnel. */
const OF_TUNNEL = '\n'
const NO_TUNNELS: readonly LiveTunnel[] = []

/** A tunnel of an agent: the same object as long as it lives. */
export interface LiveTunnel {
  /** Stays when the agent comes back. */
  readonly id: string
  /** Wall clock, milliseconds: another time when the agent comes back. */
  readonly startedAt: number
  /** Can it take one more visitor now? */
  readonly ready: boolean
}

/** The live tunnels of groups. */
export interface TunnelGroups {
  /** The tunnels that carry the labels; the same list as long as they are the same. */
  members(labels: TunnelUpstream['labels']): readonly LiveTunnel[]
  /** Opens pipes through the tunnel; what it turns away unread goes to another one that carries the labels. `key`: of the pool. */
  dialer(key: string, labels: TunnelUpstream['labels'], tunnel: LiveTunnel): Dialer
  /** From now on `follower` learns which tunnels begin and end, at once those that are there, until the function is called that it answers. */
  follow(follower: TunnelFollower): () => void
}

/** Learns which tunnels there are; `labels` select the tunnel. Must not throw. */
export interface TunnelFollower {
  begins(tunnel: LiveTunnel, labels: TunnelUpstream['labels']): void
  ends(tunnel: LiveTunnel): void
}

/** The tunnels of one group as servers. */
export interface TunnelServers {
  readonly tunnels: readonly LiveTunnel[]
  readonly servers: readonly { readonly tunnel: LiveTunnel; readonly server: Server; readonly dialer: Dialer }[]
  readonly balancer: Balancer
}

/** A server of the configuration that serves went down or came back, as this process sees it. */
export interface ServerChange {
  /** Id of the backend, or name of the option, that it is of. */
  readonly backend: string
  readonly server: string
  readonly state: ServerState
  readonly by: Observer
}

/** A name of the configuration that serves resolves no more, or again, as this process sees it. */
export interface NameChange {
  /** Id of the backend, or name of the option, that it is of. */
  readonly backend: string
  readonly name: string
  readonly state: NameState
}

export interface UnitServersParts extends Surroundings {
  readonly clock: Clock
  readonly tunnels?: TunnelGroups
  /** Asks the servers whose units want it; absent: traffic alone tells. */
  readonly checks?: ServerChecks
  /** Called at each change. Must not throw. */
  readonly changed?: (change: ServerChange) => void
  /** Called when what is known of a name has changed. Must not throw. */
  readonly named?: (change: NameChange) => void
  /** Called when what traffic has found of a place has changed. Must not throw. */
  readonly outage?: (place: string, state: OutageState) => void
  /** Judges what traffic finds of places, in another thread; absent: this one does. */
  readonly judge?: OutageJudge
  /** Called when the servers of a name have changed: connections with other keys are of no use. Must not throw. */
  readonly retain?: (keys: UpstreamKeys) => void
}

/** What is known of the servers of a unit. */
export interface UnitState extends ServerState {
  /** Each of them, where a name may have several. */
  readonly servers?: readonly { readonly name: string; readonly state: ServerState }[]
  readonly name?: NameState
}

/**
 * The servers that upstream units stand for: one per tunnel, one per unit object of an address, or one per address of its name. As
 * long as a unit stays as it was, its connections are reused and its health is remembered across snapshots.
 */
export class UnitServers {
  readonly #clock: Clock
  readonly #tunnels: TunnelGroups | undefined
  readonly #around: Surroundings
  readonly #checks: ServerChecks | undefined
  readonly #changed: UnitServersParts['changed']
  readonly #nameChanged: UnitServersParts['named']
  readonly #retain: UnitServersParts['retain']
  /** The one server of a unit at an address. */
  readonly #alone = new WeakMap<AddressUpstream, readonly [Member]>()
  readonly #named = new WeakMap<AddressUpstream, NamedServers>()
  /** A tunnel is one server, whichever groups select it. */
  readonly #tunnelServers = new WeakMap<LiveTunnel, Server>()
  readonly #groups = new WeakMap<TunnelUpstream, TunnelServers>()
  /** By the places of their servers, which are the same in all threads. */
  readonly #live = new Map<string, LiveTunnel>()
  #followed: ShardedMap<UpstreamUnit> = ShardedMap.empty()
  /** What several servers share, by their place. */
  readonly #outages = new Map<string, Outage>()
  readonly #outageChanged: UnitServersParts['outage']
  readonly #judge: OutageJudge | undefined
  /** Of places that have no server here yet, or none any more. */
  readonly #known = new Map<string, OutageState>()
  /** Pool key → units that use it. */
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

  /** What is known of the server of a unit; undefined for one that is no server. */
  stateOf(unit: UpstreamUnit | undefined): UnitState | undefined {
    if (unit?.form !== 'address') return undefined
    const members = this.members(unit)
    const named = this.#namedOf(unit)
    if (named === undefined) return members[0]?.server.state
    const servers = members.map(({ server: { name, state } }) => ({ name, state }))
    const best = servers.find(({ state }) => state.state !== 'down') ?? servers[0]
    return best === undefined ? undefined : { ...best.state, servers, name: named.state }
  }

  /** Each name of the units that serve, with the key of its unit. */
  *names(): Generator<readonly [key: string, state: NameState]> {
    for (const [key, unit] of this.#followed) {
      const named = unit.form === 'address' ? this.#namedOf(unit) : undefined
      if (named !== undefined) yield [key, named.state]
    }
  }

  /** What is known of the tunnels of a group, by their ids; undefined for a unit that is none. */
  tunnelStatesOf(unit: UpstreamUnit | undefined): (readonly [id: string, state: ServerState])[] | undefined {
    if (unit?.form !== 'tunnels') return undefined
    return this.tunnelsOf(unit).servers.map(({ tunnel, server }) => [tunnel.id, server.state] as const)
  }

  /** Does the unit serve? */
  follows(key: string): boolean {
    return this.#followed.get(key) !== undefined
  }

  /** The servers of the units that serve, with the key of their unit; the tunnels of a group stand together. */
  *servers(): Generator<readonly [key: string, unit: UpstreamUnit, servers: readonly Server[]]> {
    for (const [key, unit] of this.#followed) {
      if (unit.form === 'address') for (const { server } of this.members(unit)) yield [key, unit, [server]]
      else if (unit.form === 'tunnels') yield [key, unit, this.tunnelsOf(unit).servers.map(({ server }) => server)]
    }
  }

  /**
   * Keys of pools that are in use once `units` serve, in steps that cost what has changed since the last call. `added` is called
   * with each unit that is new or another, `dropped` with the key of each that is there no more. Must come to its end
   * before it begins again.
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

  /** The servers that a unit stands for now, at least one. */
  members(unit: AddressUpstream): readonly Member[] {
    const known = this.#alone.get(unit)
    if (known !== undefined) return known
    const named = this.#namedOf(unit)
    if (named !== undefined) return named.members
    const alone = [{ server: serverOf(unit, this.#clock, this.#around), address: '', priority: 0, weight: 1 }] as const
    this.#alone.set(unit, alone)
    return alone
  }

  /** The tunnels of a group as servers; the same object as long as the tunnels are the same. */
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

  /** What resolves the name of a unit; undefined for one at an address. */
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

  /** Answers whether the set of keys has changed. */
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

  /** Another thread has seen how a place does. */
  reported(place: string, how: Parameters<Outage['failed']>[0] | 'answered'): void {
    const outage = this.#outages.get(place) ?? this.#outageElsewhere(place)
    if (outage === undefined) return
    if (how === 'answered') outage.succeeded()
    else outage.failed(how)
    // A place of which only another thread has servers is remembered as long as there is something against it.
    if (outage.isOver && outage.servers.size === 0) this.#outages.delete(place)
  }

  /** What another thread has judged of a place. */
  learn(place: string, state: OutageState): void {
    if (isTunnel(place) && !this.#live.has(place)) return
    if (state.failures === 0 && state.downUntil === 0) this.#known.delete(place)
    else this.#known.set(place, state)
    this.#outages.get(place)?.learn(state)
  }

  /** What traffic has against places. */
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

  /** Of a place that has no server here; undefined for a tunnel that is over. */
  #outageElsewhere(place: string): Outage | undefined {
    if (!isTunnel(place)) return this.#outageAt(place, new Outage(this.#clock))
    // A server says when it goes down: this thread may not have carried anything to the tunnel yet.
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

/** A tunnel in all threads. Nothing else has a place that begins so. */
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

/** The keys, where that of a group stands for those of its tunnels. */
function withTunnels(keys: ReadonlySet<string>): UpstreamKeys {
  return {
    has(key) {
      const end = key.indexOf(OF_TUNNEL)
      return keys.has(end === -1 ? key : key.slice(0, end))
    }
  }
}

/** Id of a backend, or name of an option, from the key of its unit. */
export function backendOf(key: string): string {
  return key.slice(key.indexOf(':') + 1)
}
