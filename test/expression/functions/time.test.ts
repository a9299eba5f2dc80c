import t from 'tap'
import { Duration } from '../../../src/expression/cel-parser.js'
import { timeFunctions } from '../../../src/expression/functions/time.js'
import { durationOf } from '../../../src/expression/values.js'
import { find, outcome, randomNumbers } from './call.js'

function field(name: string, instant: string, zone?: string): unknown {
  const head = `google.protobuf.Timestamp.${name}`
  const date = new Date(instant)
  return zone === undefined
    ? find(timeFunctions, `${head}()`)(date)
    : find(timeFunctions, `${head}(string)`)(date, zone)
}

t.test('fields of a timestamp in UTC', async (t) => {
  const instant = '2024-12-31T23:59:58.765Z'
  const table: Record<string, bigint> = {
    getDate: 31n,
    getDayOfMonth: 30n,
    getDayOfWeek: 2n,
    getDayOfYear: 365n,
    getFullYear: 2024n,
    getHours: 23n,
    getMilliseconds: 765n,
    getMinutes: 59n,
    getMonth: 11n,
    getSeconds: 58n
  }
  for (const [name, value] of Object.entries(table)) {
    t.equal(field(name, instant), value, name)
    t.equal(field(name, instant, 'UTC'), value, `${name} with a zone`)
    t.equal(field(name, instant, '+00:00'), value, `${name} with an offset`)
    t.equal(field(name, instant, 'Africa/Abidjan'), value, `${name} with a name`)
  }
  t.equal(field('getMilliseconds', '1969-12-31T23:59:59.999Z'), 999n, 'before the epoch')
  t.equal(field('getDayOfYear', '0004-12-31T00:00:00Z'), 365n, 'a leap year of two digits')
})

t.test('fields follow the zone, by name or by offset', async (t) => {
  const table: [string, string, string, bigint][] = [
    ['getHours', '2024-07-01T12:00:00Z', 'Europe/Berlin', 14n],
    ['getHours', '2024-01-01T12:00:00Z', 'Europe/Berlin', 13n],
    ['getHours', '2024-01-01T12:00:00Z', 'America/New_York', 7n],
    ['getMinutes', '2024-01-01T12:00:00Z', 'Asia/Kathmandu', 45n],
    ['getFullYear', '2024-12-31T23:30:00Z', '+02:00', 2025n],
    ['getDayOfYear', '2024-12-31T23:30:00Z', '02:00', 0n],
    ['getDate', '2024-03-01T01:00:00Z', '-02:30', 29n],
    ['getMilliseconds', '2024-03-01T01:00:00.007Z', 'Asia/Tokyo', 7n],
    ['getMilliseconds', '1900-01-01T00:00:00.007Z', 'Asia/Tokyo', 7n],
    ['getHours', '2024-03-10T06:59:59Z', 'America/New_York', 1n],
    ['getHours', '2024-03-10T07:00:00Z', 'America/New_York', 3n],
    ['getFullYear', '0001-01-01T00:00:00Z', 'America/New_York', 0n],
    ['getHours', '2024-01-01T00:00:00Z', 'America/New_York', 19n],
    ['getHours', '2024-01-01T05:00:00Z', 'America/New_York', 0n],
    ['getHours', '2024-01-01T05:00:00Z', '', 5n]
  ]
  for (const [name, instant, zone, value] of table)
    t.equal(field(name, instant, zone), value, `${name} ${instant} ${zone}`)
  for (const zone of ['Nowhere/City', '+25:00', '+02:60', '+2', 'x'.repeat(100), '../UTC', 'Local']) {
    t.equal(
      outcome(() => field('getHours', '2024-01-01T00:00:00Z', zone)),
      'failed',
      zone
    )
  }
})

t.test('a named zone with a constant offset and the offset itself agree on every field', async (t) => {
  const random = randomNumbers(31)
  const names = timeFunctions.flatMap(({ signature }) => /Timestamp\.(\w+)\(string\)/.exec(signature)?.[1] ?? [])
  t.equal(names.length, 10)
  for (let run = 0; run < 50; run++) {
    const instant = new Date((random(2_000_000_000) - 500_000_000) * 1000 + random(1000)).toISOString()
    for (const name of names) {
      // The sign of these names is the other way round (POSIX).
      if (field(name, instant, 'Etc/GMT-5') !== field(name, instant, '+05:00')) t.fail(`${name} ${instant}`)
      if (field(name, instant, 'Etc/GMT+9') !== field(name, instant, '-09:00')) t.fail(`${name} ${instant}`)
    }
  }
})

t.test('many zones may be used one after the other', async (t) => {
  const zones = Intl.supportedValuesOf('timeZone').slice(0, 70)
  t.equal(zones.length, 70)
  for (const zone of [...zones, ...zones.slice(0, 2)]) {
    const expected = new Date('2024-07-01T12:34:56Z').toLocaleString('en-GB', { timeZone: zone, minute: 'numeric' })
    if (field('getMinutes', '2024-07-01T12:34:56Z', zone) !== BigInt(expected)) t.fail(zone)
  }
})

t.test('totals of a duration are cut towards zero, milliseconds are the remainder', async (t) => {
  const table: [Duration, bigint, bigint, bigint, bigint][] = [
    [durationOf(3_723_321_456_789n), 1n, 62n, 3723n, 321n],
    [durationOf(-3_723_321_456_789n), -1n, -62n, -3723n, -321n],
    [durationOf(0n), 0n, 0n, 0n, 0n],
    [new Duration(-1n, 250_000_000), 0n, 0n, 0n, -750n]
  ]
  for (const [duration, ...expected] of table) {
    const got = ['getHours', 'getMinutes', 'getSeconds', 'getMilliseconds'].map((name) =>
      find(timeFunctions, `google.protobuf.Duration.${name}()`)(duration)
    )
    t.same(got, expected)
  }
})
