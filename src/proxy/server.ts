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

/** How long a server is avoided that traffic found to fail. Milliseconds. */
const AVOIDED = { first: 1_000, longest: 30_000 }
/** Failures in a row, after a connection was there, until the server is taken for down. */
const TOLERATED = 3

const BROKEN: ReadonlySet<Failure> = new Set(['upstream-gone', 'upstream-timeout', 'upstream-malformed'])

/** What a server is known to be, for people. */
export interface ServerState {
  /** `unchecked`: it is taken for up because nothing says otherwise. */
  readonly state: 'up' | 'down' | 'unchecked'
  /** What was seen last; empty when nothing was. */
  readonly reason: string
  /** Since when, wall clock in milliseconds; undefined as long as nothing was seen. */
  readonly since: number | undefined
}

/** What sees the health of a server. */
export type Observer = 'check' | 'traffic'

/** What a unit says of the health of its server. */
type ServerSettings = Pick<
  AddressUpstream,
  'health' | 'passiveHealth' | 'retries' | 'timeouts' | 'pathPrefix' | 'upgrades'
>

/** What traffic has found of a place. Plain data. */
export interface OutageState {
  /** Failures in a row. */
  readonly failures: number
  /** Monotonic milliseconds; 0: traffic has nothing against it. */
  readonly downUntil: number
  readonly reason: string
}

/** Where what traffic finds of places is judged, for the threads that only serve. */
export interface OutageJudge {
  /** `tolerated`: failures in a row, after a connection was there, until it is taken for down. */
  failed(place: string, how: { readonly unreached: boolean; readonly reason: string; readonly tolerated: number }): void
  answered(place: string): void
}

/**
 * What traffic has found of one place, where several backends name it: it fails for all of them. Each backend has its own server
 * for that, because what they ask of it differs.
 */
export class Outage {
  /** Those that it is about. */
  readonly servers = new Set<Server>()
  readonly #clock: Clock
  readonly #backoff = new Backoff(AVOIDED)
  /** Called after each change. Must not throw. */
  changed: ((state: OutageState) => void) | undefined = undefined
  /** Judges in the place of this one, with the name of the place there. */
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

  /** Is there nothing to be remembered? */
  get isOver(): boolean {
    return this.#failures === 0 && this.#downUntil === 0
  }

  /** `unreached`: no connection came about. `tolerated`: see `OutageJudge`. */
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

  /** A check found it up; what traffic found is older. */
  over(): void {
    if (this.isOver) return
    this.#failures = 0
    this.#downUntil = 0
    this.#backoff.reset()
    this.changed?.(this.state)
  }

  /** What was judged elsewhere. */
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
 * One server that carries traffic: how busy it is, and whether it works. Its traffic shows it (passive health): a server that
 * fails is avoided for a pause that doubles with each failure and gets the next request after it. Checks show it, too, where the
 * unit asks for them (active health): then a server that they found down gets nothing until they find it up again.
 */
export class Server {
  readonly dialer: Dialer
  /** For logs: no secret, no credential. */
  readonly name: string
  readonly settings: ServerSettings
  readonly scheme: 'http' | 'https'
  /** host:port, for the requests of health checks; empty when its place has none. */
  readonly address: string
  /** Where one place fails for several: the same failures count. */
  readonly place: string
  readonly #clock: Clock
  /** Requests and connections that were sent to it, and those of them that failed by its fault. */
  tries = 0
  failures = 0
  /** The server that was first when this one was dialled last and another one answered: its connection waits there. */
  successor: Server | undefined
  /** Dials of it under way that others have outrun. */
  #outrun = 0
  readonly places: ServerPlaces
  #outage: Outage
  /** What checks found; undefined before the first. */
  #checked: boolean | undefined
  /** Checks in a row that contradict `#checked`. */
  #contrary = 0
  #upSince = Number.NEGATIVE_INFINITY
  /** Called when it went from up, or from not being known, to down, or came back. `by`: what has seen it. */
  onChange: ((state: ServerState, by: Observer) => void) | undefined = undefined
  #seen: ServerState = { state: 'unchecked', reason: '', since: undefined }

  /** `place`: left out, those with the same connections have one. */
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

  /** What traffic has found of it. */
  get outage(): Outage {
    return this.#outage
  }

