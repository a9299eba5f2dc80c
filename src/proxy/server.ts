import type { LookupFunction } from 'node:net'
import { UNREACHED } from '../flow/error-codes.js'
import type { Failure } from '../flow/exchange.js'
import type { Clock } from '../lib/clock.js'
import { Backoff } from '../lib/concurrency.js'
import type { DescriptorShares } from '../lib/descriptor-shares.js'
import { formatAuthority } from '../lib/host.js'
import type { Names } from '../lib/names/names.js'
import type { Certificate } from '../runtime/certificates.js'
import type { AddressUpstream, StatusRange } from '../runtime/plan.js'
import type { Dialer } from '../transport/contract.js'
import { tcpDialer, tlsDialer } from '../transport/dialers.js'
import { ServerPlaces, shareOf } from './server-places.js'

/** Time for which a server is avoided after a failure (ms). */
const AVOIDED = { first: 1_000, longest: 30_000 }
/** Consecutive failures after connecting before marking the server down. */
const TOLERATED = 3

const BROKEN: ReadonlySet<Failure> = new Set(['upstream-gone', 'upstream-timeout', 'upstream-malformed'])

/** State of a server for people. */
export interface ServerState {
  /** `unchecked`: assumed to be up. */
  readonly state: 'up' | 'down' | 'unchecked'
  /** Last observation; empty if there is none. */
  readonly reason: string
  /** Start of the state, wall clock in milliseconds; undefined before any observation. */
  readonly since: number | undefined
}

/** Source of a health observation. */
export type Observer = 'check' | 'traffic'

/** Health settings of a server's unit. */
type ServerSettings = Pick<
  AddressUpstream,
  'health' | 'passiveHealth' | 'retries' | 'timeouts' | 'pathPrefix' | 'upgrades'
>

/** Failures of an address found by traffic. Plain data. */
export interface OutageState {
  /** Consecutive failures. */
  readonly failures: number
  /** Monotonic milliseconds; 0: not avoided. */
  readonly downUntil: number
  readonly reason: string
}

/** Judges failures found by traffic for threads that only serve. */
export interface OutageJudge {
  /** `tolerated`: consecutive failures after connecting before marking the server down. */
  failed(place: string, how: { readonly unreached: boolean; readonly reason: string; readonly tolerated: number }): void
  answered(place: string): void
}

/**
 * Failures of one address found by traffic, shared by all backends with that address. Each backend has its own server, because their
 * settings differ.
 */
export class Outage {
  /** Servers at the address. */
  readonly servers = new Set<Server>()
  readonly #clock: Clock
  readonly #backoff = new Backoff(AVOIDED)
  /** Called after each change. Must not throw. */
  changed: ((state: OutageState) => void) | undefined = undefined
  /** Judge in another thread, with the address name there. */
  judge: { readonly by: OutageJudge; readonly place: string } | undefined = undefined
  #failures = 0
  #downUntil = 0
  #reason = ''

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get state(): OutageState {
    return { failures: this.#failures, downUntil: this.#downUntil, reason: this.#reason }
  }

  get downUntil(): number {
    return this.#downUntil
  }

  get reason(): string {
    return this.#reason
  }

  /** True if no failure is recorded. */
  get isOver(): boolean {
    return this.#failures === 0 && this.#downUntil === 0
  }

  /** `unreached`: no connection was established. `tolerated`: see `OutageJudge`. */
  failed(how: { readonly unreached: boolean; readonly reason: string; readonly tolerated: number }): void {
    if (this.judge !== undefined) {
      this.judge.by.failed(this.judge.place, how)
      return
    }
    const { unreached, reason, tolerated } = how
    this.#failures++
    if (unreached || this.#failures >= tolerated) {
      this.#downUntil = this.#clock.monotonic() + this.#backoff.next()
      this.#failures = 0
      this.#reason = reason
      for (const server of this.servers) server.isAvoided(reason)
    }
    this.changed?.(this.state)
  }

  succeeded(): void {
    if (this.isOver) return
    if (this.judge !== undefined) {
      this.judge.by.answered(this.judge.place)
      return
    }
    const down = this.#downUntil > 0
    this.over()
    if (down) for (const server of this.servers) server.returned()
  }

  /** Clears older failures after a successful check. */
  over(): void {
    if (this.isOver) return
    this.#failures = 0
    this.#downUntil = 0
    this.#backoff.reset()
    this.changed?.(this.state)
  }

  /** Applies the judgement of another thread. */
  learn({ failures, downUntil, reason }: OutageState): void {
    const before = this.#downUntil
    this.#failures = failures
    this.#downUntil = downUntil
    this.#reason = reason
    if (downUntil > before) for (const server of this.servers) server.isAvoided(reason)
    else if (before > 0 && downUntil === 0) for (const server of this.servers) server.returned()
  }
}

/**
 * Server with its load and health. Passive health: after a failure the server is avoided for a delay that doubles with each failure, then
 * gets the next request. Active health, if configured: a server that fails its checks gets no requests until they succeed.
 */
export class Server {
  readonly dialer: Dialer
  /** Name for logs, without secrets or credentials. */
  readonly name: string
  readonly settings: ServerSettings
  readonly scheme: 'http' | 'https'
  /** host:port for health checks; empty if the server has none. */
  readonly address: string
  /** Key of the address, whose failures are shared. */
  readonly place: string
  readonly #clock: Clock
  /** Requests and connections sent to it; `failures`: those that failed because of it. */
  tries = 0
  failures = 0
  /** Server that connected first when this one was last dialled; its connection waits there. */
  successor: Server | undefined
  /** Running dials that another server has outrun. */
  #outrun = 0
  readonly places: ServerPlaces
  #outage: Outage
  /** Result of the checks; undefined before the first. */
  #checked: boolean | undefined
  /** Consecutive checks that contradict `#checked`. */
  #contrary = 0
  #upSince = Number.NEGATIVE_INFINITY
  /** Called when the server goes down or recovers. `by`: source of the observation. */
  onChange: ((state: ServerState, by: Observer) => void) | undefined = undefined
  #seen: ServerState = { state: 'unchecked', reason: '', since: undefined }

