import type { Sent } from '../flow/exchange.js'
import type { Flow } from '../flow/flow.js'
import type { Metrics } from '../telemetry/metrics.js'
import type { RateOutcome } from '../telemetry/traffic-rates.js'

/** Data of an exchange for counting. */
interface CountedExchange {
  readonly snapshot: { readonly revision: number }
  readonly route: { readonly id: string } | undefined
  /** Edge id; undefined if no edge has the host. */
  readonly edge: string | undefined
  readonly inner: readonly string[] | undefined
  /** Set for requests of policies; undefined for requests of clients. */
  readonly inside: object | undefined
  readonly flow: Flow | undefined
  /** 0 if no response was sent. */
  readonly status: number
  /** True if Sluice, not an upstream, responded or closed the connection. */
  readonly own: boolean
}

/** Counts an exchange that finished at `at` (monotonic milliseconds) after `duration` (milliseconds). */
export function countExchange(
  { rates, meter }: Pick<Metrics, 'rates' | 'meter'>,
  exchange: CountedExchange,
  sent: Sent,
  { at, duration }: { readonly at: number; readonly duration: number }
): void {
  const { snapshot, route, edge, inner, inside, flow, status } = exchange
  if (inside === undefined) meter.count(status, duration, sent.bytesIn, sent.bytesOut)
  rates.count({
    route: route?.id,
    edge,
    inner,
    host: flow?.request?.target.host,
    inside: inside !== undefined,
    revision: snapshot.revision,
    outcome: outcomeOf(exchange, sent),
    at
  })
}

/** Returns the outcome. A client that disconnects before the response was not served: it may have waited for a hanging upstream. */
function outcomeOf({ status, own }: CountedExchange, { failure }: Sent): RateOutcome {
  if (status >= 500) return 'failed'
  if (status === 0) return own && failure === undefined ? 'refused' : 'failed'
  if (status >= 400) return own ? 'refused' : 'client-error'
  return failure === 'upstream-gone' || failure === 'upstream-malformed' || failure === 'upstream-timeout'
    ? 'failed'
    : 'served'
}
