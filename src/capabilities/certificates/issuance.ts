import type { Clock } from '../../lib/clock.js'
import { timestampText } from '../../lib/json.js'
import { checkPrivateKey, readChain } from '../../lib/x509.js'
import type { CertificateWork, ManagementStatus, PendingChallenge, ProvisioningJob } from '../../resources/domains.js'
import type { Authority, Authorization, ChallengeType, KeyType, OpenChallenge, OrderState } from './acme.js'
import { AcmeError } from './acme-error.js'
import type { Ledger } from './ledger.js'
import { correctionDelay, MINUTE, renewalOf, retryBefore, retryDelay, shortestUse } from './renewal-times.js'
import type { OrderQueue } from './request-pacer.js'
import type { ManagedCertificate } from './target.js'

interface IssuanceParts {
  readonly ledger: Ledger
  readonly authority: () => Promise<Authority>
  /** Called when the authority no longer knows our account. */
  readonly accountLost: () => void
  /** Called with the pause that the authority requests (ms). */
  readonly pause: (milliseconds: number) => void
  readonly clock: Clock
  /** In [0, 1). */
  readonly random: () => number
  readonly log: { warn(fields: object, message: string): void }
  /** Reason why dns-01 is not possible; undefined if it is. */
  readonly noDns: string | undefined
  /** Is there a listener with TLS, so that tls-alpn-01 is possible? */
  readonly hasTls: () => boolean
}

/** An order that is not done by then is given up. */
const LONGEST = 60 * MINUTE

/** Intervals between checks of a pending order, and after a failed check (ms). */
const POLL = { usual: 2_000, failed: 15_000, longest: 10 * MINUTE }

/** Processes that have not reported for this long are not waited for. */
const ALIVE = 10_000

const NO_WORK: CertificateWork = { order: null, challenges: [], failures: 0, issued: null }

/**
 * Requests one certificate in steps: each step reads the order's state and takes the next action. Persistent state is in the
 * record, so that another process can resume the request.
 */
export class Issuance {
  readonly #parts: IssuanceParts

  constructor(parts: IssuanceParts) {
    this.#parts = parts
  }