  /** `place`: key of the address. @default the connection key */
  constructor(dialer: Dialer, name: string, clock: Clock, unit?: AddressUpstream, place?: string) {
    this.#clock = clock
    this.dialer = dialer
    this.name = name
    this.settings = unit ?? {}
    this.places = new ServerPlaces(unit ?? {})
    this.scheme = unit?.protocol ?? 'http'
    this.address = unit === undefined ? '' : authorityOf(unit)
    this.place = place ?? `${dialer.key} ${JSON.stringify(unit?.passiveHealth ?? null)}`
    this.#outage = new Outage(clock)
    this.#outage.servers.add(this)
  }

  /** Failures found by traffic. */
  get outage(): Outage {
    return this.#outage
  }

  /** Shares an outage with other servers. */
  join(outage: Outage): void {
    const own = this.#outage
    if (own === outage) return
    own.servers.delete(this)
    outage.servers.add(this)
    this.#outage = outage
    if (this.#clock.monotonic() < outage.downUntil && this.#checked !== false)
      this.#sees('down', outage.reason, 'traffic')
  }

  /** Leaves the shared outage. */
  leave(): void {
    this.#outage.servers.delete(this)
  }

  /** Avoids this server, which another one outran, until the dial ends; returns the function to call then. */
  outrun(by: Server): () => void {
    this.successor = by
    this.#outrun++
    return () => {
      this.#outrun--
    }
  }

  isUp(): boolean {
    return this.#outrun === 0 && this.#checked !== false && this.#clock.monotonic() >= this.#outage.downUntil
  }

  /** Milliseconds since it recovered; infinite if it never was down. */
  get upFor(): number {
    return this.#clock.monotonic() - this.#upSince
  }

  get state(): ServerState {
    if (this.#seen.state === 'down' && this.isUp()) return { ...this.#seen, state: 'unchecked' }
    return this.#seen
  }

  /** Takes a place for an exchange or connection; returns the function that ends it. */
  begin(): () => void {
    this.tries++
    return this.places.take()
  }

  /** Returns true if a response with this status counts as a failure. */
  failsWith(status: number): boolean {
    const statuses = this.settings.passiveHealth?.statuses
    return statuses !== undefined && isIn(statuses, status)
  }

  /** Records a response. */
  succeeded(): void {
    this.#outage.succeeded()
  }

  /** Records a failed attempt; failures caused by the client are ignored. */
  failed(failure: Failure): void {
    // The server was not contacted.
    if (failure === 'no-descriptor') return
    if (!UNREACHED.has(failure) && !BROKEN.has(failure)) return
    this.#failure(UNREACHED.has(failure), failure)
  }

  /** Records a response whose status counts as a failure. */
  refused(status: number): void {
    this.#failure(false, `status ${status}`)
  }

  /** Decision of the checks; undefined if there is none. */
  get found(): boolean | undefined {
    return this.#checked
  }

  /** Records the result of a check. */
  checked(ok: boolean, reason: string): void {
    const { rise = 1, fall = 1 } = this.settings.health ?? {}
    if (this.#checked === ok) {
      this.#contrary = 0
      return
    }
    this.#contrary++
    // The first check decides at once.
    if (this.#checked !== undefined && this.#contrary < (ok ? rise : fall)) return
    this.decided(ok, reason)
  }

  /** Applies the decision of checks, here or in another thread. */
  decided(ok: boolean, reason: string): void {
    if (this.#checked === ok) return
    const first = this.#checked === undefined
    this.#checked = ok
    this.#contrary = 0
    if (ok) {
      // Earlier failures of traffic are outdated.
      const outage = this.#outage
      const down = outage.downUntil > 0
      if (outage.judge === undefined) outage.over()
      for (const server of outage.servers) if (down && server !== this) server.returned()
      if (!first) this.#upSince = this.#clock.monotonic()
    }
    this.#sees(ok ? 'up' : 'down', reason, 'check')
  }

  /** Called by the outage when traffic marks the server down. */
  isAvoided(reason: string): void {
    if (this.#checked !== false) this.#sees('down', reason, 'traffic')
  }

  /** Called by the outage when traffic marks the server up. */
  returned(): void {
    this.#upSince = this.#clock.monotonic()
    if (this.#checked !== false) this.#sees('up', 'it answers again', 'traffic')
  }

  #failure(unreached: boolean, reason: string): void {
    this.failures++
    const tolerated = this.settings.passiveHealth?.failures ?? TOLERATED
    this.#outage.failed({ unreached, reason, tolerated })
  }

  #sees(state: 'up' | 'down', reason: string, by: Observer): void {
    const before = this.#seen
    const since = before.state === state ? before.since : this.#clock.wall()
    this.#seen = { state, reason, since }
    // The first observation that it is up is not a change.
    if (before.state !== state && (state === 'down' || before.state === 'down')) this.onChange?.(this.#seen, by)
  }
}

/** Returns true if the status is in a range, both ends included. */
export function isIn(ranges: readonly StatusRange[], status: number): boolean {
  return ranges.some(([from, to]) => status >= from && status <= to)
}

function authorityOf({ host, port, service, socket }: AddressUpstream): string {
  return service === undefined && socket === undefined ? formatAuthority(host, port) : host
}

/** Dependencies of servers on the process. */
export interface Surroundings {
  /** Resolves names. @default the system's resolver */
  readonly lookup?: LookupFunction | undefined
  /** See `TcpAddress`. */
  readonly keepAlive?: (() => number) | undefined
  /** Looks up addresses and their lifetime. @default a name is one server */
  readonly names?: Pick<Names, 'resolve' | 'services'> | undefined
  /** Returns true for forbidden addresses. */
  readonly refuses?: ((address: string) => boolean) | undefined
  /** Returns the current certificate of a unit's key. */
  readonly certificate?: ((key: string) => Certificate | undefined) | undefined
  /** Threads that carry traffic. @default this one alone */
  readonly threads?: number | undefined
  /** Descriptors of the process. @default connections are not counted */
  readonly descriptors?: DescriptorShares | undefined
}

/** Returns the server of a unit. */
export function serverOf(unit: AddressUpstream, clock: Clock, around: Surroundings): Server {
  return new Server(dialerOf(unit, around), nameOf(unit), clock, shareOf(unit, around.threads))
}

/** Returns the name of a unit for logs. */
export function nameOf({ protocol, host, port, service, socket }: AddressUpstream): string {
  if (socket !== undefined) return `${protocol}://unix:${socket}`
  if (service !== undefined) return `srv+${protocol}://${service}`
  return `${protocol}://${formatAuthority(host, port)}`
}

/** Returns a dialer to the unit or to one address of its name; the TLS settings are the same. */
export function dialerOf(
  unit: AddressUpstream,
  { lookup, keepAlive, refuses, certificate, descriptors }: Surroundings,
  place: { readonly host: string; readonly port: number } = unit
): Dialer {
  const { servername, certificateAuthorities: ca, minVersion, pins, clientCertificate: client } = unit
  const at = {
    host: place.host,
    port: place.port,
    lookup,
    keepAlive,
    refuses,
    descriptors,
    ...(unit.socket === undefined ? {} : { socket: unit.socket }),
    ...(unit.proxyProtocol === undefined ? {} : { proxyProtocol: unit.proxyProtocol }),
    ...(unit.http2 === true ? { http2: true } : {}),
    ...(unit.lenient === true ? { lenient: true } : {})
  }
  if (unit.protocol === 'http') return tcpDialer(at)
  return tlsDialer({
    ...at,
    servername: servername ?? unit.host,
    ...(ca === undefined ? {} : { ca }),
    ...(minVersion === undefined ? {} : { minVersion }),
    ...(unit.verify === false ? { rejectUnauthorized: false } : {}),
    // With a pin and without a server name the certificate is trusted by its key alone.
    ...(pins === undefined ? {} : { pins, checkName: ca !== undefined || servername !== undefined }),
    ...(client === undefined ? {} : { client: { key: client, find: () => certificate?.(client) } })
  })
}
