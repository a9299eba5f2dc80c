import { failed } from './bounds.js'

/** `+02:00`, `-09:30` or `02:00`: hours and minutes ahead of UTC. */
const OFFSET = /^([+-]?)(\d{1,2}):(\d{2})$/

/** What a name of the IANA database may look like. */
const ZONE_NAME = /^[A-Za-z][A-Za-z0-9_+\-/]{0,63}$/

/** Most zones whose format is kept: making one costs a quarter of a millisecond, using it microseconds. */
const KEPT_ZONES = 64

/** Shows an instant in a time zone as a `Date` whose UTC fields are the local ones. */
export class ZonedTime {
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
