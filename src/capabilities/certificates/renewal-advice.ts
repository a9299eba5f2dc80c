import { createHash } from 'node:crypto'
import type { Clock } from '../../lib/clock.js'
import { FirstFailure, pauseAfter } from '../../lib/concurrency.js'
import { timestampText } from '../../lib/json.js'
import type { ManagementStatus, SuggestedRenewal } from '../../resources/domains.js'
import type { Authority, RenewalAnswer } from './acme.js'
import { AcmeError } from './acme-error.js'
import { retryAfterOf } from './acme-transport.js'
import type { Leaf, Ledger } from './ledger.js'
import { MINUTE, renewalTime, suggestedTime, type Validity } from './renewal-times.js'
import type { ManagedCertificate } from './target.js'

interface AdviceParts {
  readonly ledger: Ledger
  readonly authority: () => Promise<Authority>
  readonly clock: Clock
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
}

/** Suggested renewal window. Times: milliseconds since the Unix epoch. */
interface Suggestion {
  readonly start: number
  readonly end: number
  readonly explanation: string | null
}

const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
/** Interval of checks if the authority sets none; a short-lived certificate is checked more often (ms). */
const USUAL = 6 * HOUR
/** Minimum number of checks in the life of a certificate, unless the authority sets an interval. */
const LOOKS = 24
/** Pauses after failures (ms). */
const AFTER_FAILURE = { first: MINUTE, longest: 6 * HOUR }
/** Time for which a suggestion stays valid while the authority is unreachable (ms). */
const LASTS = DAY
/** Maximum length of an explanation URL (characters). */
const LONGEST_URL = 1_000

/** This process's state of a target's certificate. */
interface Watched {
  readonly certificate: string
  leaf: Leaf | undefined
  /** Time of the next request (monotonic ms). */
  next: number
  failures: number
  /** Start of the current failures (monotonic ms). */
  failingSince: number | undefined
}

/**
 * ACME renewal information (RFC 9773): reads the suggested renewal time of each certificate, and writes it into its record.
 * Without a suggestion, a certificate is renewed after a share of its lifetime.
 */
export class RenewalAdvice {
  readonly #parts: AdviceParts
  readonly #watched = new Map<string, Watched>()
  readonly #failures = new FirstFailure()
  /** Number of consecutive failures over all certificates. */
  #row = 0
  /** End of the pause for all certificates (monotonic ms). */
  #restsUntil = 0

  constructor(parts: AdviceParts) {
    this.#parts = parts
  }

  /** Is the next request for this certificate due? Never while a new one is being requested, or its request fails. */
  isDue({ id, keyType, certificate, status, work }: ManagedCertificate): boolean {
    if (keyType === null || certificate === null || work?.issued == null) return false
    if (status === null || status.provisioning_job !== null || status.renews_at === null) return false
    const now = this.#parts.clock.monotonic()
    if (now < this.#restsUntil) return false
    const watched = this.#watched.get(id)
    return watched === undefined || watched.certificate !== certificate || watched.next <= now
  }

  /** Forgets a deleted record. */
  forget(id: string): void {
    this.#watched.delete(id)
  }

  /** Asks about a certificate that is due. Rejects only as the store does. */
  async look(target: ManagedCertificate): Promise<void> {
    const { ledger, clock } = this.#parts
    const watched = this.#of(target)
    // At most one request a minute, whatever the result.
    watched.next = clock.monotonic() + MINUTE
    watched.leaf ??= await ledger.leafOf(target)
    const { leaf } = watched
    if (leaf === undefined) return
    if (leaf.renewalId === undefined) {
      watched.next = Number.POSITIVE_INFINITY
      return
    }
    try {
      const authority = await this.#parts.authority()
      const answer = await authority.renewalInfo(leaf.renewalId)
      const suggestion = answer === undefined ? undefined : readSuggestion(answer.content)
      watched.next = clock.monotonic() + (answer === undefined ? DAY : untilNext(answer, leaf.validity, clock.wall()))
      watched.failures = 0
      watched.failingSince = undefined
      this.#row = 0
      this.#failures.passed()
      const written = await this.#write(target, leaf.renewalId, leaf.validity, suggestion)
      if (!written) watched.next = clock.monotonic() + MINUTE
    } catch (error) {
      if (!(error instanceof AcmeError)) throw error
      await this.#failed(target, watched, leaf.renewalId, leaf.validity, error)
    }
  }

  #of({ id, certificate }: ManagedCertificate): Watched {
    const known = this.#watched.get(id)
    if (known !== undefined && known.certificate === certificate) return known
    const fresh: Watched = {
      certificate: String(certificate),
      leaf: undefined,
      next: 0,
      failures: 0,
      failingSince: undefined
    }
    this.#watched.set(id, fresh)
    return fresh
  }