  /** From now on it shares what traffic finds with the others of the outage. */
  join(outage: Outage): void {
    const own = this.#outage
    if (own === outage) return
    own.servers.delete(this)
    outage.servers.add(this)
    this.#outage = outage
    if (this.#clock.monotonic() < outage.downUntil && this.#checked !== false)
      this.#sees('down', outage.reason, 'traffic')
  }

  /** Ends what `join` began. */
  leave(): void {
    this.#outage.servers.delete(this)
  }

  /** Another one was first while it was dialled: it is avoided until that dial ends, with the way to say so. */
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

  /** Milliseconds since it came back from being down; infinite when it never was. */
  get upFor(): number {
    return this.#clock.monotonic() - this.#upSince
  }

  get state(): ServerState {
    if (this.#seen.state === 'down' && this.isUp()) return { ...this.#seen, state: 'unchecked' }
    return this.#seen
  }

  /** Takes one of its places for an exchange or a connection; gives the way to end it. */
  begin(): () => void {
    this.tries++
    return this.places.take()
  }

  /** Is an answer with this status a failure of the server? */
  failsWith(status: number): boolean {
    const statuses = this.settings.passiveHealth?.statuses
    return statuses !== undefined && isIn(statuses, status)
  }

  /** It answered. */
  succeeded(): void {
    this.#outage.succeeded()
  }

  /** What ended the attempt; what the client did says nothing of the server. */
  failed(failure: Failure): void {
    // It was not asked.
    if (failure === 'no-descriptor') return
    if (!UNREACHED.has(failure) && !BROKEN.has(failure)) return
    this.#failure(UNREACHED.has(failure), failure)
  }

  /** It answered with a status that `failsWith`. */
  refused(status: number): void {
    this.#failure(false, `status ${status}`)
  }

  /** What checks have decided so far; undefined: nothing. */
  get found(): boolean | undefined {
    return this.#checked
  }

  /** What a check found. */
  checked(ok: boolean, reason: string): void {
    const { rise = 1, fall = 1 } = this.settings.health ?? {}
    if (this.#checked === ok) {
      this.#contrary = 0
      return
    }
    this.#contrary++
    // The first check decides at once: before it nothing is known.
    if (this.#checked !== undefined && this.#contrary < (ok ? rise : fall)) return
    this.decided(ok, reason)
  }

  /** What checks have decided, here or in another thread. */
  decided(ok: boolean, reason: string): void {
    if (this.#checked === ok) return
    const first = this.#checked === undefined
    this.#checked = ok
    this.#contrary = 0
    if (ok) {
      // What traffic found before is older.
      const outage = this.#outage
      const down = outage.downUntil > 0
      if (outage.judge === undefined) outage.over()
      for (const server of outage.servers) if (down && server !== this) server.returned()
      if (!first) this.#upSince = this.#clock.monotonic()
    }
    this.#sees(ok ? 'up' : 'down', reason, 'check')
  }

  /** Called by the outage: traffic has found it down. */
  isAvoided(reason: string): void {
    if (this.#checked !== false) this.#sees('down', reason, 'traffic')
  }

  /** Called by the outage: traffic has found it up again. */
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
    // That it works, found out first, changes nothing.
    if (before.state !== state && (state === 'down' || before.state === 'down')) this.onChange?.(this.#seen, by)
  }
}

/** Both ends of each range belong to it. */
export function isIn(ranges: readonly StatusRange[], status: number): boolean {
  return ranges.some(([from, to]) => status >= from && status <= to)
}

function authorityOf({ host, port, service, socket }: AddressUpstream): string {
  return service === undefined && socket === undefined ? formatAuthority(host, port) : host
}

/** What the servers of units need of the process. */
export interface Surroundings {
  /** Answers names; the system's resolver when left out. */
  readonly lookup?: LookupFunction | undefined
  /** As in `TcpAddress`. */
  readonly keepAlive?: (() => number) | undefined
  /** Looks up the addresses of names and how long they hold; without it a name is one server. */
  readonly names?: Pick<Names, 'resolve' | 'services'> | undefined
  /** True for addresses that no server may have. */
  readonly refuses?: ((address: string) => boolean) | undefined
  /** The certificate under the key of a unit, as it is now. */
  readonly certificate?: ((key: string) => Certificate | undefined) | undefined
  /** Threads that carry traffic; left out: this one alone does. */
  readonly threads?: number | undefined
  /** Descriptors of the process; without it connections are not counted. */
  readonly descriptors?: DescriptorShares | undefined
}

/** The server of a unit. */
export function serverOf(unit: AddressUpstream, clock: Clock, around: Surroundings): Server {
  return new Server(dialerOf(unit, around), nameOf(unit), clock, shareOf(unit, around.threads))
}

/** For logs: what the configuration calls it. */
export function nameOf({ protocol, host, port, service, socket }: AddressUpstream): string {
  if (socket !== undefined) return `${protocol}://unix:${socket}`
  if (service !== undefined) return `srv+${protocol}://${service}`
  return `${protocol}://${formatAuthority(host, port)}`
}

/** Dials the unit, or one address of its name: what TLS asks for is the same. */
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
    // Who pins a certificate and names no server has it for its key alone.
    ...(pins === undefined ? {} : { pins, checkName: ca !== undefined || servername !== undefined }),
    ...(client === undefined ? {} : { client: { key: client, find: () => certificate?.(client) } })
  })
}
