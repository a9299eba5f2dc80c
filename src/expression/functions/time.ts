import type { Duration } from '../cel-parser.js'
import type { FunctionDefinition } from '../signatures.js'
import { nanosOf } from '../values.js'
import { failed, failsWith } from './bounds.js'

/** `+02:00`, `-09:30` or `02:00`: hours and minutes ahead of UTC. */
const OFFSET = /^([+-]?)(\d{1,2}):(\d{2})$/

/** Pattern of names in the IANA time zone database. */
const ZONE_NAME = /^[A-Za-z][A-Za-z0-9_+\-/]{0,63}$/

/** Most zones whose format is kept: making one costs a quarter of a millisecond, using it microseconds. */
const KEPT_ZONES = 64

/** Shows an instant in a time zone as a `Date` whose UTC fields are the local ones. */
class ZonedTime {
  readonly #formats = new Map<string, Intl.DateTimeFormat>()

  /** Local time of `instant` in `zone`, an IANA name or an offset; fails when there is no such zone. */
  local(instant: Date, zone: string): Date {
    const offset = OFFSET.exec(zone)
    if (offset !== null) return new Date(instant.getTime() + offsetMilliseconds(offset))
    if (zone === '' || zone === 'UTC') return instant
    return shifted(instant, this.#formatOf(zone))
  }

  #formatOf(zone: string): Intl.DateTimeFormat {
    const kept = this.#formats.get(zone)
    if (kept !== undefined) return kept
    const made = ZONE_NAME.test(zone) ? zoneFormat(zone) : undefined
    if (made === undefined) throw failed('there is no such time zone')
    const [oldest] = this.#formats.keys()
    if (this.#formats.size >= KEPT_ZONES && oldest !== undefined) this.#formats.delete(oldest)
    this.#formats.set(zone, made)
    return made
  }
}

function offsetMilliseconds([, sign, hours, minutes]: readonly (string | undefined)[]): number {
  const total = Number(hours) * 60 + Number(minutes)
  if (Number(hours) > 23 || Number(minutes) > 59) throw failed('there is no such time zone')
  return (sign === '-' ? -total : total) * 60_000
}

function zoneFormat(timeZone: string): Intl.DateTimeFormat | undefined {
  try {
    return new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'gregory',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      era: 'short',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric'
    })
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

function shifted(instant: Date, format: Intl.DateTimeFormat): Date {
  const fields: Partial<Record<Intl.DateTimeFormatPartTypes, string>> = {}
  for (const { type, value } of format.formatToParts(instant)) fields[type] = value
  const year = fields.era === 'BC' ? 1 - Number(fields.year) : Number(fields.year)
  const local = new Date(0)
  local.setUTCFullYear(year, Number(fields.month) - 1, Number(fields.day))
  const milliseconds = instant.getUTCMilliseconds()
  local.setUTCHours(Number(fields.hour), Number(fields.minute), Number(fields.second), milliseconds)
  return local
}

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
  const refuses = failsWith((date: Date, zone: string) => zoned.local(date, zone), [new Date(0), 'UTC'])
  return Object.entries(FIELDS).flatMap(([name, read]) => [
    { signature: `${TIMESTAMP}.${name}(): int`, run: (date: Date) => BigInt(read(date)) },
    {
      signature: `${TIMESTAMP}.${name}(string): int`,
      run: (date: Date, zone: string) => BigInt(read(zoned.local(date, zone))),
      refuses
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
