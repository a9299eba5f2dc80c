import type { Clock } from '../lib/clock.js'
import { ShardedMap } from '../lib/sharded-map.js'
import { atOnce, type Steps } from '../lib/slices.js'
import type {
  AddressUpstream,
  ResponseUpstream,
  TunnelUpstream,
  UpstreamUnit,
  WeightedUpstream
} from '../runtime/plan.js'
import type { Dialer } from '../transport/contract.js'
import type { HealthChecks } from './health.js'
import { isNamed, type Member, NamedServers, type NameState } from './named-servers.js'
import { RetryBudget } from './retries.js'
import { type Observer, Server, type ServerState, type Surroundings, serverOf } from './server.js'

/** The part of its weight with which a member begins that has come back. */
const COLDEST = 0.1

/** One of several that share traffic. */
export interface Share {
  /** Place in the list of all, the same at every choice. */
  readonly index: number
  /** Above zero. */
  readonly weight: number
  /** How busy it is now. */
  readonly load: number
}

/**
 * Smooth weighted round robin: over any stretch each gets its share of the choices, evenly spread. Of those with the
 * weight of the one whose turn it is, the least loaded is taken.
 */
export class WeightedChoice {
  readonly #credits: number[] = []

  /** Index of the chosen one; undefined when there is none. */
  take(shares: readonly Share[]): number | undefined {
    let total = 0
    let turn: Share | undefined
    for (const share of shares) {
      total += share.weight
      this.#credits[share.index] = this.#credit(share) + share.weight
      if (turn === undefined || this.#credit(share) > this.#credit(turn)) turn = share
    }
    if (turn === undefined) return undefined
    let chosen = turn
    for (const share of shares) if (share.weight === turn.weight && share.load < chosen.load) chosen = share
    this.#credits[chosen.index] = this.#credit(chosen) - total
    return chosen.index
  }

  /** The one that carries the least for its weight; of several such, the one whose turn it is. */
  least(shares: readonly Share[]): number | undefined {
    const burden = ({ load, weight }: Share) => (load + 1) / weight
    const lightest = Math.min(...shares.map(burden))
    return this.take(shares.filter((share) => burden(share) === lightest))
  }

  #credit({ index }: Share): number {
    return this.#credits[index] ?? 0
  }
}

/** Where one attempt goes. */
export type UpstreamTarget =
  | {
      readonly kind: 'server'
      readonly server: Server
      /** Id of the backend, or name of the option, that the server is of. */
      readonly backend: string
    }
  | { readonly kind: 'response'; readonly unit: ResponseUpstream }

/** Upstream units by key, of the snapshot that serves. */
export interface UpstreamLookup {
  upstream(key: string): UpstreamUnit | undefined
}

/** The live tunnels of groups. */
interface TunnelGroups {
  /** Opens pipes through the tunnels that carry the labels; rejects with `no-tunnel` when there is none. */
  dialer(labels: TunnelUpstream['labels']): Dialer
  /** Is there a tunnel that carries the labels? */
  has(labels: TunnelUpstream['labels']): boolean
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
  readonly retain?: (keys: ReadonlySet<string>) => void
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

/**
 * Upstream units → servers. One server per unit object: as long as a unit stays as it was, its connections are reused
 * and its health is remembered across snapshots.
 */
export class Upstreams {
  readonly #clock: Clock
  readonly #tunnels: TunnelGroups | undefined
  readonly #around: Surroundings
  readonly #checks: HealthChecks | undefined
  readonly #changed: UpstreamsParts['changed']
  readonly #nameChanged: UpstreamsParts['named']
  readonly #retain: UpstreamsParts['retain']
  readonly #servers = new WeakMap<AddressUpstream | TunnelUpstream, Server>()
  readonly #named = new WeakMap<AddressUpstream, NamedServers>()
  readonly #choices = new WeakMap<WeightedUpstream | readonly Member[], WeightedChoice>()
  readonly #budgets = new WeakMap<UpstreamUnit, RetryBudget>()
  #followed: ShardedMap<UpstreamUnit> = ShardedMap.empty()
  /** Pool key → units that use it. */
  readonly #uses = new Map<string, number>()
  #keys: ReadonlySet<string> = new Set()

  constructor({ clock, tunnels, checks, changed, named, retain, ...around }: UpstreamsParts) {
    this.#clock = clock
    this.#tunnels = tunnels
    this.#around = around
    this.#checks = checks
    this.#changed = changed
    this.#nameChanged = named
    this.#retain = retain
  }

