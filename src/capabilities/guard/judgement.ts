import { type Baseline, type Guard, RATES, type RateLimit } from '../../control/guard-note.js'
import { percent } from './conditions.js'

/** Counts of a time span. */
export interface Tally {
  readonly requests: number
  readonly failed: number
  readonly refused: number
  readonly clientErrors: number
}

type Counted = Exclude<keyof Tally, 'requests'>

/** A violated condition. */
export interface Break {
  readonly condition: string
  readonly reason: string
}

/** Numbers of consecutive blocks that are grouped to measure how counts vary: bursts may have any length. */
const SCALES = [1, 3, 6]
/** Minimum number of groups for measuring the spread. */
const FEWEST_GROUPS = 5
/** Spread that is assumed with fewer groups. */
const UNKNOWN_SPREAD = 3

/** Returns the baseline of earlier counts, in blocks of equal length with traffic. */
export function baselineOf(blocks: readonly Tally[]): Baseline {
  const [requests, failed, refused, clientErrors] = (['requests', 'failed', 'refused', 'clientErrors'] as const).map(
    (name) => blocks.reduce((sum, block) => sum + block[name], 0)
  ) as [number, number, number, number]
  const least = blocks.length < FEWEST_GROUPS ? UNKNOWN_SPREAD : 1
  const spread = (name: Counted) => Math.max(least, ...SCALES.map((scale) => dispersion(grouped(blocks, scale), name)))
  return {
    requests,
    failed,
    refused,
    clientErrors,
    spread: { failed: spread('failed'), refused: spread('refused'), clientErrors: spread('clientErrors') }
  }
}

function grouped(blocks: readonly Tally[], size: number): Tally[] {
  const groups: Tally[] = []
  for (let from = 0; from < blocks.length; from += size) {
    const some = blocks.slice(from, from + size)
    const sum = (name: keyof Tally) => some.reduce((total, block) => total + block[name], 0)
    groups.push({
      requests: sum('requests'),
      failed: sum('failed'),
      refused: sum('refused'),
      clientErrors: sum('clientErrors')
    })
  }
  return groups
}

/** Pearson's estimate: the variance of the counts by that of a binomial distribution. */
function dispersion(groups: readonly Tally[], name: Counted): number {
  if (groups.length < FEWEST_GROUPS) return 1
  const total = groups.reduce((sum, { requests }) => sum + requests, 0)
  const rate = groups.reduce((sum, group) => sum + group[name], 0) / total
  if (rate === 0 || rate === 1) return 1
  const squares = groups.reduce(
    (sum, group) => sum + (group[name] - group.requests * rate) ** 2 / (group.requests * rate * (1 - rate)),
    0
  )
  return squares / (groups.length - 1)
}

/**
 * Confidence that a rate exceeds its limit, in nats of Chernoff's bound: chance alone causes one such judgement in e^15
 * (three million). The baseline rate is raised to its upper bound at e^-5.
 */
const SURE = { after: 15, before: 5 }
/**
 * Seconds that are capped at the worst of the other seconds: so short an outage may recover without a revert, and three
 * seconds of outage touch four seconds of the clock. With many seconds, a tenth of them.
 */
const ACCIDENT = { seconds: 4, share: 0.1 }
/** Milliseconds after which few seconds with traffic must do. */
const SOON = 8_000
/** Error share that fails a write even without a baseline. */
const MOST_ERRORS = 0.5

/** Input of a judgement. */
export interface Evidence {
  readonly before: Baseline
  /** Seconds with traffic since the write, at most the last minute. */
  readonly seconds: readonly Tally[]
  /** Milliseconds since the write. */
  readonly elapsed: number
}

/** Returns the first rate condition that is clearly violated; undefined if there is none. */
export function judgeRates(guard: Guard, evidence: Evidence): Break | undefined {
  const total = sum(evidence.seconds, 'requests')
  if (total < guard.least) return undefined
  for (const limit of guard.rates) {
    const name = RATES[limit.name]
    const most = mostOf(limit, evidence.before, guard.least)
    // Without its worst seconds, the rate is no higher.
    if (most === undefined || sum(evidence.seconds, name) <= total * most) continue
    const spread = limit.relative ? spreadAt(most, evidence.before, name) : 1
    const kept = withoutAccidents(evidence, name, most)
    if (!exceeds(sum(kept, name), sum(kept, 'requests'), most, spread)) continue
    return { condition: limit.name, reason: reasonOf(limit, evidence, total) }
  }
  return undefined
}