  /**
   * Places the order and publishes the challenges. Returns false if a rate limit delays it, counted in `queue`. Never
   * rejects because of the authority.
   */
  async begin(target: ManagedCertificate, queue?: OrderQueue): Promise<boolean> {
    const { ledger } = this.#parts
    const work = target.work ?? NO_WORK
    try {
      const authority = await this.#parts.authority()
      const { order, open } = await authority.order(target.names, await this.#replaced(target), queue)
      const challenges = await this.#published(target, open)
      const status = statusOf(target, this.#job(target, null, PROGRESS, null))
      await ledger.step(target, { status, work: { ...work, order: order.url, challenges }, requestedKey: null })
      return true
    } catch (error) {
      const failure = this.#failure(error)
      const msg = waiting(failure.message)
      if (!failure.unsent) await this.#fail(target, failure)
      else if (target.status?.provisioning_job?.msg !== msg) {
        const turn = timestampText(this.#parts.clock.wall() + failure.retryAfter + 999)
        await ledger.step(target, { status: statusOf(target, this.#job(target, null, msg, turn)), work })
      }
      return !failure.unsent
    }
  }

  /** Advances an order; returns the milliseconds until the next check. `since`: the revision that published the challenges. */
  async proceed(target: ManagedCertificate, since: number): Promise<number> {
    try {
      return Math.min(await this.#proceed(target, since), POLL.longest)
    } catch (error) {
      const failure = this.#failure(error)
      if (!failure.passing || this.#isTooLate(target)) {
        await this.#fail(target, failure)
        return 0
      }
      await this.#writeMessage(target, `${failure.message}; the order under way is kept`)
      return Math.min(Math.max(failure.retryAfter, POLL.failed), POLL.longest)
    }
  }

  /** Writes the progress of an order, unless the record has it already. */
  async #writeMessage(target: ManagedCertificate, msg: string): Promise<void> {
    const { work, status } = target
    if (work === null || status?.provisioning_job?.msg === msg) return
    await this.#parts.ledger.step(target, { status: statusOf(target, this.#job(target, null, msg, null)), work })
  }

  /** Either way: a start in the future is a clock that was ahead, and would keep the order for as long. */
  #isTooLate({ status }: ManagedCertificate): boolean {
    const started = Date.parse(status?.provisioning_job?.started_at ?? '')
    return Math.abs(this.#parts.clock.wall() - started) > LONGEST
  }

  async #proceed(target: ManagedCertificate, since: number): Promise<number> {
    const url = target.work?.order
    if (url == null) return 0
    if (this.#isTooLate(target)) throw new AcmeError('INTERNAL_ERROR', 'the authority took too long')
    const authority = await this.#parts.authority()
    const { order, open } = await authority.look(url)
    if (order.status === 'ready') return await this.#finalize(target, authority, order)
    if (order.status === 'valid') return await this.#install(target, authority, order, target.requestedKey)
    if (order.status === 'pending' && !(await this.#prove(target, authority, open, since))) return POLL.usual
    await this.#writeMessage(target, PROGRESS)
    return Math.max(POLL.usual, order.retryAfter)
  }

  /** Requests validation by the authority; returns false if the challenges are not published by every process yet. */
  async #prove(
    target: ManagedCertificate,
    authority: Authority,
    open: readonly Authorization[],
    since: number
  ): Promise<boolean> {
    const { ledger } = this.#parts
    const { work, status } = target
    if (work !== null && status !== null && work.challenges.length === 0 && open.length > 0) {
      // The response with the challenges was lost when the order was placed.
      await ledger.step(target, {
        status,
        work: { ...work, challenges: await this.#published(target, open) }
      })
      return false
    }
    if (!(await ledger.isEverywhere(since, ALIVE))) return false
    for (const one of open) {
      const challenge = this.#chosen(target, one)
      if (!challenge.begun) await authority.begin(challenge)
    }
    return true
  }

  async #finalize(target: ManagedCertificate, authority: Authority, order: OrderState): Promise<number> {
    const { ledger } = this.#parts
    const { work, status, names, keyType, requestedKey } = target
    if (work === null || status === null || keyType === null) return POLL.usual
    let key = requestedKey
    if (key === undefined) {
      // Store the key before its use: after a crash, the certificate can still be downloaded.
      const { newPrivateKey } = await import('./acme.js')
      key = await newPrivateKey(keyType)
      if ((await ledger.step(target, { status, work, requestedKey: key })) === undefined) return 0
    }
    const after = await authority.finalize(order, names, key)
    return after.status === 'valid' ? await this.#install(target, authority, after, key) : POLL.usual
  }

  async #install(
    target: ManagedCertificate,
    authority: Authority,
    order: OrderState,
    requestedKey: string | undefined
  ): Promise<number> {
    const { ledger, random, clock, log } = this.#parts
    const { names, keyType, work } = target
    if (requestedKey === undefined || keyType === null || work === null) {
      throw new AcmeError('INTERNAL_ERROR', 'the key of the certificate is lost')
    }
    const chain = await authority.certificate(order)
    const leaf = usableLeaf(chain, requestedKey, names, clock.wall())
    const validity = { notBefore: leaf.notBefore, notAfter: leaf.notAfter }
    const now = clock.wall()
    const { at, repeats, wrong } = renewalOf(validity, now, work.repeats ?? 0, random())
    const hurried = work.hurried ?? 0
    const earliest = repeats > 0 ? at : now + shortestUse(hurried, validity, now)
    const renews_at = timestampText(at)
    if (wrong !== undefined) {
      const times = { not_before: timestampText(leaf.notBefore), not_after: timestampText(leaf.notAfter), renews_at }
      log.warn(
        { kind: target.kind, id: target.id, names, ...times, wrong },
        'the times of a new certificate do not fit the clock of this machine: is the clock right?'
      )
    }
    await ledger.install(
      target,
      { chain, privateKey: requestedKey },
      {
        status: { renews_at, provisioning_job: null, renewal_info: null },
        work: {
          order: null,
          challenges: [],
          failures: 0,
          issued: { names, key_type: keyType as KeyType, validity },
          repeats,
          hurried,
          earliest
        },
        requestedKey: null
      }
    )
    return 0
  }

  /** Returns the renewal id of the certificate being replaced. */
  async #replaced(target: ManagedCertificate): Promise<string | undefined> {
    if (target.work?.issued == null) return undefined
    return (await this.#parts.ledger.leafOf(target))?.renewalId
  }

  async #published(target: ManagedCertificate, open: readonly Authorization[]): Promise<PendingChallenge[]> {
    return await Promise.all(open.map((one) => this.#pending(target, one)))
  }

  async #pending(target: ManagedCertificate, open: Authorization): Promise<PendingChallenge> {
    const { type, token, value } = this.#chosen(target, open)
    const host = open.name.toLowerCase()
    if (type === 'http-01') return { type, host, token, value }
    if (type === 'tls-alpn-01') {
      const { validationIdentity } = await import('./acme.js')
      return { type, host, identity: await validationIdentity(host, value) }
    }
    const way = target.challenge(open.name)
    return { type, name: (way.type === 'dns-01' ? way.record : '').toLowerCase(), value }
  }

  #chosen(target: ManagedCertificate, { name, challenges }: Authorization): OpenChallenge {
    const { type } = target.challenge(name)
    const { noDns } = this.#parts
    if (type === 'dns-01' && noDns !== undefined) throw new AcmeError('INTERNAL_ERROR', noDns)
    const types = type === 'dns-01' ? [type] : this.#visits(target)
    const chosen = types.flatMap((one) => challenges.find((challenge) => challenge.type === one) ?? [])[0]
    if (chosen === undefined)
      throw new AcmeError('INTERNAL_ERROR', `the authority offers no ${types.join(' or ')} for ${name}`)
    return chosen
  }

  /** Challenges in which an authority visits a name: that which is published, else the one that the last attempt did not use comes first. */
  #visits({ work }: ManagedCertificate): readonly ChallengeType[] {
    const [published] = work?.challenges ?? []
    if (published !== undefined) return [published.type]
    if (!this.#parts.hasTls()) return ['http-01']
    return (work?.failures ?? 0) % 2 === 0 ? ['http-01', 'tls-alpn-01'] : ['tls-alpn-01', 'http-01']
  }

  #job(
    { status }: ManagedCertificate,
    code: ProvisioningJob['error_code'],
    msg: string,
    retriesAt: string | null
  ): ProvisioningJob {
    const job = status?.provisioning_job ?? null
    // A queued order starts again.
    const goesOn = job !== null && (code !== null || (job.error_code === null && job.retries_at === null))
    const started_at = goesOn ? job.started_at : timestampText(this.#parts.clock.wall())
    return { error_code: code, msg, started_at, retries_at: retriesAt }
  }

  #failure(error: unknown): AcmeError {
    if (!(error instanceof AcmeError)) throw error
    if (error.accountLost) this.#parts.accountLost()
    if (error.pause > 0) this.#parts.pause(error.pause)
    return error
  }

  async #fail(target: ManagedCertificate, error: AcmeError): Promise<void> {
    const { ledger, clock, random } = this.#parts
    const { code, message, retryAfter } = error
    const work = target.work ?? NO_WORK
    const failures = work.failures + 1
    const now = clock.wall()
    const delay = code === 'DNS_ERROR' ? correctionDelay : retryDelay
    const wait = retryBefore(delay(failures, random(), retryAfter), retryAfter, work.issued?.validity, now)
    await ledger.step(target, {
      status: statusOf(target, this.#job(target, code, message, timestampText(now + wait + 999))),
      work: { ...work, order: null, challenges: [], failures },
      requestedKey: null
    })
  }
}

/** Sets the job; the renewal time of the current certificate is unchanged. */
function statusOf({ status }: ManagedCertificate, job: ProvisioningJob): ManagementStatus {
  return { renews_at: null, renewal_info: null, ...status, provisioning_job: job }
}

const PROGRESS = 'The certificate is being requested.'

const waiting = (why: string) => `The request waits for its turn: ${why}.`

/** Checks that the received certificate matches the request; otherwise the current one is kept. */
function usableLeaf(chain: string, key: string, names: readonly string[], now: number) {
  const read = readChain(chain)
  if (!read.ok) throw new AcmeError('INTERNAL_ERROR', `the authority sent a chain that cannot be used: ${read.message}`)
  const wrongKey = checkPrivateKey(key, read.certificates)
  if (wrongKey !== undefined) throw new AcmeError('INTERNAL_ERROR', 'the authority sent the certificate of another key')
  const named = new Set(read.leaf.dnsNames.map((name) => name.toLowerCase()))
  const missing = names.find((name) => !named.has(name))
  if (missing !== undefined)
    throw new AcmeError('INTERNAL_ERROR', `the authority sent a certificate without ${missing}`)
  if (read.leaf.notAfter <= now)
    throw new AcmeError('INTERNAL_ERROR', 'the authority sent a certificate that has expired')
  return read.leaf
}