  /** What is known of the server of a unit; undefined for one that is no server. */
  stateOf(unit: UpstreamUnit | undefined): UnitState | undefined {
    if (unit?.form !== 'address') return undefined
    const named = this.#namedOf(unit)
    if (named === undefined) return this.#server(unit)?.state
    const servers = named.members.map(({ server: { name, state } }) => ({ name, state }))
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

  /** The servers of the units that serve, with the key of their unit. */
  *servers(): Generator<readonly [key: string, server: Server]> {
    for (const [key, unit] of this.#followed) {
      if (unit.form === 'address') for (const { server } of this.#members(unit)) yield [key, server]
    }
  }

  /**
   * Where the next attempt goes when `tried` have failed; undefined when nothing is left. Servers that are down are taken
   * only when nothing else is left: they may have come back.
   */
  choose(units: UpstreamLookup, key: string, tried: ReadonlySet<Server>): UpstreamTarget | undefined {
    const unit = units.upstream(key)
    return unit === undefined ? undefined : this.#choose(units, key, unit, tried)
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

  /** Pool keys in use once `units` serve. Costs what has changed since the last call. */
  follow(units: ShardedMap<UpstreamUnit>): ReadonlySet<string> {
    return atOnce(this.following(units))
  }

  /** As `follow`, in steps. Must come to its end before it begins again. */
  *following(units: ShardedMap<UpstreamUnit>): Steps<ReadonlySet<string>> {
    let changed = false
    for (const { key, before, after } of units.since(this.#followed)) {
      yield
      changed = this.#count(key, after, 1) || changed
      changed = this.#count(key, before, -1) || changed
    }
    this.#followed = units
    if (changed) this.#keys = new Set(this.#uses.keys())
    return this.#keys
  }

  #choose(
    units: UpstreamLookup,
    key: string,
    unit: UpstreamUnit,
    tried: ReadonlySet<Server>
  ): UpstreamTarget | undefined {
    switch (unit.form) {
      case 'response':
        return { kind: 'response', unit }
      case 'address':
      case 'tunnels': {
        const server = this.#member(unit, tried)
        return server === undefined ? undefined : { kind: 'server', server, backend: backendOf(key) }
      }
      case 'failover': {
        const member =
          unit.members.find((one) => this.#state(units, one, tried) === 'up') ??
          unit.members.find((one) => this.#state(units, one, tried) === 'down')
        return member === undefined ? undefined : this.choose(units, member, tried)
      }
      case 'weighted':
        return this.#weighted(units, unit, tried)
    }
  }

  #weighted(units: UpstreamLookup, unit: WeightedUpstream, tried: ReadonlySet<Server>): UpstreamTarget | undefined {
    let choice = this.#choices.get(unit)
    if (choice === undefined) {
      choice = new WeightedChoice()
      this.#choices.set(unit, choice)
    }
    const up: Share[] = []
    const down: Share[] = []
    for (const [index, { upstream, weight }] of unit.members.entries()) {
      const state = weight > 0 ? this.#state(units, upstream, tried) : 'none'
      if (state === 'none') continue
      const share = { index, weight: weight * this.#warmth(units, upstream, unit), load: this.#load(units, upstream) }
      if (state === 'up') up.push(share)
      else down.push(share)
    }
    const panics = up.length < (unit.panicThreshold ?? 0) * (up.length + down.length)
    const take = (shares: readonly Share[]) =>
      unit.balance === 'least_requests' ? choice.least(shares) : choice.take(shares)
    const index = (panics ? undefined : take(up)) ?? take(panics ? [...up, ...down] : down)
    const member = index === undefined ? undefined : unit.members[index]
    return member === undefined ? undefined : this.choose(units, member.upstream, tried)
  }

  #state(units: UpstreamLookup, key: string, tried: ReadonlySet<Server>): State {
    const unit = units.upstream(key)
    switch (unit?.form) {
      case undefined:
        return 'none'
      case 'response':
        return 'up'
      case 'address':
      case 'tunnels': {
        if (unit.form === 'tunnels' && this.#tunnels?.has(unit.labels) !== true) return 'none'
        const left = this.#members(unit).filter(({ server }) => !tried.has(server))
        return best(left.map(({ server }) => (server.isUp() ? 'up' : 'down')))
      }
      case 'failover':
        return best(unit.members.map((member) => this.#state(units, member, tried)))
      case 'weighted':
        return best(
          unit.members.map(({ upstream, weight }) => (weight > 0 ? this.#state(units, upstream, tried) : 'none'))
        )
    }
  }

  #load(units: UpstreamLookup, key: string): number {
    const unit = units.upstream(key)
    if (unit?.form !== 'address' && unit?.form !== 'tunnels') return 0
    return this.#members(unit).reduce((sum, { server }) => sum + server.active, 0)
  }

  /** The part of its weight that a member has: one that has just come back rises to the whole. */
  #warmth(units: UpstreamLookup, key: string, { slowStart = 0 }: WeightedUpstream): number {
    const unit = units.upstream(key)
    if (slowStart === 0 || (unit?.form !== 'address' && unit?.form !== 'tunnels')) return 1
    const up = Math.max(...this.#members(unit).map(({ server }) => server.upFor), 0)
    return Math.min(1, Math.max(COLDEST, up / slowStart))
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

  /** The servers that a unit stands for now. */
  #members(unit: AddressUpstream | TunnelUpstream): readonly Member[] {
    const named = unit.form === 'address' ? this.#namedOf(unit) : undefined
    if (named !== undefined) return named.members
    const server = this.#server(unit)
    return server === undefined ? [] : [{ server, address: '', priority: 0, weight: 1 }]
  }

  /** Of the servers of a unit that are left, one of the lowest priority with a server that works. */
  #member(unit: AddressUpstream | TunnelUpstream, tried: ReadonlySet<Server>): Server | undefined {
    const members = this.#members(unit)
    const [only, second] = members
    if (second === undefined) return only === undefined || tried.has(only.server) ? undefined : only.server
    const left = members.map((member, index) => ({ ...member, index })).filter(({ server }) => !tried.has(server))
    const up = left.filter(({ server }) => server.isUp())
    const among = up.length > 0 ? up : left
    const priority = Math.min(...among.map((one) => one.priority))
    let choice = this.#choices.get(members)
    if (choice === undefined) {
      choice = new WeightedChoice()
      this.#choices.set(members, choice)
    }
    const shares = among.filter((one) => one.priority === priority)
    const index = choice.take(shares.map(({ index, weight, server }) => ({ index, weight, load: server.active })))
    return index === undefined ? undefined : members[index]?.server
  }

  #server(unit: AddressUpstream | TunnelUpstream): Server | undefined {
    let server = this.#servers.get(unit)
    if (server === undefined) {
      if (unit.form === 'address') server = serverOf(unit, this.#clock, this.#around)
      else if (this.#tunnels !== undefined)
        server = new Server(this.#tunnels.dialer(unit.labels), `tunnels ${unit.id}`, this.#clock)
      else return undefined
      this.#servers.set(unit, server)
    }
    return server
  }

  /** Answers whether the set of keys has changed. */
  #count(unitKey: string, unit: UpstreamUnit | undefined, by: 1 | -1): boolean {
    if (unit?.form !== 'address' && unit?.form !== 'tunnels') return false
    const backend = backendOf(unitKey)
    const named = unit.form === 'address' ? this.#namedOf(unit) : undefined
    if (named !== undefined) {
      if (by === 1) this.#beginNamed(backend, named)
      else named.end()
      return true
    }
    const server = this.#server(unit)
    return server === undefined ? false : this.#countServer(backend, server, by)
  }

  #beginNamed(backend: string, named: NamedServers): void {
    named.begin({
      added: (server) => this.#countServer(backend, server, 1),
      removed: (server) => this.#countServer(backend, server, -1),
      changed: () => {
        this.#keys = new Set(this.#uses.keys())
        this.#retain?.(this.#keys)
      },
      named: (state) => this.#nameChanged?.({ backend, name: named.name, state })
    })
  }

  #countServer(backend: string, server: Server, by: 1 | -1): boolean {
    if (by === 1) {
      const about = { backend, server: server.name }
      server.onChange = (state, seenBy) => this.#changed?.({ ...about, state, by: seenBy })
      this.#checks?.begin(server)
    } else {
      server.onChange = undefined
      this.#checks?.end(server)
    }
    const { key } = server.dialer
    const before = this.#uses.get(key) ?? 0
    if (before + by === 0) this.#uses.delete(key)
    else this.#uses.set(key, before + by)
    return before === 0 || before + by === 0
  }
}

/** Id of a backend, or name of an option, from the key of its unit. */
export function backendOf(key: string): string {
  return key.slice(key.indexOf(':') + 1)
}

function best(states: readonly State[]): State {
  if (states.includes('up')) return 'up'
  return states.includes('down') ? 'down' : 'none'
}
