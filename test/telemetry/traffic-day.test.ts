import t from 'tap'
import { DAY_MINUTES, TrafficDay } from '../../src/telemetry/traffic-day.js'
import { TrafficMeter } from '../../src/telemetry/traffic-meter.js'
import { ManualClock } from '../helpers/clock.js'

const MINUTE = 60_000

function day() {
  const clock = new ManualClock(Date.parse('2026-01-01T00:00:00Z'))
  const meter = new TrafficMeter()
  const kept = new TrafficDay({ meter, rates: { totals: new Float64Array(4) } }, clock)
  /** A minute with so many requests of so many milliseconds. */
  const minute = (requests: number, duration = 10) => {
    for (let sent = 0; sent < requests; sent++) meter.count(200, duration, 1, 2)
    clock.advance(MINUTE)
    kept.tick()
  }
  return { kept, minute, clock }
}

t.test('minutes are taken together in steps, with the spread of durations', async (t) => {
  const { kept, minute } = day()
  for (let at = 0; at < 20; at++) minute(at < 10 ? 1 : 3, at < 10 ? 10 : 300)
  const steps = kept.steps(20, 10)
  t.match(steps, [
    { at: Date.parse('2026-01-01T00:10:00Z'), minutes: 10, requests: 10, bytesIn: 10, bytesOut: 20 },
    { at: Date.parse('2026-01-01T00:20:00Z'), minutes: 10, requests: 30, bytesIn: 30, bytesOut: 60 }
  ])
  t.same(
    steps.map(({ durations }) => durations),
    [[{ below: 16.384, count: 10 }], [{ below: 524.288, count: 30 }]],
    '10 ms is below 2^14 µs and 300 ms below 2^19 µs'
  )
  t.ok(Math.abs((steps[0]?.p99 ?? 0) / 10 - 1) < 0.05)
  t.same(
    kept.steps(15, 10).map(({ minutes, requests }) => [minutes, requests]),
    [
      [5, 5],
      [10, 30]
    ]
  )
})

t.test('now stands beside an hour and a day ago, and no more than a day is kept', async (t) => {
  const { kept, minute, clock } = day()
  for (let at = 0; at < 4; at++) minute(2)
  t.equal(kept.span(5, 0), undefined, 'five minutes are not known yet')
  minute(2)
  t.equal(kept.span(5, 0)?.requests, 10)
  t.equal(kept.span(5, 60), undefined)
  for (let at = 5; at < 1_440; at++) minute(0)
  for (let at = 0; at < 5; at++) minute(7)
  t.equal(kept.span(5, 0)?.requests, 35)
  t.equal(kept.span(5, 60)?.requests, 0)
  t.equal(kept.span(5, 1_440)?.requests, 10)
  for (let at = 0; at < 600; at++) minute(1)
  t.equal(kept.steps(1_000_000, 1).length, DAY_MINUTES)
  t.equal(kept.span(5, 1_445), undefined)
  clock.advance(500)
  kept.tick()
  t.equal(kept.steps(1_440, 1).length, 1_440, 'a minute is kept when it is over')
})
