import { isIP } from 'node:net'
import type { Clock } from '../lib/clock.js'
import { codeOf } from '../lib/errors.js'
import type { Names } from '../lib/names/names.js'
import type { AddressUpstream } from '../runtime/plan.js'
import { DialError, type Dialer } from '../transport/contract.js'
import { PlaceDialer } from './place-dialer.js'
import { dialerOf, nameOf, Server, type Surroundings } from './server.js'
import { shareOf } from './server-places.js'

/** Time for which the last addresses of a name are used after it stops resolving (ms). */
const KEPT = 600_000
/** Minimum and maximum time between lookups of a name, and the time after a failure (ms). */
const AGAIN = { shortest: 1_000, longest: 3_600_000, failed: 5_000 }
/** Maximum number of servers of one name; further ones are ignored. */
const MOST_SERVERS = 64
/** Weight 0 is a very small share (RFC 2782). */
const SMALLEST_WEIGHT = 0.01

/** State of a server name. */
export interface NameState {
  /** `unknown`: no answer yet. `stale`: the last addresses are used. `unresolved`: there is no address. */
  readonly state: 'unknown' | 'resolved' | 'stale' | 'unresolved'
  /** Text of the failure; empty if the name resolves. */
  readonly reason: string
  /** Start of the state, wall clock in milliseconds; undefined before the first answer. */
  readonly since: number | undefined
}

/** Server of a name. */
export interface Member {
  readonly server: Server
  /** Empty for the placeholder of the name. */
  readonly address: string
  /** Lower priorities are used first. */
  readonly priority: number
  readonly weight: number
}

/** Receives changes of the name. */
export interface NameOwner {
  added(server: Server): unknown
  removed(server: Server): unknown
  /** Called when servers are added or removed. */
  changed(): void
  named(state: NameState): void
}

interface Place {
  readonly address: string
  readonly port: number
  readonly priority: number
  readonly weight: number
  readonly name: string
}

/** Returns true if the host is a name that may have several addresses. Those of this machine are one server. */
export function isNamed({ host, service }: AddressUpstream): boolean {
  if (service !== undefined) return true
  return isIP(host) === 0 && host !== 'localhost' && !host.endsWith('.localhost')
}

/**
 * Servers of a unit's name: one for each address. The name is looked up again when the answer expires; a server object is kept while its
 * address is in the answers. Before the first answer, and without any address, a placeholder server makes connections wait for an answer.
 */