  async #failed(
    target: ManagedCertificate,
    watched: Watched,
    renewalId: string,
    validity: Validity,
    error: AcmeError
  ): Promise<void> {
    const { clock, log } = this.#parts
    const now = clock.monotonic()
    watched.failures++
    watched.failingSince ??= now
    watched.next = now + Math.max(pauseAfter(watched.failures, AFTER_FAILURE), bounded(error.retryAfter))
    this.#row++
    this.#restsUntil = now + pauseAfter(this.#row, { first: MINUTE, longest: HOUR })
    const { kind, id, names } = target
    this.#failures.failed(() =>
      log.warn(
        { kind, id, names, why: error.message },
        'the authority cannot be asked when to renew; certificates are renewed by their share of life'
      )
    )
    if (now - watched.failingSince >= LASTS) await this.#write(target, renewalId, validity, undefined)
  }

  /** Writes a changed suggestion: each write is a revision. Returns false if the record has changed meanwhile. */
  async #write(
    target: ManagedCertificate,
    renewalId: string,
    validity: Validity,
    suggestion: Suggestion | undefined
  ): Promise<boolean> {
    const { status, work } = target
    if (status === null || work === null) return true
    const before = status.renewal_info ?? null
    const renewal_info = suggestion === undefined ? null : shown(suggestion)
    if (JSON.stringify(before) === JSON.stringify(renewal_info)) return true
    const { ledger, clock } = this.#parts
    const now = clock.wall()
    const share = shareOf(renewalId)
    const suggested = suggestion === undefined ? undefined : suggestedTime(suggestion, validity, share)
    const at = Math.max(suggested ?? renewalTime(validity.notBefore, validity.notAfter, share), work.earliest ?? 0)
    const hurries = suggested !== undefined && suggested <= now
    // An earlier suggestion that was already due does not count again.
    const wasDue = status.renews_at !== null && Date.parse(status.renews_at) <= now
    const hurried = hurries ? (work.hurried ?? 0) + (wasDue ? 0 : 1) : 0
    const changed: ManagementStatus = { ...status, renews_at: timestampText(at), renewal_info }
    const revision = await ledger.step(target, { status: changed, work: { ...work, hurried } })
    if (revision === undefined) return false
    this.#log(target, changed, hurries)
    return true
  }

  #log({ kind, id, names }: ManagedCertificate, status: ManagementStatus, hurries: boolean): void {
    const { log } = this.#parts
    const { renews_at, renewal_info: info } = status
    const about = { kind, id, names, renews_at }
    if (info == null) {
      log.info(about, 'the authority no longer suggests when to renew a certificate')
      return
    }
    const said = { ...about, window: info.suggested_window, explanation_url: info.explanation_url }
    if (hurries) log.warn(said, 'the authority wants a certificate to be replaced at once')
    else log.info(said, 'the authority suggests when to renew a certificate')
  }
}

/** Returns the position in a window, in [0, 1): the same in every process, pseudo-random among certificates. */
function shareOf(renewalId: string): number {
  return createHash('sha256').update(renewalId).digest().readUIntBE(0, 6) / 2 ** 48
}

const bounded = (wait: number) => Math.min(Math.max(wait, MINUTE), DAY)

/** Milliseconds before the next look (RFC 9773 4.3). */
function untilNext({ retryAfter }: RenewalAnswer, { notBefore, notAfter }: Validity, now: number): number {
  const says = retryAfter !== undefined && (/^\d{1,9}$/.test(retryAfter) || !Number.isNaN(Date.parse(retryAfter)))
  return bounded(says ? retryAfterOf(retryAfter, now) : Math.min(USUAL, (notAfter - notBefore) / LOOKS))
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/i

/** Reads the object of RFC 9773 4.2. Fails with an `AcmeError`. */
function readSuggestion(content: unknown): Suggestion {
  const { suggestedWindow, explanationURL } = objectOf(content)
  const window = objectOf(suggestedWindow)
  const [start, end] = [timeOf(window.start), timeOf(window.end)]
  // RFC 9773 4.2: a window that ends before its start is invalid.
  if (start === undefined || end === undefined || end <= start)
    throw new AcmeError('INTERNAL_ERROR', 'the authority suggested a window of renewal that is none')
  const shows = typeof explanationURL === 'string' && explanationURL.length <= LONGEST_URL && isPage(explanationURL)
  return { start, end, explanation: shows ? new URL(explanationURL).href : null }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function timeOf(value: unknown): number | undefined {
  if (typeof value !== 'string' || !TIME.test(value)) return undefined
  const at = Date.parse(value)
  return Number.isNaN(at) ? undefined : at
}

function isPage(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
}

function shown({ start, end, explanation }: Suggestion): SuggestedRenewal {
  return {
    suggested_window: { start: timestampText(start), end: timestampText(end) },
    explanation_url: explanation
  }
}
