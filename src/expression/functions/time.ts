import type { FunctionDefinition } from '../function-definition.js'
import { failed } from './bounds.js'
import { durationText, nanosOf, timestampText } from './values.js'
import { ZonedTime } from './zone.js'

const TIMESTAMP = 'google.protobuf.Timestamp'
const DURATION = 'google.protobuf.Duration'

/** 0001-01-01T00:00:00Z and 9999-12-31T23:59:59.999Z: what a timestamp of CEL may be. */
const FIRST = -62_135_596_800_000
const LAST = 253_402_300_799_999

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

const RFC3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))$/

/** An RFC 3339 date and time; digits after the millisecond are dropped, as the engine keeps none. */
function parseTimestamp(text: string): Date {
  const match = RFC3339.exec(text)
  if (match === null) throw failed('a timestamp is written as in RFC 3339')
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number
  ]
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  // A day that the month does not have moves the date into another month.
  const real = month >= 1 && date.getUTCMonth() === month - 1 && date.getUTCDate() === day
  const [zoneHour, zoneMinute] = [Number(match[9] ?? 0), Number(match[10] ?? 0)]
  if (!real || hour > 23 || minute > 59 || second > 59 || zoneHour > 23 || zoneMinute > 59) {
    throw failed('a timestamp names a time that does not exist')
  }
  const milliseconds = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3))
  const offset = (zoneHour * 60 + zoneMinute) * 60_000
  const time = date.setUTCHours(hour, minute, second, milliseconds) - (match[8] === '-' ? -offset : offset)
  if (time < FIRST || time > LAST) throw failed('a timestamp is outside the years 1 to 9999')
  return new Date(time)
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
function total(nanos: bigint): (duration: unknown) => bigint {
  return (duration) => nanosOf(duration) / nanos
}

/**
 * Fields of timestamps, in UTC or in a zone (an IANA name, or `+02:00`), totals of durations, and conversions. Months,
 * days of the month and of the year count from 0, days of the week from Sunday; `getDate` counts from 1. The
 * milliseconds of a duration are what is left of its last second. Fails on unknown zones and malformed timestamps.
 */
export const timeFunctions: readonly FunctionDefinition[] = [
  ...timestampFields(),
  { signature: `${DURATION}.getHours(): int`, run: total(3_600_000_000_000n) },
  { signature: `${DURATION}.getMinutes(): int`, run: total(60_000_000_000n) },
  { signature: `${DURATION}.getSeconds(): int`, run: total(1_000_000_000n) },
  {
    signature: `${DURATION}.getMilliseconds(): int`,
    run: (duration: unknown) => (nanosOf(duration) / 1_000_000n) % 1000n
  },
  { signature: `timestamp(string): ${TIMESTAMP}`, run: parseTimestamp },
  { signature: `timestamp(${TIMESTAMP}): ${TIMESTAMP}`, run: (date: Date) => date },
  { signature: `duration(${DURATION}): ${DURATION}`, run: (duration: unknown) => duration },
  { signature: `string(${TIMESTAMP}): string`, run: timestampText },
  { signature: `string(${DURATION}): string`, run: durationText },
  {
    signature: `int(${TIMESTAMP}): int`,
    run: (date: Date) => BigInt(Math.floor(date.getTime() / 1000))
  }
]
