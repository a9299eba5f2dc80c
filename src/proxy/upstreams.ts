import { FAILURES, type FailureAnswer, requestErrors } from '../flow/error-codes.js'
import type { Flow } from '../flow/flow.js'
import type { Clock } from '../lib/clock.js'
import { ShardedMap } from '../lib/sharded-map.js'
import type { Steps } from '../lib/slices.js'
import type {
  AddressUpstream,
  Balance,
  ResponseUpstream,
  TunnelUpstream,
  UpstreamUnit,
  WeightedUpstream
} from '../runtime/plan.js'
import type { Dialer, UpstreamKeys } from '../transport/contract.js'
import { Balancer, type Share, WeightedChoice } from './balance.js'
import type { HealthChecks } from './health.js'
import { isNamed, type Member, NamedServers, type NameState } from './named-servers.js'
import { RetryBudget } from './retries.js'
import { type Observer, type Outage, Server, type ServerState, type Surroundings, serverOf } from './server.js'
import { type Stick, StickyCookies } from './sticky.js'

/** The part of its weight with which a member begins that has come back. */
const COLDEST = 0.1

/** Where one attempt goes. */
export type UpstreamTarget =
  | {
      readonly kind: 'server'
      readonly server: Server
      /** Opens its connections: a tunnel has one for each backend that selects it. */
      readonly dialer: Dialer
      /** What the client's cookies are to say once the server has answered, from the inside out. */
      readonly sticks: readonly Stick[]
      /** Id of the backend, or name of the option, that the server is of. */
      readonly backend: string
    }
  | { readonly kind: 'response'; readonly unit: ResponseUpstream }

/** Upstream units by key, of the snapshot that serves. */
export interface UpstreamLookup {
  upstream(key: string): UpstreamUnit | undefined
}

/** A tunnel of an agent: the same object as long as it lives. */
export interface LiveTunnel {
  /** Stays when the agent comes back. */
  readonly id: string
  /** Can it take one more visitor now? */
  readonly ready: boolean
}

/** The live tunnels of groups. */
interface TunnelGroups {
  /** The tunnels that carry the labels; the same list as long as they are the same. */
  members(labels: TunnelUpstream['labels']): readonly LiveTunnel[]
  /** Opens pipes through the tunnel; what it turns away unread goes to another one that carries the labels. `key`: of the pool. */
  dialer(key: string, labels: TunnelUpstream['labels'], tunnel: LiveTunnel): Dialer
}

/** The tunnels of one group as servers. */
interface TunnelServers {
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

export interface UpstreamsParts extends Surroundings {
  readonly clock: Clock
  readonly tunnels?: TunnelGroups
  /** Asks the servers whose units want it; absent: traffic alone tells. */
  readonly checks?: HealthChecks
  /** Called at each change. Must not throw. */
  readonly changed?: (change: ServerChange) => void
  /** Called when what is known of a name has changed. Must not throw. */
  readonly named?: (change: NameChange) => void
  /** Called when the servers of a name have changed: connections with other keys are of no use. Must not throw. */
  readonly retain?: (keys: UpstreamKeys) => void
}

/** A name of the configuration that serves resolves no more, or again, as this process sees it. */
export interface NameChange {
  /** Id of the backend, or name of the option, that it is of. */
  readonly backend: string
  readonly name: string
  readonly state: NameState
}

/** What is known of the servers of a unit. */
export interface UnitState extends ServerState {
  /** Each of them, where a name may have several. */
  readonly servers?: readonly { readonly name: string; readonly state: ServerState }[]
  readonly name?: NameState
}

/** How good a choice a unit is: it works, it is down, or it cannot be tried (again). */
type State = 'up' | 'down' | 'none'

/** One choice of a server for a request. */
interface Choosing {
  readonly units: UpstreamLookup
  readonly tried: ReadonlySet<Server>
  readonly flow: Flow
}

const NO_STICKS: readonly Stick[] = []
/** Stands in the key of a pool between the key of a group and what is of one tunnel. */
const OF_TUNNEL = '\n'

/**
 * Upstream units → servers. One server per tunnel, and one per unit object of an address, or per address of its name: as long as
 * a unit stays as it was, its connections are reused and its health is remembered across snapshots.
 */
export class Upstreams {
  readonly #clock: Clock
  readonly #tunnels: TunnelGroups | undefined
  readonly #around: Surroundings
  readonly #checks: HealthChecks | undefined
  readonly #changed: UpstreamsParts['changed']
  readonly #nameChanged: UpstreamsParts['named']
  readonly #retain: UpstreamsParts['retain']
  /** The one server of a unit at an address. */
  readonly #alone = new WeakMap<AddressUpstream, readonly [Member]>()
  readonly #named = new WeakMap<AddressUpstream, NamedServers>()
  readonly #turns = new WeakMap<readonly Member[], WeightedChoice>()
  /** A tunnel is one server, whichever groups select it. */
  readonly #tunnelServers = new WeakMap<LiveTunnel, Server>()
  readonly #groups = new WeakMap<TunnelUpstream, TunnelServers>()
  readonly #balancers = new WeakMap<WeightedUpstream, Balancer>()
  readonly #budgets = new WeakMap<UpstreamUnit, RetryBudget>()
  #followed: ShardedMap<UpstreamUnit> = ShardedMap.empty()
  /** What several servers share, by their place. */
  readonly #outages = new Map<string, Outage>()
  /** Pool key → units that use it. */
  readonly #uses = new Map<string, number>()
  #keys: UpstreamKeys = new Set<string>()
  #tunnelNumber = 0
  readonly cookies: StickyCookies

