import type { Clock } from '../../../lib/clock.js'
import { type AdmissionLog, EMPTIED } from '../limiter/admission-log.js'
import { windowSeconds } from '../limiter/layout.js'
import type { LimiterTable } from '../limiter/table.js'
import { Checkpoints } from './checkpoints.js'
import { admissionsOf } from './reading.js'

/** Interval for sending admissions to the other process (ms). */
const EVERY = 20
/** Longer than any hand-over (ms). */
const NEVER = 3_600_000

/** Admission: both halves of the bucket's hash, the window in seconds, and the cost. */
export type Admission = readonly [low: number, high: number, seconds: number, cost: number]

/**
 * Sends the content of a table to the successor process while threads continue to decide with it; afterwards `later` receives new
 * admissions. A copy of the memory is impossible, because threads change it. Must be the only reader of the table's logs. Returns the
 * function that stops it; rejects with the system's error.
 */
export async function handOver(
  table: LimiterTable,
  clock: Clock,
  path: string,
  later: (admissions: readonly Admission[]) => void
): Promise<() => void> {
  let failure: unknown
  const report = {
    failed: (error: unknown) => {
      failure = error
    },
    recovered: () => undefined,
    // The successor then starts with a new base.
    lost: () => undefined,
    ousted: () => undefined
  }
  const writing = new Checkpoints({ table, clock, path, interval: NEVER, report }, undefined)
  await writing.pause()
  await writing.close()
  if (failure !== undefined) throw failure
  const timer = setInterval(() => {
    const admissions = [...table.logs.values()].flatMap((log) => taken(log, clock.monotonic()))
    if (admissions.length > 0) later(admissions)
  }, EVERY).unref()
  return () => clearInterval(timer)
}

/** Takes the waiting records of a log at `now`, monotonic milliseconds. */
function taken(log: AdmissionLog, now: number): Admission[] {
  const { records, views } = log.waiting()
  if (records === 0) return []
  const bytes = Buffer.concat(views)
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
  const admissions: Admission[] = []
  for (const { low, high, code, cost } of admissionsOf(words, now)) {
    // Only the API clears buckets, and this process no longer has it.
    if (cost !== EMPTIED) admissions.push([low, high, windowSeconds(code), cost])
  }
  log.take(records)
  return admissions
}
