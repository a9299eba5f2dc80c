import type { Call } from '../control/calls.js'
import { Leases } from '../control/cluster/leases.js'
import type { ServiceAccount } from '../control/parts.js'
import type { Clock } from '../lib/clock.js'
import { FirstFailure, Mutex } from '../lib/concurrency.js'
import { codeOf } from '../lib/errors.js'
import type { Outbound } from '../lib/http-client/outbound.js'
import { newId } from '../lib/id.js'
import type { PendingChallenge } from '../resources/domains.js'
import type { Place } from '../store/store.js'
import type { AuthorityOptions } from './account.js'
import { AcmeError } from './acme-transport.js'
import { Authorities, type SiteAuthority } from './authorities.js'
import { Issuance } from './issuance.js'
import { Ledger, OURSELVES } from './ledger.js'
import { RenewalAdvice } from './renewal-advice.js'
import { SiteDomains } from './site-domains.js'
import { challengesOf, type ManagedCertificate, stageOf, type TargetOptions } from './target.js'

/** Where authorities ask (RFC 8555 8.3). */
const CHALLENGE_PATH = '/.well-known/acme-challenge/'

const NONE: ReadonlyMap<string, readonly string[]> = new Map()

/** The answers to the challenges of authorities that are open now. Kept by the record whose certificate is requested. */
export class ChallengeTable {
  readonly #pending = new Map<string, readonly PendingChallenge[]>()
  /** Answers by host and path. */
  readonly #answers = new Map<string, Uint8Array>()
  #texts = NONE
  readonly #followers: ((answers: ReadonlyMap<string, Uint8Array>) => void)[] = []

