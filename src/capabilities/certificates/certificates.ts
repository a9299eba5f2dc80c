import type { Call } from '../../control/calls.js'
import { Leases } from '../../control/cluster/leases.js'
import type { ServiceAccount } from '../../control/parts.js'
import { withEarlierRetry } from '../../control/renewal.js'
import type { Clock } from '../../lib/clock.js'
import { FirstFailure, Mutex } from '../../lib/concurrency.js'
import { codeOf } from '../../lib/errors.js'
import type { Outbound } from '../../lib/http-client/outbound.js'
import { newId } from '../../lib/id.js'
import type { Place } from '../../store/store.js'
import type { AuthorityOptions } from './account.js'
import { AcmeError } from './acme-error.js'
import type { AddressWatch } from './address-watch.js'
import { Authorities, type AuthoritiesParts, type SiteAuthority } from './authorities.js'
import type { ChallengeTable } from './challenges.js'
import { Issuance } from './issuance.js'
import { Ledger, OURSELVES } from './ledger.js'
import { RenewalAdvice } from './renewal-advice.js'
import type { OrderQueue } from './request-pacer.js'
import { SiteDomains } from './site-domains.js'
import { byTurn, challengesOf, type ManagedCertificate, stageOf, type TargetOptions, turnOf } from './target.js'

export interface CertificatesParts extends TargetOptions, Pick<AuthoritiesParts, 'waitUntil'> {
  readonly control: ServiceAccount
  /** Challenge table of the data plane and the DNS listener, maintained by the certificates. */
  readonly challenges: ChallengeTable
  /** May reach private addresses: the operator names the authority. */
  readonly outbound: Outbound
  /** Certificate authority, or the reason why there is none. */
  readonly authority: AuthorityOptions | string
  /** Authority for certificates of a site file. @default `authority` */
  readonly site?: SiteAuthority
  readonly clock: Clock
  readonly watch: AddressWatch
  /** Is there a listener with TLS now? */
  readonly hasTls: () => boolean
  /** Do other processes use the store? */
  readonly shared: boolean
  /** In [0, 1). */
  readonly random: () => number
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
}

const DUTY = 'certificates'
const AT_ONCE = 4
/** Time after which a tick starts no further step, so that the lease can be renewed and records are read (ms). */
const SLICE = 5_000
/** Milliseconds between lines of the log that say how far requests are. */
const PROGRESS_EVERY = 30_000
/** Time without a lease renewal after which another process takes over the certificates (ms). */
const LEASE_EXPIRY = 20_000
/** Maximum duration of a renewal before it is overdue, including retries (ms). */
const RENEWAL_TAKES = 600_000
/** Error of a wildcard without a DNS listener. */
const NO_DNS = 'a wildcard is proved by DNS, and the operator has not opened a DNS listener (option dns.listen)'

/** One pass over due targets. */
interface Round extends OrderQueue {
  /** Names with an order. */
  readonly ordered: Set<string>
  /** A limit of the authority allows no further order now. */
  isFull: boolean
}

/**
 * Managed certificates: follows the records that request one, requests and renews certificates, and answers challenges. All work is done in `tick`.
 */
export class Certificates {
  readonly challenges: ChallengeTable
  readonly #parts: CertificatesParts
  readonly #ledger: Ledger
  readonly #leases: Leases | undefined
  readonly #issuance: Issuance
  readonly #advice: RenewalAdvice
  readonly #authorities: Authorities
  readonly #siteDomains: SiteDomains
  readonly #targets = new Map<string, ManagedCertificate>()
  /** Renewal times of the targets' certificates (ms since the Unix epoch). */
  readonly #renewals = new Map<string, number>()
  /** Time of the next check of each order (monotonic ms). */
  readonly #polls = new Map<string, number>()
  /** End of the pause that the authority requested (monotonic ms). */
  #pausedUntil = 0
  readonly #follows = new FirstFailure()
  readonly #ticks = new FirstFailure()
  #place: Place | undefined
  #ticking: Promise<void> | undefined
  readonly #following = new Mutex()
  #swept = false
  /** Time of the next progress line (monotonic ms); undefined while no certificate is requested. */
  #progressAt: number | undefined
  #progressLogged = false
  #closed = false

