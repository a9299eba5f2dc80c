import { pauseAfter } from '../../lib/concurrency.js'
import { ATTEMPT_PAUSES } from '../../resources/domains.js'

export const MINUTE = 60_000

const HOUR = 60 * MINUTE

const DAY = 24 * HOUR

/** Share of its life after which a certificate is renewed, and the share before that over which renewals are spread. */
const RENEWAL = 2 / 3

const SPREAD = 1 / 30

/** A shorter-lived certificate is renewed halfway: a third of six days leaves little time for outages (ms). */
const SHORT_LIFE = 10 * DAY

const SHORT_RENEWAL = 1 / 2

/** Latest renewal as a share of the lifetime, even if the authority suggests a later time. */
const LATEST = 9 / 10

/** Tolerated clock difference between authority and this machine (ms). */
const CLOCK_DIFFERENCE = 10 * MINUTE

/** First pause after a certificate that was due for renewal when it came; each further one in a row doubles it. */
const FIRST_REPEAT = 6 * HOUR

/** Let's Encrypt allows a name five failed validations an hour. */
const CORRECTION_PAUSES = { first: 5 * MINUTE, longest: 6 * HOUR }

/** Maximum time until a retry: the longest pause or Retry-After, with the random addition (ms). */
const LONGEST_RETRY = 30 * HOUR

/** Validity of a certificate (ms since the Unix epoch). */
export interface Validity {
  readonly notBefore: number
  readonly notAfter: number
}

/** Time window (ms since the Unix epoch). */
interface Window {
  readonly start: number
  readonly end: number
}

/**
 * Returns the renewal time (ms since the Unix epoch): at the latest after two thirds of the lifetime, or half of a lifetime
 * below ten days, minus a random spread, so that certificates of one day are not renewed in one minute. `random`: in [0, 1).
 */
export function renewalTime(notBefore: number, notAfter: number, random: number): number {
  const life = Math.max(0, notAfter - notBefore)
  const share = life < SHORT_LIFE ? SHORT_RENEWAL : RENEWAL
  return Math.round(notBefore + life * (share - SPREAD * random))
}

/**
 * Returns the renewal time within a suggested window (ms since the Unix epoch); it may be past. `share`: position in the
 * window, in [0, 1).
 */
export function suggestedTime(window: Window, { notBefore, notAfter }: Validity, share: number): number {
  const at = window.start + (window.end - window.start) * share
  return Math.round(Math.min(at, notBefore + (notAfter - notBefore) * LATEST))
}

/**
 * Returns the minimum use of a new certificate (ms), whatever its authority suggests, after `hurried` consecutive certificates with a suggestion
 * to replace them immediately. This slows down an authority that suggests so for every certificate.
 */
export function shortestUse(hurried: number, { notAfter }: Validity, now: number): number {
  if (hurried === 0) return 0
  return Math.max(0, Math.min(FIRST_REPEAT * 2 ** Math.min(hurried - 1, 20), (notAfter - now) / 2))
}

/**
 * Returns the milliseconds before the next attempt after `failures` (at least one) consecutive failures: from a minute,
 * doubled each time, at most half a day, up to a fifth longer at random. `atLeast`: wait requested by the authority.
 */
export function retryDelay(failures: number, random: number, atLeast = 0): number {
  return Math.round(Math.max(pauseAfter(failures, ATTEMPT_PAUSES), atLeast) * (1 + random / 5))
}

/**
 * Returns the milliseconds before the next attempt after a failure that a user must correct: minutes at first, then hours,
 * then four times a day, up to a fifth longer at random. `atLeast`: wait requested by the authority.
 */
export function correctionDelay(failures: number, random: number, atLeast = 0): number {
  return Math.round(Math.max(pauseAfter(failures, CORRECTION_PAUSES), atLeast) * (1 + random / 5))
}

/** Renewal time of a new certificate, and the number of consecutive certificates that were due immediately, including this one. */
interface Renewal {
  readonly at: number
  readonly repeats: number
  /** Error in the validity times, for the operator. */
  readonly wrong: string | undefined
}

/**
 * Returns the renewal of a certificate received at `now`; `repeats`: number of consecutive certificates before it that were
 * due immediately. Such a certificate shows that the clock is wrong or the authority sends old ones. The next order then
 * waits increasingly long, up to half of the remaining lifetime.
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

/** Limits a retry's wait to the remaining validity of the current certificate, unless the authority requested a longer wait. */
export function retryBefore(wait: number, asked: number, validity: Validity | undefined, now: number): number {
  const left = (validity?.notAfter ?? Number.NEGATIVE_INFINITY) - now
  return left <= 0 ? wait : Math.max(asked, Math.min(wait, Math.max(left / 2, MINUTE)))
}