/** Is there a baseline for the condition? */
export function comparable(limit: RateLimit, before: Baseline): boolean {
  return !limit.relative || limit.name === 'error-rate' || before.requests > 0
}

/** Is a counted share clearly above `most`? */
export function exceeds(count: number, of: number, most: number, spread: number): boolean {
  if (of === 0 || most >= 1 || count / of <= most) return false
  return (of * divergence(count / of, most)) / spread > SURE.after
}

/** The highest rate that is no break. */
function mostOf(limit: RateLimit, before: Baseline, least: number): number | undefined {
  if (!limit.relative) return limit.share
  const name = RATES[limit.name]
  const count = before[name]
  const known = before.requests > 0 ? highest(count, before.requests, before.spread[name]) + limit.share : 1
  const unknown = before.requests < least && count * 2 <= before.requests && limit.name === 'error-rate'
  const most = unknown ? Math.min(known, Math.max(MOST_ERRORS, limit.share)) : known
  return most < 1 ? most : undefined
}

/** Scales the spread to a higher rate: variation beyond chance stays constant, while chance contributes more. */
function spreadAt(most: number, before: Baseline, name: Counted): number {
  const variance = (rate: number) => rate * (1 - rate)
  const then = before.requests === 0 ? 0 : variance(before[name] / before.requests)
  return 1 + (before.spread[name] - 1) * Math.min(1, then / variance(most))
}

/** The seconds, with the worst ones taken to be as the worst of the rest. */
function withoutAccidents({ seconds, elapsed }: Evidence, name: Counted, most: number): readonly Tally[] {
  const usual = Math.max(ACCIDENT.seconds, Math.floor(seconds.length * ACCIDENT.share))
  const left = elapsed < SOON ? usual : Math.min(usual, Math.floor(seconds.length / 2))
  const excess = (tally: Tally) => tally[name] - tally.requests * most
  const worst = [...seconds].sort((one, other) => excess(other) - excess(one))
  const next = worst[left]
  if (next === undefined) return []
  return [...Array.from({ length: left }, () => next), ...worst.slice(left)]
}

/** Returns the highest rate for which the counts are likely enough. */
function highest(count: number, of: number, spread: number): number {
  const rate = count / of
  let [low, high] = [rate, 1]
  for (let step = 0; step < 40; step++) {
    const middle = (low + high) / 2
    if ((of * divergence(rate, middle)) / spread > SURE.before) high = middle
    else low = middle
  }
  return high
}

/** Kullback and Leibler's divergence of two Bernoulli distributions, in nats. */
function divergence(p: number, q: number): number {
  const part = (a: number, b: number) => (a === 0 ? 0 : b === 0 ? Number.POSITIVE_INFINITY : a * Math.log(a / b))
  return part(p, q) + part(1 - p, 1 - q)
}

function sum(tallies: readonly Tally[], name: keyof Tally): number {
  return tallies.reduce((total, tally) => total + tally[name], 0)
}

const WORDS: Readonly<Record<Counted, string>> = {
  failed: 'failed',
  refused: 'were refused',
  clientErrors: 'got a client error'
}

function reasonOf(limit: RateLimit, { before, seconds }: Evidence, total: number): string {
  const name = RATES[limit.name]
  const now = `${percent(sum(seconds, name) / total)} of ${total} requests ${WORDS[name]}`
  if (!limit.relative) return `${limit.name}: ${now}, more than ${percent(limit.share)}`
  if (before.requests === 0) return `${limit.name}: ${now}, and nothing is known of before`
  const then = percent(before[name] / before.requests)
  return `${limit.name}: ${now}, before the write ${then} of ${before.requests}; more than ${percent(limit.share)} above that`
}
