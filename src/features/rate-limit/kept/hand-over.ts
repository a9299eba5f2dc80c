import type { Clock } from '../../../lib/clock.js'
import { type AdmissionLog, EMPTIED } from '../limiter/admission-log.js'
import type { LimiterTable } from '../limiter/table.js'
import { Checkpoints } from './checkpoints.js'
import { admissionsOf } from './reading.js'

/** How often what threads have admitted is taken to the other process. Milliseconds. */
const EVERY = 20
/** Longer than anything here. Milliseconds. */
const NEVER = 3_600_000

/** An admission: both halves of the bucket's hash, the seconds of its window, and its cost. */
export type Admission = readonly [low: number, high: number, seconds: number, cost: number]

/**
 * Writes what a table holds while threads go on deciding with it, for a process that takes the place of this one; from then on `later` gets what
 * they admit, as often as there is something. A copy of the memory would not do: threads change it meanwhile. Only this may take from the
 * logs of the table. Answers what ends it; rejects with the system's error.
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
    // Then it begins with a new base.
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

/** What waits in a log at this moment, monotonic milliseconds; the log is done with it. */
function taken(log: AdmissionLog, now: number): Admission[] {
  const { records, views } = log.waiting()
  if (records === 0) return []
  const bytes = Buffer.concat(views)
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
  const admissions: Admission[] = []
  for (const { low, high, tens, cost } of admissionsOf(words, now)) {
    // Buckets are emptied by the API, which this process has not any more.
    if (cost !== EMPTIED) admissions.push([low, high, 10 * tens, cost])
  }
  log.take(records)
  return admissions
}
