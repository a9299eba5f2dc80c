import type { Clock } from '../lib/clock.js'
import { difference, type Reading, readNumbers, type TrafficNumbers, type TrafficSecond } from './traffic-history.js'
import { octaves, percentiles } from './traffic-meter.js'

/** Minutes kept: a day, and five minutes to compare its first hour with. */
export const DAY_MINUTES = 1_445
/** Milliseconds. */
const MINUTE = 60_000
/** Reported percentiles, from 0 to 1. */
const SHARES = [0.5, 0.99]

/** Traffic of one or more minutes. */
export interface TrafficMinutes extends Omit<TrafficSecond, 'connections' | 'inFlight'> {
  readonly minutes: number
  /** Exchanges by duration: each entry counts durations of at least half of `below` and less than `below` milliseconds. */
  readonly durations: readonly { readonly below: number; readonly count: number }[]
}

/** Counts of one minute; `durations` holds the buckets of the meter from `first` on. */
interface Minute {
  readonly at: number
  readonly statuses: Uint32Array
  readonly durations: Uint32Array
  readonly first: number
  readonly failed: number
  readonly refused: number
  readonly bytesIn: number
  readonly bytesOut: number
}

/**
 * Traffic of the last day by minute, in at most 1.6 MB. Its owner calls `tick` each second; minutes follow the wall clock, so a clock
 * change makes one shorter or longer.
 */
export class TrafficDay {
  readonly #numbers: Omit<TrafficNumbers, 'codes' | 'connections' | 'inFlight'>
  readonly #clock: Pick<Clock, 'wall'>
  readonly #minutes: Minute[] = []
  #before: Reading
  #minute: number

  constructor(numbers: Omit<TrafficNumbers, 'codes' | 'connections' | 'inFlight'>, clock: Pick<Clock, 'wall'>) {
    this.#numbers = numbers
    this.#clock = clock
    this.#before = readNumbers(numbers)
    this.#minute = Math.floor(clock.wall() / MINUTE)
  }

  /** Closes the minute if the clock has reached the next one. */
  tick(): void {
    const minute = Math.floor(this.#clock.wall() / MINUTE)
    if (minute === this.#minute) return
    this.#minute = minute
    const now = readNumbers(this.#numbers)
    this.#minutes.push(minuteBetween(this.#before, now, minute * MINUTE))
    this.#before = now
    if (this.#minutes.length > DAY_MINUTES) this.#minutes.shift()
  }

  /** Returns the last `minutes` minutes, oldest first, in steps that end at multiples of `step` minutes. */
  steps(minutes: number, step: number): readonly TrafficMinutes[] {
    const from = (this.#minute - minutes) * MINUTE
    const groups = new Map<number, Minute[]>()
    for (const minute of this.#minutes.filter(({ at }) => at > from)) {
      const end = Math.ceil(minute.at / (step * MINUTE))
      const group = groups.get(end)
      if (group === undefined) groups.set(end, [minute])
      else group.push(minute)
    }
    return [...groups.values()].map((group) => together(group))
  }

  /** Returns the `minutes` minutes that ended `ago` minutes ago; undefined if this process does not have all of them. */
  span(minutes: number, ago: number): TrafficMinutes | undefined {
    const end = (this.#minute - ago) * MINUTE
    const found = this.#minutes.filter(({ at }) => at <= end && at > end - minutes * MINUTE)
    return found.length < minutes ? undefined : together(found)
  }
}

function minuteBetween(before: Reading, after: Reading, at: number): Minute {
  const counts = after.durations.map((count, index) => count - (before.durations[index] as number))
  const first = Math.max(
    0,
    counts.findIndex((count) => count > 0)
  )
  const { statuses, failed, refused, bytesIn, bytesOut } = difference(before, after)
  const durations = Uint32Array.from(counts.subarray(first, counts.findLastIndex((count) => count > 0) + 1))
  return { at, statuses: Uint32Array.from(statuses), durations, first, failed, refused, bytesIn, bytesOut }
}

function together(minutes: readonly Minute[]): TrafficMinutes {
  const sum = (read: (minute: Minute) => number) => minutes.reduce((all, minute) => all + read(minute), 0)
  const end = Math.max(0, ...minutes.map(({ first, durations }) => first + durations.length))
  const counts = new Float64Array(end)
  for (const { first, durations } of minutes)
    for (const [index, count] of durations.entries()) counts[first + index] = (counts[first + index] as number) + count
  const statuses = Array.from(minutes[0]?.statuses ?? [], (_, group) => sum((one) => one.statuses[group] ?? 0))
  const [p50, p99] = percentiles(counts, SHARES)
  return {
    at: minutes.at(-1)?.at ?? 0,
    minutes: minutes.length,
    requests: statuses.reduce((all, count) => all + count, 0),
    statuses,
    p50,
    p99,
    refused: sum(({ refused }) => refused),
    failed: sum(({ failed }) => failed),
    bytesIn: sum(({ bytesIn }) => bytesIn),
    bytesOut: sum(({ bytesOut }) => bytesOut),
    durations: octaves(counts)
  }
}
