import type { Duration } from '../engine.js'
import type { FunctionDefinition } from '../function-definition.js'
import { nanosOf } from '../values.js'
import { ZonedTime } from './zone.js'

const TIMESTAMP = 'google.protobuf.Timestamp'
const DURATION = 'google.protobuf.Duration'

/** Fields of a timestamp, read from the UTC fields of a date. */
const FIELDS: Readonly<Record<string, (date: Date) => number>> = {
  getDate: (date) => date.getUTCDate(),
  getDayOfMonth: (date) => date.getUTCDate() - 1,
  getDayOfWeek: (date) => date.getUTCDay(),
  getDayOfYear: (date) => {
    const start = new Date(0).setUTCFullYear(date.getUTCFullYear(), 0, 1)
    return Math.floor((date.getTime() - start) / 86_400_000)
  },
  getFullYear: (date) => date.getUTCFullYear(),
  getHours: (date) => date.getUTCHours(),
  getMilliseconds: (date) => date.getUTCMilliseconds(),
  getMinutes: (date) => date.getUTCMinutes(),
  getMonth: (date) => date.getUTCMonth(),
  getSeconds: (date) => date.getUTCSeconds()
}

function timestampFields(): FunctionDefinition[] {
  // Keeps formats of time zones, which depend on nothing but the name of the zone.
  const zoned = new ZonedTime()
  return Object.entries(FIELDS).flatMap(([name, read]) => [
    { signature: `${TIMESTAMP}.${name}(): int`, run: (date: Date) => BigInt(read(date)) },
    {
      signature: `${TIMESTAMP}.${name}(string): int`,
      run: (date: Date, zone: string) => BigInt(read(zoned.local(date, zone)))
    }
  ])
}

/** A total of a duration in units of `nanos` nanoseconds, cut towards zero. */
function total(nanos: bigint): (duration: Duration) => bigint {
  return (duration) => nanosOf(duration) / nanos
}

/**
 * Fields of timestamps, in UTC or in a zone (an IANA name, or `+02:00`), and totals of durations. Months, days of the
 * month and of the year count from 0, days of the week from Sunday; `getDate` counts from 1. The milliseconds of a
 * duration are what is left of its last second. An unknown zone fails.
 */
export const timeFunctions: readonly FunctionDefinition[] = [
  ...timestampFields(),
  { signature: `${DURATION}.getHours(): int`, run: total(3_600_000_000_000n) },
  { signature: `${DURATION}.getMinutes(): int`, run: total(60_000_000_000n) },
  { signature: `${DURATION}.getSeconds(): int`, run: total(1_000_000_000n) },
  {
    signature: `${DURATION}.getMilliseconds(): int`,
    run: (duration: Duration) => (nanosOf(duration) / 1_000_000n) % 1000n
  }
]
