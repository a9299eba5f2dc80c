import type { LookupFunction } from 'node:net'
import type { Failure } from '../flow/exchange.js'
import type { Clock } from '../lib/clock.js'
import { Backoff } from '../lib/concurrency.js'
import { formatAuthority } from '../lib/host.js'
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
import { tcpDialer, tlsDialer } from '../transport/dialers.js'

/** How long a server that could not be reached is avoided. */
const AVOIDED = { first: 1_000, longest: 30_000 }
/** Failures in a row, after a connection was there, until the server is taken for down. */
const TOLERATED = 3

/** The server was never reached: nothing can be hoped of it for now. */
const UNREACHED: ReadonlySet<Failure> = new Set(['dial-refused', 'dial-timeout', 'dial-tls', 'no-tunnel'])
const BROKEN: ReadonlySet<Failure> = new Set(['upstream-gone', 'upstream-timeout', 'upstream-malformed'])

/**
 * One server that carries traffic: how busy it is, and whether it works as far as its traffic tells (passive health). A
 * server that is down is avoided for a pause that doubles with each failure and gets the next request after it.
 */
export class Server {
  readonly dialer: Dialer
  /** For logs: no secret, no credential. */
  readonly name: string
  #active = 0
  #failures = 0
  readonly #backoff = new Backoff(AVOIDED)
  #downUntil = 0

  constructor(dialer: Dialer, name: string) {
    this.dialer = dialer
    this.name = name
  }

  /** Exchanges and connections that it carries now. */
  get active(): number {
    return this.#active
  }

  /** `now`: monotonic, milliseconds. */
  isUp(now: number): boolean {
    return now >= this.#downUntil
  }

  /** Counts one that it carries. The way to end it is called once. */
  begin(): () => void {
    this.#active++
    let running = true
    return () => {
      if (running) this.#active--
      running = false
    }
  }

  succeeded(): void {
    this.#failures = 0
    this.#backoff.reset()
    this.#downUntil = 0
  }

  /** What ended the attempt; what the client did says nothing of the server. */
  failed(failure: Failure, now: number): void {
    if (!UNREACHED.has(failure) && !BROKEN.has(failure)) return
    this.#failures++
    if (!UNREACHED.has(failure) && this.#failures < TOLERATED) return
    this.#downUntil = now + this.#backoff.next()
    this.#failures = 0
  }
}

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

  #credit({ index }: Share): number {
    return this.#credits[index] ?? 0
  }
}

/** Where one attempt goes. */
export type UpstreamTarget =
  | { readonly kind: 'server'; readonly server: Server }
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

/** How good a choice a unit is: it works, it is down, or it cannot be tried (again). */
type State = 'up' | 'down' | 'none'

/**
 * Upstream units → servers. One server per unit object: as long as a unit stays as it was, its connections are reused
 * and its health is remembered across snapshots.
 */
export class Upstreams {
  readonly #clock: Clock
  readonly #tunnels: TunnelGroups | undefined
  readonly #lookup: LookupFunction | undefined
  readonly #servers = new WeakMap<AddressUpstream | TunnelUpstream, Server>()
  readonly #choices = new WeakMap<WeightedUpstream, WeightedChoice>()
  #followed: ShardedMap<UpstreamUnit> = ShardedMap.empty()
  /** Pool key → units that use it. */
  readonly #uses = new Map<string, number>()
  #keys: ReadonlySet<string> = new Set()

  /** `lookup`: answers the names of servers; the system's resolver when left out. */
  constructor(clock: Clock, tunnels?: TunnelGroups, lookup?: LookupFunction) {
    this.#clock = clock
    this.#tunnels = tunnels
    this.#lookup = lookup
  }

  /**
   * Where the next attempt goes when `tried` have failed; undefined when nothing is left. Servers that are down are taken
   * only when nothing else is left: they may have come back.
   */
  choose(units: UpstreamLookup, key: string, tried: ReadonlySet<Server>): UpstreamTarget | undefined {
    const unit = units.upstream(key)
    return unit === undefined ? undefined : this.#choose(units, unit, tried)
  }

  /** Pool keys in use once `units` serve. Costs what has changed since the last call. */
  follow(units: ShardedMap<UpstreamUnit>): ReadonlySet<string> {
    return atOnce(this.following(units))
  }

  /** As `follow`, in steps. Must come to its end before it begins again. */
  *following(units: ShardedMap<UpstreamUnit>): Steps<ReadonlySet<string>> {
    let changed = false
    for (const { before, after } of units.since(this.#followed)) {
      yield
      changed = this.#count(after, 1) || changed
      changed = this.#count(before, -1) || changed
    }
    this.#followed = units
    if (changed) this.#keys = new Set(this.#uses.keys())
    return this.#keys
  }

  #choose(units: UpstreamLookup, unit: UpstreamUnit, tried: ReadonlySet<Server>): UpstreamTarget | undefined {
    switch (unit.form) {
      case 'response':
        return { kind: 'response', unit }
      case 'address':
      case 'tunnels': {
        const server = this.#server(unit)
        return server === undefined || tried.has(server) ? undefined : { kind: 'server', server }
      }
      case 'failover': {
        const member =
          unit.members.find((key) => this.#state(units, key, tried) === 'up') ??
          unit.members.find((key) => this.#state(units, key, tried) === 'down')
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
    const shares = (wanted: State) =>
      unit.members.flatMap(({ upstream, weight }, index) =>
        weight > 0 && this.#state(units, upstream, tried) === wanted
          ? [{ index, weight, load: this.#load(units, upstream) }]
          : []
      )
    const index = choice.take(shares('up')) ?? choice.take(shares('down'))
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
        const server = this.#server(unit)
        if (server === undefined || tried.has(server)) return 'none'
        if (unit.form === 'tunnels' && this.#tunnels?.has(unit.labels) !== true) return 'none'
        return server.isUp(this.#clock.monotonic()) ? 'up' : 'down'
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
    return this.#server(unit)?.active ?? 0
  }

  #server(unit: AddressUpstream | TunnelUpstream): Server | undefined {
    let server = this.#servers.get(unit)
    if (server === undefined) {
      if (unit.form === 'address') server = new Server(createDialer(unit, this.#lookup), nameOf(unit))
      else if (this.#tunnels !== undefined) server = new Server(this.#tunnels.dialer(unit.labels), `tunnels ${unit.id}`)
      else return undefined
      this.#servers.set(unit, server)
    }
    return server
  }

  /** Answers whether the set of keys has changed. */
  #count(unit: UpstreamUnit | undefined, by: 1 | -1): boolean {
    if (unit?.form !== 'address' && unit?.form !== 'tunnels') return false
    const key = this.#server(unit)?.dialer.key
    if (key === undefined) return false
    const before = this.#uses.get(key) ?? 0
    if (before + by === 0) this.#uses.delete(key)
    else this.#uses.set(key, before + by)
    return before === 0 || before + by === 0
  }
}

function best(states: readonly State[]): State {
  if (states.includes('up')) return 'up'
  return states.includes('down') ? 'down' : 'none'
}

function nameOf({ protocol, host, port }: AddressUpstream): string {
  return `${protocol}://${formatAuthority(host, port)}`
}

function createDialer(unit: AddressUpstream, lookup: LookupFunction | undefined): Dialer {
  const at = { host: unit.host, port: unit.port, lookup, ...(unit.http2 === true ? { http2: true } : {}) }
  if (unit.protocol === 'http') return tcpDialer(at)
  return tlsDialer({
    ...at,
    servername: unit.host,
    ...(unit.certificateAuthorities === undefined ? {} : { ca: unit.certificateAuthorities })
  })
}
