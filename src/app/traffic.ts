import type { StopFollowing } from '../control/calls.js'
import type { TrafficSource } from '../control/traffic.js'
import type {
  TrafficMinutesView,
  TrafficNumbersView,
  TrafficSecondView,
  TrafficView
} from '../control/traffic-answers.js'
import { timestampText } from '../lib/json.js'
import { TrafficDay, type TrafficMinutes } from '../telemetry/traffic-day.js'
import { TrafficHistory, type TrafficSecond, type TrafficSummary } from '../telemetry/traffic-history.js'
import type { DataPlane } from './data-plane.js'
import type { Foundation } from './foundation.js'
import { trafficMap } from './traffic-map.js'

const SECOND = 1_000
/** Minutes that are compared with as many of an hour and of a day before. */
const COMPARED = 5

/** Creates the traffic statistics of this process from now on; they live as long as the process. */
export function openTraffic(
  { metrics, clock, holder, lifecycle }: Foundation,
  { upstreams, traffic }: DataPlane
): TrafficSource {
  const { meter, rates, connections, inFlight } = metrics
  const codes = () => metrics.failuresByCode()
  const history = new TrafficHistory({ meter, rates, codes, connections, inFlight }, clock)
  const day = new TrafficDay({ meter, rates }, clock)
  const timer = setInterval(() => {
    history.tick()
    day.tick()
  }, SECOND)
  timer.unref()
  const compared = (minutesAgo: number) => {
    const span = day.span(COMPARED, minutesAgo)
    return span === undefined ? null : minutesOf(span)
  }
  const readers = new Set<() => void>()
  lifecycle.opens('history of traffic', {
    streams() {
      clearInterval(timer)
      for (const over of readers) over()
    }
  })
  return {
    history: (seconds) => ({
      seconds: history.seconds(seconds).map(secondOf),
      last_minute: minuteOf(history.lastMinute())
    }),
    day: (minutes, step) => ({
      steps: day.steps(minutes, step).map(minutesOf),
      compared: { now: compared(0), hour_ago: compared(60), day_ago: compared(1_440) }
    }),
    follow(take, over): StopFollowing {
      const stop = history.follow((second) => take(secondOf(second)))
      readers.add(over)
      return () => {
        readers.delete(over)
        stop()
      }
    },
    map: () => {
      const { plan, tables } = holder.current()
      return trafficMap({
        units: plan.units,
        names: holder.names,
        certificates: tables.certificates,
        rates,
        servers: upstreams.servers,
        ports: traffic.ports,
        clock
      })
    }
  }
}

function secondOf(second: TrafficSecond): TrafficSecondView {
  const { at, connections, inFlight } = second
  return { at: timestampText(at), ...numbersOf(second), connections, in_flight: inFlight }
}

function minutesOf(of: TrafficMinutes): TrafficMinutesView {
  const { at, minutes, durations } = of
  const spread = durations.map(({ below, count }) => ({ below_ms: below, count }))
  return { at: timestampText(at), minutes, ...numbersOf(of), durations: spread }
}

function minuteOf(summary: TrafficSummary): TrafficView['last_minute'] {
  return { seconds: summary.seconds, ...numbersOf(summary), codes: Object.fromEntries(summary.codes) }
}

function numbersOf(of: Omit<TrafficSecond, 'at' | 'connections' | 'inFlight'>): TrafficNumbersView {
  const { requests, statuses, p50, p99, refused, failed, bytesIn, bytesOut } = of
  const [none = 0, , success = 0, redirected = 0, clientErrors = 0, serverErrors = 0] = statuses
  return {
    requests,
    statuses: { '2xx': success, '3xx': redirected, '4xx': clientErrors, '5xx': serverErrors, none },
    p50_ms: p50 === undefined ? null : rounded(p50),
    p99_ms: p99 === undefined ? null : rounded(p99),
    refused,
    failed,
    bytes_in: bytesIn,
    bytes_out: bytesOut
  }
}

/** Three digits are more than the buckets of durations know. */
function rounded(milliseconds: number): number {
  return Number(milliseconds.toPrecision(3))
}
