import type { BodyBuffersParts } from '../flow/body-buffers.js'
import type { Clock } from '../lib/clock.js'
import { DescriptorShares } from '../lib/descriptor-shares.js'
import type { Options } from '../options/options.js'
import type { TrafficParts } from '../proxy/data-plane.js'
import { WindowBudget } from '../transport/http2/receive-window.js'

/** Current options: readers see the values of the last reload. */
export interface LiveOptions {
  /** Limits, with the descriptors of the process, and the HTTP/2 windows of this thread. */
  readonly limits: TrafficParts['limits'] & { readonly descriptors: DescriptorShares; readonly windows: WindowBudget }
  readonly timeouts: TrafficParts['timeouts']
  readonly bodies: Required<Pick<BodyBuffersParts, 'total' | 'each' | 'perClient' | 'pace'>>
  /** Applies new values. Open connections keep their per-connection values. */
  take(options: Options): void
}

/** Paths of reloadable options, or the levels above them: those of traffic that bind no resources. */
export const RELOADED = [
  'listeners',
  'path_form',
  'edges_on_http',
  'hsts',
  'upstream',
  'files',
  'upstream_ca',
  'policy',
  'policy_tests',
  'limits',
  'timeouts',
  'recorder'
] as const

/** Creates the current limits and timeouts. */
export function liveOptions(options: Options, clock: Clock, descriptors = new DescriptorShares()): LiveOptions {
  const limits = { ...limitsOf(options), descriptors, windows: new WindowBudget(clock, windowsOf(options)) }
  const timeouts = { ...options.timeouts }
  const bodies = bodiesOf(options, clock)
  return {
    limits,
    timeouts,
    bodies,
    take(now) {
      Object.assign(limits, limitsOf(now))
      Object.assign(limits.windows, windowsOf(now))
      Object.assign(timeouts, now.timeouts)
      const { pace, ...amounts } = bodiesOf(now, clock)
      Object.assign(bodies, amounts)
      Object.assign(bodies.pace, pace)
    }
  }
}

function limitsOf({ limits, timeouts }: Options) {
  return {
    headerBytes: limits.header_bytes,
    headers: limits.headers,
    targetBytes: limits.target_bytes,
    connections: limits.connections,
    handshakes: limits.handshakes,
    connectionsPerAddress: limits.connections_per_address,
    handshakesPerAddress: limits.handshakes_per_address,
    abortOnClose: limits.abort_on_close,
    headTimeout: timeouts.headers,
    bodyIdle: timeouts.request_body,
    streamIdle: timeouts.idle,
    keepAlive: timeouts.keep_alive,
    halfClosed: timeouts.half_closed,
    tcpKeepAlive: timeouts.tcp_keep_alive
  }
}

function windowsOf({ limits }: Options) {
  return { stream: limits.stream_window, total: limits.stream_windows }
}

function bodiesOf({ limits, timeouts }: Options, clock: Clock) {
  return {
    total: limits.buffered_bodies,
    each: limits.buffered_body,
    perClient: Math.max(2 * limits.buffered_body, limits.buffered_bodies * limits.buffered_bodies_share),
    pace: { clock, deadline: timeouts.buffered_body, rate: limits.buffered_body_rate }
  }
}
