import { pauseAfter } from '../../lib/concurrency.js'
import { ATTEMPT_PAUSES } from '../../resources/domains.js'

export const MINUTE = 60_000

const HOUR = 60 * MINUTE

const DAY = 24 * HOUR

/** Share of its life after which a certificate is renewed, and the share before that over which renewals are spread. */
const RENEWAL = 2 / 3

const SPREAD = 1 / 30

/** One that lives for less is renewed in the middle of its life: a third of six days would leave an outage little room. */
const SHORT_LIFE = 10 * DAY

const SHORT_RENEWAL = 1 / 2

/** Share of its life before which a certificate is renewed, whatever its authority suggests. */
const LATEST = 9 / 10

/** What a new certificate is allowed to seem issued in the future: clocks of two machines are never quite the same. */
const CLOCK_DIFFERENCE = 10 * MINUTE

/** First pause after a certificate that was due for renewal when it came; each further one in a row doubles it. */
const FIRST_REPEAT = 6 * HOUR

/** Let's Encrypt allows a name five failed validations an hour. */
const CORRECTION_PAUSES = { first: 5 * MINUTE, longest: 6 * HOUR }

/** No retry is further away: the longest wait, and the longest Retry-After that is kept, with what is added at random. */
const LONGEST_RETRY = 30 * HOUR

/** When a certificate is valid, milliseconds since the Unix epoch. */
export interface Validity {
  readonly notBefore: number
  readonly notAfter: number
}

/** From when to when, milliseconds since the Unix epoch. */
interface Window {
  readonly start: number
  readonly end: number
}

/**
 * When to renew a certificate, milliseconds since the Unix epoch: after two thirds of its life at the latest, after half of a life
 * of less than ten days, and a random while earlier, so that certificates of one day are not renewed in one minute. `random`: in [0, 1).
 */
export function renewalTime(notBefore: number, notAfter: number, random: number): number {
  const life = Math.max(0, notAfter - notBefore)
  const share = life < SHORT_LIFE ? SHORT_RENEWAL : RENEWAL
  return Math.round(notBefore + life * (share - SPREAD * random))
}

/**
 * When to renew a certificate whose authority suggests a window, milliseconds since the Unix epoch; it may be past. `share`: where
 * in the window, in [0, 1).
 */
export function suggestedTime(window: Window, { notBefore, notAfter }: Validity, share: number): number {
  const at = window.start + (window.end - window.start) * share
  return Math.round(Math.min(at, notBefore + (notAfter - notBefore) * LATEST))
}

/**
 * Milliseconds that a new certificate is kept at least, whatever its authority suggests, after `hurried` certificates in a row that
 * it wanted replaced at once: an authority that says so of every one is not asked for ever more.
 */
export function shortestUse(hurried: number, { notAfter }: Validity, now: number): number {
  if (hurried === 0) return 0
  return Math.max(0, Math.min(FIRST_REPEAT * 2 ** Math.min(hurried - 1, 20), (notAfter - now) / 2))
}

/**
 * Milliseconds before the next attempt after `failures` (at least one) in a row: from a minute on twice as long each time,
 * half a day at most, up to a fifth longer at random. `atLeast`: what the authority asked for.
 */
export function retryDelay(failures: number, random: number, atLeast = 0): number {
  return Math.round(Math.max(pauseAfter(failures, ATTEMPT_PAUSES), atLeast) * (1 + random / 5))
}

/**
 * Milliseconds before the next attempt after a failure that a user has to correct: minutes at first, then hours, then four times a day, up to a fifth
 * longer at random. `atLeast`: what the authority asked for.
 */
export function correctionDelay(failures: number, random: number, atLeast = 0): number {
  return Math.round(Math.max(pauseAfter(failures, CORRECTION_PAUSES), atLeast) * (1 + random / 5))
}

/** When to renew a certificate that has just come, and how many in a row were due at once, this one included. */
interface Renewal {
  readonly at: number
  readonly repeats: number
  /** What is wrong with the times, for the operator. */
  readonly wrong: string | undefined
}

/**
 * The renewal of a certificate that has come at `now`; `repeats`: certificates in a row before it that were due when they came.
 * Such a one changes nothing: the clock is wrong, or the authority sends old ones. The next order then waits for half of what
 * is left at most, and longer and longer.
 */
export function renewalOf({ notBefore, notAfter }: Validity, now: number, repeats: number, random: number): Renewal {
  const early = notBefore > now + CLOCK_DIFFERENCE
  const at = renewalTime(early ? now : notBefore, early ? now + notAfter - notBefore : notAfter, random)
  if (early) return { at, repeats: 0, wrong: 'the certificate is issued in the future' }
  if (at > now + MINUTE) return { at, repeats: 0, wrong: undefined }
  const doubled = FIRST_REPEAT * 2 ** Math.min(repeats, 20)
  const wait = Math.max(Math.min(doubled, (notAfter - now) / 2), retryDelay(repeats + 1, random))
  return { at: Math.round(now + wait), repeats: repeats + 1, wrong: 'the certificate is due for renewal already' }
}

/**
 * The moment that a record says a renewal is due, or when its certificate says so, if the record names one beyond its end. A
 * clock that was ahead writes such times.
 */
export function dueOf(
  renewsAt: number,
  validity: Validity | undefined
): { readonly at: number; readonly wrong: boolean } {
  if (validity === undefined || renewsAt <= validity.notAfter) return { at: renewsAt, wrong: false }
  return { at: renewalTime(validity.notBefore, validity.notAfter, 0), wrong: true }
}

/** Is this time of a retry further away than any that is ever written? */
export function isRetryBeyond(retriesAt: number, now: number): boolean {
  return retriesAt - now > LONGEST_RETRY
}

/** A retry comes before the certificate in use ends, unless the authority asked for more patience. */
export function retryBefore(wait: number, asked: number, validity: Validity | undefined, now: number): number {
  const left = (validity?.notAfter ?? Number.NEGATIVE_INFINITY) - now
  return left <= 0 ? wait : Math.max(asked, Math.min(wait, Math.max(left / 2, MINUTE)))
}
