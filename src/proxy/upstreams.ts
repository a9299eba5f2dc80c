import { FAILURES, type FailureAnswer, requestErrors } from '../flow/error-codes.js'
import type { Flow } from '../flow/flow.js'
import type { Clock } from '../lib/clock.js'
import type { ShardedMap } from '../lib/sharded-map.js'
import type { SharedRecord } from '../lib/shared-records.js'
import type { Steps } from '../lib/slices.js'
import type { FileUpstream, ResponseUpstream } from '../runtime/answering-upstreams.js'
import {
  type AddressUpstream,
  type Balance,
  POLICY_ALONE,
  type TunnelUpstream,
  type UpstreamUnit,
  type WeightedUpstream
} from '../runtime/plan.js'
import type { Dialer, UpstreamKeys } from '../transport/contract.js'
import { Balancer, type Share, WeightedChoice } from './balance.js'
import type { FileServers } from './files/file-servers.js'
import type { Member } from './named-servers.js'
import { RetryBudget } from './retries.js'
import { Server } from './server.js'
import { type Stick, StickyCookies } from './sticky.js'
import { backendOf, UnitServers, type UnitServersParts } from './unit-servers.js'

/** Timeouts of exchanges with servers (ms). */
export interface UpstreamTimeouts {
  readonly connect: number
  readonly response: number
  readonly idle: number
}

/** Target of an attempt at a server. */
export type ServerTarget = Extract<UpstreamTarget, { kind: 'server' }>

/** Share of its weight with which a recovered member starts. */
const COLDEST = 0.1

/** Target of one attempt. */
export type UpstreamTarget =
  | {
      readonly kind: 'server'
      readonly server: Server
      /** Dialer; a tunnel has one for each backend that selects it. */
      readonly dialer: Dialer
      /** Sticky cookies to set after the response, from the innermost backend outwards. */
      readonly sticks: readonly Stick[]
      /** Backend id, or option name. */
      readonly backend: string
      /** Name of the backend for people. */
      readonly name: string
    }
  | { readonly kind: 'response'; readonly unit: ResponseUpstream }

/**
 * Returns the index of the chosen share: the member of the client's cookie (`held`) if it is in the first tier that is not empty or in the
 * first two, which are up; otherwise by the balancing of that tier. `nameOf`: returns the member of a share.
 */
function taken(
  tiers: readonly (readonly Share[])[],
  held: string | undefined,
  nameOf: (index: number) => string | undefined,
  balancer: Balancer,
  flow: Flow
): number | undefined {
  const shares = tiers.find((tier) => tier.length > 0)
  if (shares === undefined) return undefined
  if (held === undefined) return balancer.take(shares, flow)
  const kept = [...tiers.slice(0, 2).flat(), ...shares].find(({ index }) => nameOf(index) === held)
  return kept?.index ?? balancer.take(shares, flow)
}

/** Looks up upstream units of the current snapshot by key. */
export interface UpstreamLookup {
  upstream(key: string): UpstreamUnit | undefined
}

/** Returns the shared record of a unit's retry budget. */
type BudgetRecord = (key: string) => SharedRecord | Promise<SharedRecord>

interface UpstreamsParts extends UnitServersParts {
  /** Serves folders of files. @default none */
  readonly files?: Pick<FileServers, 'dialer'>
  /** @default each budget belongs to this thread alone */
  readonly budgetRecord?: BudgetRecord
}

/** States of a unit, the best first: up with a free place, up with a queue, up with a full queue, down. */
const STATES = ['up', 'full', 'crowded', 'down'] as const
/** `none`: cannot be tried (again). */
type State = (typeof STATES)[number] | 'none'

/** Choice of a server for a request. */
interface Choosing {
  readonly units: UpstreamLookup
  readonly tried: ReadonlySet<Server>
  readonly flow: Flow
}

const NO_STICKS: readonly Stick[] = []

/** Chooses a server for each attempt of a request by failover, weights, load, hash or the client's cookie. */
export class Upstreams {
  readonly #clock: Clock
  readonly #turns = new WeakMap<readonly Member[], WeightedChoice>()
  readonly #balancers = new WeakMap<WeightedUpstream, Balancer>()
  readonly #folders = new WeakMap<FileUpstream, Server>()
  readonly #files: UpstreamsParts['files']
  /** Budgets by unit key. */
  readonly #budgets = new Map<string, RetryBudget>()
  readonly #budgetRecord: BudgetRecord | undefined
  /** Servers of the units with their state. */
  readonly servers: UnitServers
  readonly cookies: StickyCookies

