const MINUTE = 60_000
const HOUR = 60 * MINUTE
const LONGEST_WAIT = 12 * HOUR
/** Share of its life after which a certificate is renewed, and the share before that over which renewals are spread. */
const RENEWAL = 2 / 3
const SPREAD = 1 / 30

/**
 * When to renew a certificate, milliseconds since the Unix epoch: after two thirds of its life at the latest, a random
 * while earlier, so that certificates of one day are not renewed in one minute. `random`: in [0, 1).
 */
export function renewalTime(notBefore: number, notAfter: number, random: number): number {
  const life = Math.max(0, notAfter - notBefore)
  return Math.round(notBefore + life * (RENEWAL - SPREAD * random))
}

/**
 * Milliseconds before the next attempt after `failures` (at least one) in a row: from a minute on twice as long each time,
 * half a day at most, up to a fifth longer at random. `atLeast`: what the authority asked for.
 */
export function retryDelay(failures: number, random: number, atLeast = 0): number {
  const wait = Math.min(MINUTE * 2 ** Math.min(failures - 1, 20), LONGEST_WAIT)
  return Math.round(Math.max(wait, atLeast) * (1 + random / 5))
}
