import type { Sent } from '../flow/exchange.js'
import type { Flow } from '../flow/flow.js'
import type { Metrics } from '../telemetry/metrics.js'
import type { RateOutcome } from '../telemetry/traffic-rates.js'

/** What the pipeline knows of an exchange for rates. */
interface CountedExchange {
  readonly snapshot: { readonly revision: number }
  readonly route: { readonly id: string } | undefined
  /** Id of the edge; undefined: no edge has the host. */
  readonly edge: string | undefined
  readonly inner: readonly string[] | undefined
  /** Undefined for the requests of clients. */
  readonly inside: object | undefined
  readonly flow: Flow | undefined
  /** 0 when there was no answer. */
  readonly status: number
  /** Is it Sluice that answers, or closes the connection, and no upstream? */
  readonly own: boolean
}

/** Counts an exchange that has ended at `at` (monotonic milliseconds) and took `duration` (milliseconds). */
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

/** A client that leaves before there is an answer was not served either: it may have waited for an upstream that hangs. */
function outcomeOf({ status, own }: CountedExchange, { failure }: Sent): RateOutcome {
  if (status >= 500) return 'failed'
  if (status === 0) return own && failure === undefined ? 'refused' : 'failed'
  if (status >= 400) return own ? 'refused' : 'client-error'
  return failure === 'upstream-gone' || failure === 'upstream-malformed' || failure === 'upstream-timeout'
    ? 'failed'
    : 'served'
}