  constructor({ budgetRecord, files, ...parts }: UpstreamsParts) {
    this.#clock = parts.clock
    this.#files = files
    this.#budgetRecord = budgetRecord
    this.servers = new UnitServers(parts)
    this.cookies = new StickyCookies(parts.clock)
  }

  /**
   * Returns the target of the next attempt after `tried` have failed; undefined if none is left. Servers that are down are the last resort:
   * they may have recovered.
   */
  choose(units: UpstreamLookup, key: string, tried: ReadonlySet<Server>, flow: Flow): UpstreamTarget | undefined {
    return this.#choose({ units, tried, flow }, key)
  }

  /** Returns the retry budget of a backend, shared by all requests whatever their route. */
  retryBudget(key: string): RetryBudget {
    let budget = this.#budgets.get(key)
    if (budget === undefined) {
      budget = new RetryBudget(this.#clock, this.#budgetRecord?.(key))
      // A request that outlives its backend must leave nothing behind.
      if (this.servers.follows(key)) this.#budgets.set(key, budget)
    }
    return budget
  }

  /** Runs `UnitServers.following` and prepares the balancers of the units. */
  following(units: ShardedMap<UpstreamUnit>): Steps<UpstreamKeys> {
    return this.servers.following(units, {
      added: (key, unit) => {
        if (unit.form === 'weighted') this.#balancer(unit)
        // Threads that share it receive it before the first request.
        if (this.#budgetRecord !== undefined && mayBound(unit)) this.retryBudget(key)
      },
      dropped: (key) => this.#budgets.delete(key)
    })
  }

  #choose(choosing: Choosing, key: string): UpstreamTarget | undefined {
    const unit = choosing.units.upstream(key)
    switch (unit?.form) {
      case undefined:
        return undefined
      case 'response':
        return { kind: 'response', unit }
      case 'files': {
        const server = this.#folder(unit)
        if (server === undefined || choosing.tried.has(server)) return undefined
        return { kind: 'server', server, dialer: server.dialer, ...namedIn(key, unit), sticks: NO_STICKS }
      }
      case 'address': {
        const server = this.#member(unit, choosing.tried)
        if (server === undefined) return undefined
        return { kind: 'server', server, dialer: server.dialer, ...namedIn(key, unit), sticks: NO_STICKS }
      }
      case 'tunnels':
        return this.#tunnel(choosing, key, unit)
      case 'failover': {
        // A healthy server without a free place is waited for.
        const member =
          unit.members.find((one) => !['down', 'none'].includes(this.#state(choosing, one))) ??
          unit.members.find((one) => this.#state(choosing, one) === 'down')
        return member === undefined ? undefined : this.#choose(choosing, member)
      }
      case 'weighted':
        return this.#weighted(choosing, key, unit)
    }
  }

  #weighted(choosing: Choosing, key: string, unit: WeightedUpstream): UpstreamTarget | undefined {
    const shares: Record<(typeof STATES)[number], Share[]> = { up: [], full: [], crowded: [], down: [] }
    for (const [index, { upstream, weight }] of unit.members.entries()) {
      const state = weight > 0 ? this.#state(choosing, upstream) : 'none'
      if (state === 'none') continue
      const { load, warmth } = this.#business(choosing.units, upstream, unit)
      shares[state].push({ index, weight: weight * warmth, load })
    }
    let tiers = [shares.up, shares.full, shares.crowded, shares.down]
    if (unit.panicThreshold !== undefined) {
      const all = tiers.flat()
      if (all.length - shares.down.length < unit.panicThreshold * all.length) tiers = [all]
    }
    const held = this.#held(choosing, key, unit)
    const index = taken(tiers, held, (one) => unit.members[one]?.upstream, this.#balancer(unit), choosing.flow)
    const member = index === undefined ? undefined : unit.members[index]
    if (member === undefined) return undefined
    return this.#stuck(choosing, key, unit, member.upstream, this.#choose(choosing, member.upstream))
  }

  /** Chooses a tunnel of a group for this request. */
  #tunnel(choosing: Choosing, key: string, unit: TunnelUpstream): UpstreamTarget | undefined {
    const { servers, balancer } = this.servers.tunnelsOf(unit)
    const up: Share[] = []
    const down: Share[] = []
    // If an agent accepts no more streams, open ones may still carry a request.
    const full: Share[] = []
    for (const [index, { tunnel, server }] of servers.entries()) {
      if (choosing.tried.has(server)) continue
      const share = { index, weight: 1, load: server.places.active }
      if (!tunnel.ready) full.push(share)
      else if (server.isUp()) up.push(share)
      else down.push(share)
    }
    const held = this.#held(choosing, key, unit)
    const index = taken([up, [], down, full], held, (one) => servers[one]?.tunnel.id, balancer, choosing.flow)
    const chosen = index === undefined ? undefined : servers[index]
    if (chosen === undefined) return undefined
    const { tunnel, server, dialer } = chosen
    const target = { kind: 'server', server, dialer, ...namedIn(key, unit), sticks: NO_STICKS } as const
    return this.#stuck(choosing, key, unit, tunnel.id, target)
  }

  /** Returns the member name of the client's cookie. */
  #held({ flow }: Choosing, key: string, { sticky }: Balance): string | undefined {
    return sticky === undefined ? undefined : this.cookies.held(flow, key, sticky)?.member
  }

  /** Adds the sticky cookie of the unit to the target. */
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
      case 'files': {
        const server = this.#folder(unit)
        return server === undefined ? 'none' : stateOf(server, tried)
      }
      case 'address':
        return best(this.servers.members(unit).map(({ server }) => stateOf(server, tried)))
      case 'tunnels':
        return best(
          this.servers
            .tunnelsOf(unit)
            .servers.map(({ tunnel, server }) => (tunnel.ready ? stateOf(server, tried) : 'none'))
        )
      case 'failover':
        return best(unit.members.map((member) => this.#state(choosing, member)))
      case 'weighted':
        return best(unit.members.map(({ upstream, weight }) => (weight > 0 ? this.#state(choosing, upstream) : 'none')))
    }
  }

  /** Returns the load of a member and its current share of the weight, which rises after a recovery. */
  #business(units: UpstreamLookup, key: string, { slowStart = 0 }: WeightedUpstream): { load: number; warmth: number } {
    const unit = units.upstream(key)
    if (unit?.form !== 'address' && unit?.form !== 'tunnels') return { load: 0, warmth: 1 }
    // A group is as warm as its warmest member.
    let [load, warmth] = [0, COLDEST]
    for (const { server } of unit.form === 'address'
      ? this.servers.members(unit)
      : this.servers.tunnelsOf(unit).servers) {
      load += server.places.active
      warmth = Math.max(warmth, warmthOf(server, slowStart))
    }
    return { load, warmth }
  }

  /** Returns the server of a folder; undefined if files are not served. */
  #folder(unit: FileUpstream): Server | undefined {
    let server = this.#folders.get(unit)
    if (server === undefined && this.#files !== undefined) {
      const dialer = this.#files.dialer(unit)
      server = new Server(dialer, dialer.key, this.#clock)
      this.#folders.set(unit, server)
    }
    return server
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

  /** Chooses among the untried servers of a unit: the lowest priority with a healthy server. */
  #member(unit: AddressUpstream, tried: ReadonlySet<Server>): Server | undefined {
    const members = this.servers.members(unit)
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
    const states = shares.map(({ server }) => stateOf(server, tried))
    const best = STATES.find((state) => states.includes(state))
    const index = turn.take(
      shares
        .filter((_, at) => states[at] === best)
        .map(({ index, weight, server }) => ({ index, weight, load: server.places.active }))
    )
    return index === undefined ? undefined : members[index]?.server
  }
}

/** Returns true if retries to the unit may be limited. Those of a group are limited by its members. */
function mayBound(unit: UpstreamUnit): boolean {
  if (unit.form !== 'address') return unit.form === 'failover' || unit.form === 'weighted'
  return unit.retries?.share !== undefined || unit.retries?.perSecond !== undefined
}

/** Returns why there is no target: a group without tunnels, a policy that had to answer, or no upstream at all. */
export function absence(units: UpstreamLookup, key: string | undefined): FailureAnswer {
  if (key === POLICY_ALONE) return requestErrors.policyAlone
  const unit = key === undefined ? undefined : units.upstream(key)
  return unit?.form === 'tunnels' ? FAILURES['no-tunnel'] : requestErrors.upstream
}

function stateOf(server: Server, tried: ReadonlySet<Server>): State {
  if (tried.has(server)) return 'none'
  if (!server.isUp()) return 'down'
  const { state } = server.places
  return state === 'free' ? 'up' : state
}

function warmthOf(server: Server, slowStart: number): number {
  return slowStart === 0 ? 1 : Math.min(1, Math.max(COLDEST, server.upFor / slowStart))
}

function best(states: readonly State[]): State {
  return STATES.find((state) => states.includes(state)) ?? 'none'
}

/** Returns the id and the name of a backend. */
function namedIn(key: string, { name }: UpstreamUnit): { readonly backend: string; readonly name: string } {
  const backend = backendOf(key)
  return { backend, name: name ?? backend }
}