  constructor({ clock, tunnels, checks, changed, named, retain, ...around }: UpstreamsParts) {
    this.#clock = clock
    this.#tunnels = tunnels
    this.#around = around
    this.#checks = checks
    this.#changed = changed
    this.#nameChanged = named
    this.#retain = retain
    this.cookies = new StickyCookies(clock)
  }

  /** What is known of the server of a unit; undefined for one that is no server. */
  stateOf(unit: UpstreamUnit | undefined): UnitState | undefined {
    if (unit?.form !== 'address') return undefined
    const members = this.#members(unit)
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
    return this.#tunnelsOf(unit).servers.map(({ tunnel, server }) => [tunnel.id, server.state] as const)
  }

  /** The servers of the units that serve, with the key of their unit; the tunnels of a group stand together. */
  *servers(): Generator<readonly [key: string, unit: UpstreamUnit, servers: readonly Server[]]> {
    for (const [key, unit] of this.#followed) {
      if (unit.form === 'address') for (const { server } of this.#members(unit)) yield [key, unit, [server]]
      else if (unit.form === 'tunnels') yield [key, unit, this.#tunnelsOf(unit).servers.map(({ server }) => server)]
    }
  }

  /**
   * Where the next attempt goes when `tried` have failed; undefined when nothing is left. Servers that are down are taken
   * only when nothing else is left: they may have come back.
   */
  choose(units: UpstreamLookup, key: string, tried: ReadonlySet<Server>, flow: Flow): UpstreamTarget | undefined {
    return this.#choose({ units, tried, flow }, key)
  }

  /** What bounds the retries of a backend: one for all requests to it, whichever route they took. */
  retryBudget(units: UpstreamLookup, key: string): RetryBudget {
    const unit = units.upstream(key)
    let budget = unit === undefined ? undefined : this.#budgets.get(unit)
    if (budget === undefined) {
      budget = new RetryBudget(this.#clock)
      if (unit !== undefined) this.#budgets.set(unit, budget)
    }
    return budget
  }

  /**
   * Keys of pools that are in use once `units` serve, in steps that cost what has changed since the last call. Must come to its end
   * before it begins again.
   */
  *following(units: ShardedMap<UpstreamUnit>): Steps<UpstreamKeys> {
    let changed = false
    for (const { key, before, after } of units.since(this.#followed)) {
      yield
      changed = this.#count(key, after, 1) || changed
      changed = this.#count(key, before, -1) || changed
    }
    this.#followed = units
    if (changed) this.#keys = withTunnels(new Set(this.#uses.keys()))
    return this.#keys
  }

  #choose(choosing: Choosing, key: string): UpstreamTarget | undefined {
    const unit = choosing.units.upstream(key)
    switch (unit?.form) {
      case undefined:
        return undefined
      case 'response':
        return { kind: 'response', unit }
      case 'address': {
        const server = this.#member(unit, choosing.tried)
        if (server === undefined) return undefined
        return { kind: 'server', server, dialer: server.dialer, backend: backendOf(key), sticks: NO_STICKS }
      }
      case 'tunnels':
        return this.#tunnel(choosing, key, unit)
      case 'failover': {
        const member =
          unit.members.find((one) => this.#state(choosing, one) === 'up') ??
          unit.members.find((one) => this.#state(choosing, one) === 'down')
        return member === undefined ? undefined : this.#choose(choosing, member)
      }
      case 'weighted':
        return this.#weighted(choosing, key, unit)
    }
  }

  #weighted(choosing: Choosing, key: string, unit: WeightedUpstream): UpstreamTarget | undefined {
    const up: Share[] = []
    const down: Share[] = []
    for (const [index, { upstream, weight }] of unit.members.entries()) {
      const state = weight > 0 ? this.#state(choosing, upstream) : 'none'
      if (state === 'none') continue
      const { load, warmth } = this.#business(choosing.units, upstream, unit)
      const share = { index, weight: weight * warmth, load }
      if (state === 'up') up.push(share)
      else down.push(share)
    }
    const panics = up.length < (unit.panicThreshold ?? 0) * (up.length + down.length)
    const tiers = panics ? [[...up, ...down]] : [up, down]
    const index = this.#take(choosing, key, unit, this.#balancer(unit), tiers, (one) => unit.members[one]?.upstream)
    const member = index === undefined ? undefined : unit.members[index]
    if (member === undefined) return undefined
    return this.#stuck(choosing, key, unit, member.upstream, this.#choose(choosing, member.upstream))
  }

  /** One of the tunnels of a group, for this request alone. */
  #tunnel(choosing: Choosing, key: string, unit: TunnelUpstream): UpstreamTarget | undefined {
    const { servers, balancer } = this.#tunnelsOf(unit)
    const up: Share[] = []
    const down: Share[] = []
    // Where an agent takes no more streams, those that are open may carry a request yet.
    const full: Share[] = []
    for (const [index, { tunnel, server }] of servers.entries()) {
      if (choosing.tried.has(server)) continue
      const share = { index, weight: 1, load: server.active }
      if (!tunnel.ready) full.push(share)
      else if (server.isUp()) up.push(share)
      else down.push(share)
    }
    const index = this.#take(choosing, key, unit, balancer, [up, down, full], (one) => servers[one]?.tunnel.id)
    const chosen = index === undefined ? undefined : servers[index]
    if (chosen === undefined) return undefined
    const { tunnel, server, dialer } = chosen
    const target = { kind: 'server', server, dialer, backend: backendOf(key), sticks: NO_STICKS } as const
    return this.#stuck(choosing, key, unit, tunnel.id, target)
  }

  /** Index of the share that gets the request, out of the first tier that is not empty: the one that the client keeps, else as the unit balances. */
  #take(
    { flow }: Choosing,
    key: string,
    { sticky }: Balance,
    balancer: Balancer,
    tiers: readonly (readonly Share[])[],
    nameOf: (index: number) => string | undefined
  ): number | undefined {
    const shares = tiers.find((tier) => tier.length > 0)
    if (shares === undefined) return undefined
    const member = sticky === undefined ? undefined : this.cookies.held(flow, key, sticky)?.member
    const kept = member === undefined ? undefined : shares.find(({ index }) => nameOf(index) === member)
    return kept?.index ?? balancer.take(shares, flow)
  }

  /** The target with what the cookie of the unit is to say of it. */
  #stuck(
    { flow }: Choosing,
    owner: string,
    { sticky }: Balance,
    member: string,
    target: UpstreamTarget | undefined
  ): UpstreamTarget | undefined {
    if (sticky === undefined || target?.kind !== 'server') return target
    const held = this.cookies.held(flow, owner, sticky)
    const kept = held?.member === member && !held.renew
    return { ...target, sticks: [...target.sticks, { owner, sticky, member, kept }] }
  }

  #state(choosing: Choosing, key: string): State {
    const { units, tried } = choosing
    const unit = units.upstream(key)
    switch (unit?.form) {
      case undefined:
        return 'none'
      case 'response':
        return 'up'
      case 'address':
        return best(this.#members(unit).map(({ server }) => stateOf(server, tried)))
      case 'tunnels':
        return best(
          this.#tunnelsOf(unit).servers.map(({ tunnel, server }) => (tunnel.ready ? stateOf(server, tried) : 'none'))
        )
      case 'failover':
        return best(unit.members.map((member) => this.#state(choosing, member)))
      case 'weighted':
        return best(unit.members.map(({ upstream, weight }) => (weight > 0 ? this.#state(choosing, upstream) : 'none')))
    }
  }

  /** What a member carries, and the part of its weight that it has: one that has just come back rises to the whole. */
  #business(units: UpstreamLookup, key: string, { slowStart = 0 }: WeightedUpstream): { load: number; warmth: number } {
    const unit = units.upstream(key)
    if (unit?.form !== 'address' && unit?.form !== 'tunnels') return { load: 0, warmth: 1 }
    // Several are as warm as the warmest.
    let [load, warmth] = [0, COLDEST]
    for (const { server } of unit.form === 'address' ? this.#members(unit) : this.#tunnelsOf(unit).servers) {
      load += server.active
      warmth = Math.max(warmth, warmthOf(server, slowStart))
    }
    return { load, warmth }
  }

  #balancer(unit: WeightedUpstream): Balancer {
    let balancer = this.#balancers.get(unit)
    if (balancer === undefined) {
      const names = unit.members.map(({ upstream }) => upstream)
      balancer = new Balancer(unit, names)
      this.#balancers.set(unit, balancer)
    }
    return balancer
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

  /** The servers that a unit stands for now, at least one. */
  #members(unit: AddressUpstream): readonly Member[] {
    const known = this.#alone.get(unit)
    if (known !== undefined) return known
    const named = this.#namedOf(unit)
    if (named !== undefined) return named.members
    const alone = [{ server: serverOf(unit, this.#clock, this.#around), address: '', priority: 0, weight: 1 }] as const
    this.#alone.set(unit, alone)
    return alone
  }

  /** Of the servers of a unit that are left, one of the lowest priority with a server that works. */
  #member(unit: AddressUpstream, tried: ReadonlySet<Server>): Server | undefined {
    const members = this.#members(unit)
    const [only, second] = members
    if (second === undefined) return only === undefined || tried.has(only.server) ? undefined : only.server
    const left = members.map((member, index) => ({ ...member, index })).filter(({ server }) => !tried.has(server))
    const up = left.filter(({ server }) => server.isUp())
    const among = up.length > 0 ? up : left
    const priority = Math.min(...among.map((one) => one.priority))
    let turn = this.#turns.get(members)
    if (turn === undefined) {
      turn = new WeightedChoice()
      this.#turns.set(members, turn)
    }
    const shares = among.filter((one) => one.priority === priority)
    const index = turn.take(shares.map(({ index, weight, server }) => ({ index, weight, load: server.active })))
    return index === undefined ? undefined : members[index]?.server
  }

  /** Made anew when the tunnels are others. */
  #tunnelsOf(unit: TunnelUpstream): TunnelServers {
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

  #tunnelServer(unit: TunnelUpstream, tunnel: LiveTunnel): TunnelServers['servers'][number] {
    const key = `${groupKey(unit)}${OF_TUNNEL}${++this.#tunnelNumber}`
    const dialer = (this.#tunnels as TunnelGroups).dialer(key, unit.labels, tunnel)
    let server = this.#tunnelServers.get(tunnel)
    if (server === undefined) {
      server = new Server(dialer, `tunnel ${tunnel.id}`, this.#clock)
      const about = { backend: unit.id, server: server.name }
      server.onChange = (state, by) => this.#changed?.({ ...about, state, by })
      this.#tunnelServers.set(tunnel, server)
    }
    return { tunnel, server, dialer }
  }

  /** Answers whether the set of keys has changed. */
  #count(unitKey: string, unit: UpstreamUnit | undefined, by: 1 | -1): boolean {
    if (unit?.form === 'weighted' && by === 1) this.#balancer(unit)
    if (unit?.form === 'tunnels') return this.#counted(groupKey(unit), by)
    if (unit?.form !== 'address') return false
    const backend = backendOf(unitKey)
    const named = this.#namedOf(unit)
    if (named === undefined) {
      const [only] = this.#members(unit)
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
      server.leave()
      if (this.#outages.get(server.place)?.servers.size === 0) this.#outages.delete(server.place)
      this.#checks?.end(server)
    }
    return this.#counted(server.dialer.key, by)
  }

  #share(server: Server): void {
    const { place } = server
    let outage = this.#outages.get(place)
    if (outage === undefined) {
      outage = server.outage
      this.#outages.set(place, outage)
    }
    server.join(outage)
  }

  #counted(key: string, by: 1 | -1): boolean {
    const before = this.#uses.get(key) ?? 0
    if (before + by === 0) this.#uses.delete(key)
    else this.#uses.set(key, before + by)
    return before === 0 || before + by === 0
  }
}

const NO_TUNNELS: readonly LiveTunnel[] = []

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

/** Why there is nothing to forward to: a group without tunnels, or no upstream at all. */
export function absence(units: UpstreamLookup, key: string | undefined): FailureAnswer {
  const unit = key === undefined ? undefined : units.upstream(key)
  return unit?.form === 'tunnels' ? FAILURES['no-tunnel'] : requestErrors.upstream
}

function stateOf(server: Server, tried: ReadonlySet<Server>): State {
  if (tried.has(server)) return 'none'
  return server.isUp() ? 'up' : 'down'
}

function warmthOf(server: Server, slowStart: number): number {
  return slowStart === 0 ? 1 : Math.min(1, Math.max(COLDEST, server.upFor / slowStart))
}

/** Id of a backend, or name of an option, from the key of its unit. */
export function backendOf(key: string): string {
  return key.slice(key.indexOf(':') + 1)
}

function best(states: readonly State[]): State {
  if (states.includes('up')) return 'up'
  return states.includes('down') ? 'down' : 'none'
}
