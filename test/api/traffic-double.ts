import type { TrafficDayView, TrafficMap, TrafficView } from '../../src/control/traffic-answers.js'

/** Answers of a process without traffic. */

export const EMPTY_MAP: TrafficMap = { listeners: [], edges: [], tcp_edges: [], omitted: 0 }
export const EMPTY_DAY: TrafficDayView = { steps: [], compared: { now: null, hour_ago: null, day_ago: null } }
export const EMPTY_TRAFFIC: TrafficView = {
  seconds: [],
  last_minute: {
    seconds: 0,
    requests: 0,
    statuses: { '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0, none: 0 },
    p50_ms: null,
    p99_ms: null,
    refused: 0,
    failed: 0,
    bytes_in: 0,
    bytes_out: 0,
    codes: {}
  }
}