export class NamedServers {
  readonly #unit: AddressUpstream
  readonly #clock: Clock
  readonly #around: Surroundings
  readonly #names: Pick<Names, 'resolve' | 'services'>
  readonly #alone: Member
  #places = new Map<string, Server>()
  #members: readonly Member[] = []
  #expires = Number.NEGATIVE_INFINITY
  /** Expiry of the last answer with addresses. */
  #lastGood = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined
  #state: NameState = { state: 'unknown', reason: '', since: undefined }
  #owner: NameOwner | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(unit: AddressUpstream, clock: Clock, around: Surroundings, names: Pick<Names, 'resolve' | 'services'>) {
    this.#unit = shareOf(unit, around.threads)
    this.#clock = clock
    this.#around = around
    this.#names = names
    this.#alone = {
      server: new Server(this.#waiting(), nameOf(unit), clock, this.#unit),
      address: '',
      priority: 0,
      weight: 1
    }
  }

  /** Name for logs. */
  get name(): string {
    return this.#unit.service ?? this.#unit.host
  }

  get state(): NameState {
    return this.#state
  }

  /** At least one server. */
  get members(): readonly Member[] {
    if (this.#clock.monotonic() >= this.#expires) void this.#ask()
    return this.#members.length === 0 ? [this.#alone] : this.#members
  }

  /** Starts background lookups for a unit in use. */
  begin(owner: NameOwner): void {
    this.#owner = owner
    for (const { server } of this.members) owner.added(server)
    this.#plan()
  }

  end(): void {
    clearTimeout(this.#timer)
    const owner = this.#owner
    this.#owner = undefined
    for (const { server } of this.#current()) owner?.removed(server)
  }

  #current(): readonly Member[] {
    return this.#members.length === 0 ? [this.#alone] : this.#members
  }

  #plan(): void {
    clearTimeout(this.#timer)
    if (this.#owner === undefined) return
    const left = Math.max(this.#expires - this.#clock.monotonic(), AGAIN.shortest)
    this.#timer = setTimeout(
      () => {
        if (this.#clock.monotonic() >= this.#expires) void this.#ask()
        this.#plan()
      },
      Math.min(left, AGAIN.longest)
    ).unref()
  }

  /** Looks the name up, one lookup at a time. Never rejects. */
  #ask(): Promise<void> {
    this.#asking ??= this.#answer().finally(() => {
      this.#asking = undefined
      this.#plan()
    })
    return this.#asking
  }

  async #answer(): Promise<void> {
    try {
      const { places, expires } = await this.#resolve()
      const now = this.#clock.monotonic()
      this.#expires = Math.min(Math.max(expires, now + AGAIN.shortest), now + AGAIN.longest)
      this.#lastGood = this.#expires
      this.#take(places)
      this.#is('resolved', '')
    } catch (error) {
      const reason = codeOf(error) ?? 'EFAIL'
      const now = this.#clock.monotonic()
      this.#expires = now + AGAIN.failed
      if (this.#members.length > 0 && now < this.#lastGood + KEPT) this.#is('stale', reason)
      else {
        this.#take([])
        this.#is('unresolved', reason)
      }
    }
  }

  async #resolve(): Promise<{ places: readonly Place[]; expires: number }> {
    const { service, host, port } = this.#unit
    if (service === undefined) {
      const { found, expires } = await this.#names.resolve(host)
      const name = nameOf(this.#unit)
      const places = found.map((address) => ({ address, port, priority: 0, weight: 1, name: `${name} (${address})` }))
      return { places, expires }
    }
    const { found, expires } = await this.#names.services(service)
    let until = expires
    const places: Place[] = []
    let failed: unknown
    for (const { host: target, port: at, priority, weight } of found) {
      try {
        const resolved = await this.#names.resolve(target)
        until = Math.min(until, resolved.expires)
        const name = nameOf({ ...this.#unit, service: undefined, host: target, port: at })
        // The addresses of one target share its weight.
        const share = Math.max(weight, SMALLEST_WEIGHT) / resolved.found.length
        for (const address of resolved.found)
          places.push({ address, port: at, priority, weight: share, name: `${name} (${address})` })
      } catch (error) {
        failed = error
      }
    }
    if (places.length === 0) throw failed
    return { places, expires: failed === undefined ? until : Math.min(until, this.#clock.monotonic() + AGAIN.failed) }
  }

  #take(places: readonly Place[]): void {
    const before = this.#current()
    const known = this.#places
    this.#places = new Map()
    const members: Member[] = []
    for (const place of [...places].sort(inOrder).slice(0, MOST_SERVERS)) {
      const key = `${place.address} ${place.port} ${place.name}`
      if (this.#places.has(key)) continue
      const server = known.get(key) ?? this.#server(place)
      this.#places.set(key, server)
      members.push({ server, address: place.address, priority: place.priority, weight: place.weight })
    }
    this.#members = members
    const owner = this.#owner
    if (owner === undefined) return
    const was = new Set(before.map(({ server }) => server))
    const is = new Set(this.#current().map(({ server }) => server))
    for (const server of is) if (!was.has(server)) owner.added(server)
    for (const server of was) if (!is.has(server)) owner.removed(server)
    if (is.size !== was.size || [...is].some((server) => !was.has(server))) owner.changed()
  }

  #server({ address, port, name, priority }: Place): Server {
    const plain = dialerOf(this.#unit, this.#around, { host: address, port })
    const dialer: PlaceDialer = new PlaceDialer(plain, () => this.#others(dialer, address, priority))
    const server = new Server(dialer, name, this.#clock, this.#unit)
    dialer.server = server
    return server
  }

  /** Returns the alternatives: same priority, up, the other address family first (RFC 8305 4). */
  #others(dialer: Dialer, address: string, priority: number): readonly Server[] {
    const own = isIP(address)
    const others = this.#members.filter((one) => one.server.dialer !== dialer && one.priority === priority)
    const up = others.filter(({ server }) => server.isUp())
    const same = (one: Member) => isIP(one.address) === own
    return [...up.filter((one) => !same(one)), ...up.filter(same)].map(({ server }) => server)
  }

  #is(state: NameState['state'], reason: string): void {
    if (this.#state.state === state) return
    this.#state = { state, reason, since: this.#clock.wall() }
    this.#owner?.named(this.#state)
  }

  /** Returns a dialer that waits for an answer and dials its address. */
  #waiting(): Dialer {
    const plain = dialerOf(this.#unit, this.#around)
    return {
      ...plain,
      key: `name ${this.#unit.service ?? ''} ${plain.key}`,
      open: async (why) => {
        await this.#ask()
        if (why.signal.aborted !== undefined) throw new DialError(why.signal.aborted, 'given up')
        const server = this.#members[0]?.server
        if (server === undefined)
          throw new DialError('dial-refused', `the name does not resolve: ${this.#state.reason}`)
        try {
          return await server.dialer.open(why)
        } catch (error) {
          const { successor } = server
          if (!(error instanceof DialError) || error.failure !== 'dial-outrun' || successor === undefined) throw error
          return await successor.dialer.open(why)
        }
      }
    }
  }
}

/** Sorts IPv6 first, the rest in a stable order. */
function inOrder(one: Place, other: Place): number {
  return (
    one.priority - other.priority ||
    isIP(other.address) - isIP(one.address) ||
    (one.address < other.address ? -1 : one.address > other.address ? 1 : one.port - other.port)
  )
}