  constructor(parts: CertificatesParts) {
    const { control, clock, authority, random, dns, shared } = parts
    this.#parts = parts
    this.challenges = parts.challenges
    this.#ledger = new Ledger(control, clock, parts)
    const holder = newId('process', clock.wall())
    // A process that has the store alone resumes immediately after a crash.
    if (shared) this.#leases = new Leases({ store: control.store.outbox, clock, holder, expiry: LEASE_EXPIRY })
    const authorities = new Authorities(parts)
    this.#authorities = authorities
    this.#siteDomains = new SiteDomains({ control, clock, call: () => this.#call(), shared, log: parts.log })
    const opened = async () => {
      const accounts = authorities.current
      if (accounts === undefined) throw new AcmeError('INTERNAL_ERROR', String(authority))
      return await accounts.open(() => this.#call())
    }
    this.#advice = new RenewalAdvice({ ledger: this.#ledger, authority: opened, clock, log: parts.log })
    this.#issuance = new Issuance({
      ledger: this.#ledger,
      clock,
      random,
      log: parts.log,
      noDns: dns ? undefined : NO_DNS,
      hasTls: parts.hasTls,
      accountLost: () => authorities.current?.lose(),
      pause: (milliseconds) => {
        this.#pausedUntil = Math.max(this.#pausedUntil, clock.monotonic() + milliseconds)
      },
      authority: opened
    })
  }

  /** Domains that are delegated to this service. */
  *delegated(): Generator<string> {
    for (const { delegated } of this.#targets.values()) if (delegated !== null) yield delegated
  }

  /** Is this an address for agents, in a delegated domain? */
  isAgentHost(name: string): boolean {
    for (const { delegated, names } of this.#targets.values()) {
      if (delegated !== null && names.includes(name)) return true
    }
    return false
  }

  /** Number of certificates past their renewal time. */
  get overdue(): number {
    const due = this.#parts.clock.wall() - RENEWAL_TAKES
    let count = 0
    for (const moment of this.#renewals.values()) if (moment < due) count++
    return count
  }

  /**
   * Applies changed records, and runs one step for every due certificate. Concurrent calls share one run. Never rejects: the next tick retries an
   * unreachable store.
   */
  async tick(): Promise<void> {
    this.#ticking ??= this.#tick().finally(() => {
      this.#ticking = undefined
    })
    await this.#ticking
  }

  /** Reads changed records. Never rejects: the next tick retries failed reads. */
  async follow(): Promise<void> {
    if (this.#closed) return
    try {
      await this.#follow()
      this.#follows.passed()
    } catch (error) {
      const { log } = this.#parts
      this.#follows.failed(() => log.warn({ err: error }, 'managed certificates could not be followed; trying again'))
    }
  }

  /** Waits for the step that runs and lets another process take over. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#ticking
    this.#authorities.close()
    try {
      await this.#leases?.release()
    } catch (error) {
      // The lease expires on its own.
      this.#parts.log.warn({ code: codeOf(error) }, 'the lease of the certificates could not be given back')
    }
  }

  async #tick(): Promise<void> {
    if (this.#closed) return
    try {
      await this.#lookAfter()
      this.#ticks.passed()
    } catch (error) {
      const { log } = this.#parts
      this.#ticks.failed(() => log.warn({ err: error }, 'managed certificates could not be looked after; trying again'))
    }
  }

  async #lookAfter(): Promise<void> {
    // A new certificate could not be stored.
    if (this.#parts.control.applied.degraded !== null) return await this.#follow()
    await this.#siteDomains.settle()
    await this.#follow()
    if (this.#leases !== undefined && !(await this.#leases.hold(DUTY))) return
    if (!this.#swept) await this.#ledger.removeOrphans()
    this.#swept = true
    await this.#work()
    await this.#askAdvice()
    await this.#lookForArrivals()
    await this.#follow()
    this.#logProgress()
  }

  /** Handles orders in progress before new ones. */
  async #work(): Promise<void> {
    const { clock } = this.#parts
    const end = clock.monotonic() + SLICE
    const due = { begin: [] as ManagedCertificate[], other: [] as ManagedCertificate[] }
    const ordered = new Set<string>()
    for (const target of this.#targets.values()) {
      const { is } = stageOf(target, clock.wall())
      if (is === 'continue') for (const name of target.names) ordered.add(name)
      if (is !== 'wait') due[is === 'begin' ? 'begin' : 'other'].push(target)
    }
    due.begin.sort(byTurn)
    const next = [...due.other, ...due.begin][Symbol.iterator]()
    const round: Round = { ordered, waiting: 0, isFull: false }
    const worker = async () => {
      for (const target of next) {
        if (this.#closed || clock.monotonic() > end) return
        await this.#one(target, round)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, worker))
  }

  /** Requests renewal information for a few certificates at a time, so that a slow response does not delay requests. */
  async #askAdvice(): Promise<void> {
    const { clock, log } = this.#parts
    if (this.#authorities.current === undefined || clock.monotonic() < this.#pausedUntil) return
    const due: ManagedCertificate[] = []
    for (const target of this.#targets.values()) {
      if (due.length === AT_ONCE) break
      if (this.#advice.isDue(target) && stageOf(target, clock.wall()).is === 'wait') due.push(target)
    }
    const look = async (target: ManagedCertificate) => {
      try {
        await this.#advice.look(target)
      } catch (error) {
        log.warn({ err: error, kind: target.kind, id: target.id }, 'a suggested time of renewal could not be kept')
      }
    }
    await Promise.all(due.map(look))
  }

  /** Retries names that now resolve to this service, and wildcards that are now provable, as soon as the retry interval allows. */
  async #lookForArrivals(): Promise<void> {
    const { clock, log, watch } = this.#parts
    const isDue = (target: ManagedCertificate) => watch.isDue(target) || this.#isProvable(target)
    const due = [...this.#targets.values()].filter(isDue).slice(0, AT_ONCE)
    const look = async (target: ManagedCertificate) => {
      const { kind, id, names, status, work } = target
      const why = this.#isProvable(target)
        ? 'a wildcard can be proved by DNS now'
        : 'the addresses of a name have changed'
      if (!this.#isProvable(target) && !(await watch.hasArrived(target))) return
      const sooner = withEarlierRetry(status, work, clock.wall())
      if (sooner === undefined || work === null) return
      log.info({ kind, id, names }, `${why}; its certificate is requested again`)
      await this.#ledger.step(target, { status: sooner, work })
    }
    await Promise.all(due.map(look))
  }

  /** Did the last attempt fail without a DNS listener, while there is one now? False if the retry is already as early as possible. */
  #isProvable({ status, work }: ManagedCertificate): boolean {
    const isMissed = this.#parts.dns && status?.provisioning_job?.msg === NO_DNS
    return isMissed && withEarlierRetry(status, work, this.#parts.clock.wall()) !== undefined
  }

  async #one(target: ManagedCertificate, round: Round): Promise<void> {
    const { clock, log } = this.#parts
    const { is, wrong } = stageOf(target, clock.wall())
    try {
      if (is === 'detach') await this.#ledger.detach(target)
      else if (clock.monotonic() < this.#pausedUntil) return
      else if (is === 'begin') {
        if (wrong === 'retries_at') this.#ignore(target, wrong)
        await this.#begin(target, round)
      } else if ((this.#polls.get(target.id) ?? 0) <= clock.monotonic()) {
        const wait = await this.#issuance.proceed(target, this.#place?.revision ?? 0)
        this.#polls.set(target.id, clock.monotonic() + wait)
      }
    } catch (error) {
      // An unwritable record must not block the others.
      log.warn({ err: error, kind: target.kind, id: target.id }, 'a managed certificate could not be looked after')
    }
  }

  async #begin(target: ManagedCertificate, round: Round): Promise<void> {
    // Two records may have one name, which has one order at a time.
    if (target.names.some((name) => round.ordered.has(name))) return
    // One that waits already does so behind those before it.
    if (round.isFull && turnOf(target) !== undefined) {
      round.waiting++
      return
    }
    for (const name of target.names) round.ordered.add(name)
    if (!(await this.#issuance.begin(target, round))) round.isFull = true
  }

  /** Logs the progress of many requests. A few short requests are logged individually only. */
  #logProgress(): void {
    const { clock, log } = this.#parts
    const counts = { issued: 0, requested: 0, waiting: 0, failed: 0 }
    for (const target of this.#targets.values()) {
      if (target.keyType === null) continue
      if (target.status?.provisioning_job?.error_code != null) counts.failed++
      else if (target.work?.order != null) counts.requested++
      else counts[stageOf(target, clock.wall()).is === 'begin' ? 'waiting' : 'issued']++
    }
    const now = clock.monotonic()
    if (counts.requested + counts.waiting === 0) {
      if (this.#progressLogged) log.info(counts, 'no more certificates are being requested')
      this.#progressLogged = false
      this.#progressAt = undefined
      return
    }
    this.#progressAt ??= now + PROGRESS_EVERY
    if (now < this.#progressAt) return
    log.info(counts, 'certificates are being requested')
    this.#progressLogged = true
    this.#progressAt = now + PROGRESS_EVERY
  }

  async #follow(): Promise<void> {
    await this.#following.run(() => this.#read())
  }

  async #read(): Promise<void> {
    const changes = this.#place === undefined ? undefined : await this.#ledger.changes(this.#place)
    if (changes === undefined) return await this.#load()
    for (const [id, target] of changes.touched) this.#note(id, target)
    this.#place = changes.place
  }

  async #load(): Promise<void> {
    // Changes during this read are read again by the next call.
    const place = await this.#ledger.place()
    const found = new Map<string, ManagedCertificate>()
    for await (const target of this.#ledger.targets()) found.set(target.id, target)
    for (const id of this.#targets.keys()) if (!found.has(id)) this.#note(id, undefined)
    for (const [id, target] of found) this.#note(id, target)
    this.#place = place
  }

  #note(id: string, target: ManagedCertificate | undefined): void {
    const before = this.#targets.get(id)
    const automatic = before !== undefined && before.certificate !== null
    // Its certificate may belong to no domain now.
    if (target === undefined && automatic) this.#swept = false
    if (target === undefined) {
      this.#targets.delete(id)
      this.#polls.delete(id)
      this.#advice.forget(id)
      this.#parts.watch.forget(id)
    } else this.#targets.set(id, target)
    const renewsAt = target?.keyType == null || target.certificate === null ? null : (target.status?.renews_at ?? null)
    if (renewsAt === null) this.#renewals.delete(id)
    else this.#renewals.set(id, Date.parse(renewsAt))
    this.challenges.set(id, target === undefined ? [] : challengesOf(target))
    this.#logChange(before, target)
    if (target !== undefined && stageOf(target, this.#parts.clock.wall()).wrong === 'renews_at')
      this.#ignore(target, 'renews_at')
  }

  #ignore({ kind, id, names }: ManagedCertificate, field: string): void {
    const message = 'a time in the record cannot be right and is ignored: the clock was wrong when it was written'
    this.#parts.log.warn({ kind, id, names, field }, message)
  }

  /** Logs for the operator what the user of a record sees. */
  #logChange(before: ManagedCertificate | undefined, after: ManagedCertificate | undefined): void {
    if (before === undefined || after === undefined) return
    const { log } = this.#parts
    const job = after.status?.provisioning_job ?? null
    const was = before.status?.provisioning_job ?? null
    const about = { kind: after.kind, id: after.id, names: after.names }
    const failed = job !== null && job.error_code !== null
    if (failed && (job.error_code !== was?.error_code || job.retries_at !== was.retries_at)) {
      const { error_code: code, msg: why, retries_at } = job
      log.warn({ ...about, code, why, retries_at }, 'a certificate could not be requested')
    } else if (after.certificate !== null && after.certificate !== before.certificate && after.keyType !== null) {
      log.info(
        { ...about, certificate: after.certificate, renews_at: after.status?.renews_at },
        'a certificate was issued'
      )
    }
  }

  #call(): Call {
    return { principal: OURSELVES, address: undefined, operationId: newId('op', this.#parts.clock.wall()) }
  }
}
