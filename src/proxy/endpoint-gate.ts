import { judge } from '../lib/address-rules.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { FailureAnswer } from './failures.js'
import type { Metrics } from './metrics.js'

export interface EndpointGateParts {
  readonly metrics: Metrics
  readonly log: { info(fields: object, message: string): void }
}

/** The answer to a request from an address that the restriction of all endpoints refuses. */
export const RESTRICTED: FailureAnswer = { status: 403, code: 'IP_RESTRICTED' }

/** The class of traffic that everything public belongs to. */
const TRAFFIC = 'endpoints'

/** The IP restriction of all public traffic, before any edge is looked for. One that is not enforced is only logged and counted. */
export class EndpointGate {
  readonly #parts: EndpointGateParts

  constructor(parts: EndpointGateParts) {
    this.#parts = parts
  }

  /** `listener`: where the client came in, for the log. */
  admits(snapshot: Snapshot, address: string, listener: string): boolean {
    const restriction = snapshot.tables.restrictions.get(TRAFFIC)
    if (restriction === undefined) return true
    const { enforced, policies } = restriction
    const { passes, network } = judge(
      policies.map((id) => snapshot.ipPolicy(id)),
      address
    )
    if (passes) return true
    const { metrics, log } = this.#parts
    metrics.restricted(enforced)
    if (enforced) return false
    log.info({ client: address, listener, network }, 'the IP restriction of endpoints would refuse this client')
    return true
  }
}