  /** Calls `follower` with the answers to requests by host and path, now and whenever they are others. It must not throw. */
  follow(follower: (answers: ReadonlyMap<string, Uint8Array>) => void): void {
    this.#followers.push(follower)
    follower(this.#answers)
  }

  /** Makes `challenges` exactly those of `owner`. */
  set(owner: string, challenges: readonly PendingChallenge[]): void {
    if (challenges.length === 0 && !this.#pending.has(owner)) return
    if (challenges.length === 0) this.#pending.delete(owner)
    else this.#pending.set(owner, challenges)
    this.#rebuild()
  }

  clear(): void {
    this.#pending.clear()
    this.#rebuild()
  }

  /**
   * The key authorization for a request of an authority; undefined for every other request. `host`: lower-case, without a
   * port. Looks at nothing else of the request and costs one comparison while nothing is pending.
   */
  answer(host: string, path: string): Uint8Array | undefined {
    if (this.#answers.size === 0 || !path.startsWith(CHALLENGE_PATH)) return undefined
    return this.#answers.get(`${host} ${path}`)
  }

  /** Values of the TXT records at a name, lower-case. */
  texts(name: string): readonly string[] {
    return this.#texts.get(name) ?? []
  }

  #rebuild(): void {
    this.#answers.clear()
    const texts = new Map<string, string[]>()
    for (const challenge of [...this.#pending.values()].flat()) {
      if (challenge.type === 'http-01') {
        this.#answers.set(`${challenge.host} ${CHALLENGE_PATH}${challenge.token}`, Buffer.from(challenge.value))
      } else texts.set(challenge.name, [...(texts.get(challenge.name) ?? []), challenge.value])
    }
    this.#texts = texts
    for (const follower of this.#followers) follower(this.#answers)
  }
}

export interface CertificatesParts extends TargetOptions {
  readonly control: ServiceAccount
  /** What the data plane and the DNS listener answer from; kept by the certificates from now on. */
  readonly challenges: ChallengeTable
  /** May reach private addresses: the operator names the authority. */
  readonly outbound: Outbound
  /** The certificate authority to ask; a text: the reason why there is none. */
  readonly authority: AuthorityOptions | string
  /** Where certificates of a site file come from; absent: from the same. */
  readonly site?: SiteAuthority
  readonly clock: Clock
  /** Are there other processes on the store? */
  readonly shared: boolean
  /** In [0, 1). */
  readonly random: () => number
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
}

const DUTY = 'certificates'
const AT_ONCE = 4
/** Milliseconds between looks at an order that waits for the authority. */
const POLL = 2_000
/** Without a renewal of the lease for so long, another process takes the certificates over. Milliseconds. */
const LEASE_EXPIRY = 20_000
/** How long a renewal may take from its time on before it is overdue: orders, and a retry or two. Milliseconds. */
const RENEWAL_TAKES = 600_000
const NO_DNS = 'a wildcard is proved by DNS, and the operator has not opened a DNS listener (option dns.listen)'

/**
 * Managed certificates: follows the records that want one, requests and renews, and answers the challenges of
 * authorities meanwhile. `tick` does everything that is due; between ticks nothing happens.
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
  /** When the certificates of targets are due for renewal, milliseconds since the Unix epoch. */
  readonly #renewals = new Map<string, number>()
  /** When to look at an order again, monotonic milliseconds. */
  readonly #polls = new Map<string, number>()
  /** Until when the authority is left alone, monotonic milliseconds. */
  #pausedUntil = 0
  readonly #follows = new FirstFailure()
  readonly #ticks = new FirstFailure()
  #place: Place | undefined
  #ticking: Promise<void> | undefined
  readonly #following = new Mutex()
  #swept = false
  #closed = false

  constructor(parts: CertificatesParts) {
    const { control, clock, authority, random, dns, shared } = parts
    this.#parts = parts
    this.challenges = parts.challenges
    this.#ledger = new Ledger(control, clock, parts)
    const holder = newId('process', clock.wall())
    // A process that has the store alone goes on at once after a crash.
    if (shared) this.#leases = new Leases({ store: control.store.outbox, clock, holder, expiry: LEASE_EXPIRY })
    const authorities = new Authorities(parts)
    this.#authorities = authorities
    this.#siteDomains = new SiteDomains({ control, call: () => this.#call(), shared, log: parts.log })
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

  /** How many certificates should have been renewed by now. */
  get overdue(): number {
    const due = this.#parts.clock.wall() - RENEWAL_TAKES
    let count = 0
    for (const moment of this.#renewals.values()) if (moment < due) count++
    return count
  }

  /**
   * Reads what has changed, goes on with every certificate that is due and waits for it. Calls at the same time are one.
   * Never rejects: a store that cannot be reached is asked again at the next tick.
   */
  async tick(): Promise<void> {
    this.#ticking ??= this.#tick().finally(() => {
      this.#ticking = undefined
    })
    await this.#ticking
  }

  /** Reads what has changed. Never rejects: what cannot be read now is read by the next tick. */
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
      // The lease runs out by itself.
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
    // What an authority gave could not be kept.
    if (this.#parts.control.applied.degraded !== null) return await this.#follow()
    await this.#siteDomains.settle()
    await this.#follow()
    if (this.#leases !== undefined && !(await this.#leases.hold(DUTY))) return
    if (!this.#swept) await this.#ledger.removeOrphans()
    this.#swept = true
    await this.#work(this.#issuance)
    await this.#askAdvice()
    await this.#follow()
  }

  async #work(issuance: Issuance): Promise<void> {
    const { clock } = this.#parts
    const due = [...this.#targets.values()].filter((target) => stageOf(target, clock.wall()).is !== 'wait')
    const next = due[Symbol.iterator]()
    const worker = async () => {
      for (const target of next) if (!this.#closed) await this.#one(issuance, target)
    }
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, due.length) }, worker))
  }

  /** A few at a time: no answer that is late holds up what is to be issued for long. */
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

  async #one(issuance: Issuance, target: ManagedCertificate): Promise<void> {
    const { clock, log } = this.#parts
    const { is, wrong } = stageOf(target, clock.wall())
    try {
      if (is === 'detach') await this.#ledger.detach(target)
      else if (clock.monotonic() < this.#pausedUntil) return
      else if (is === 'begin') {
        if (wrong === 'retries_at') this.#ignore(target, wrong)
        await issuance.begin(target)
      } else if ((this.#polls.get(target.id) ?? 0) <= clock.monotonic()) {
        const waits = await issuance.proceed(target, this.#place?.revision ?? 0)
        if (waits) this.#polls.set(target.id, clock.monotonic() + POLL)
        else this.#polls.delete(target.id)
      }
    } catch (error) {
      // One record that cannot be written must not hold up the others.
      log.warn({ err: error, kind: target.kind, id: target.id }, 'a managed certificate could not be looked after')
    }
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
    // What changes while this reads is read again by the next call.
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
      this.#advice.forget(id)
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

  /** The operator learns what the user of a record sees. */
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
