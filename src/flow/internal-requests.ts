import type { OutboundError, OutboundRequest, OutboundResponse } from '../lib/outbound/answer.js'
import type { Flow } from './flow.js'

/** Why an internal entry was not asked. */
interface InternalRefusal {
  readonly ok: false
  /** No such entry, one that the policy does not spell out, or policies that ask each other without end. */
  readonly code: 'ENDPOINT_MISSING' | 'ENDPOINT_UNNAMED' | 'LOOP'
  readonly message: string
  readonly timeMs: number
}

export type InternalAnswer = OutboundResponse | OutboundError | InternalRefusal

/** Requests of policies to internal entries. No network is between: the modules and the policy of the entry run as for a client. */
export interface InternalRequests {
  /** Asks the entry that the URL names on behalf of `flow`, in the configuration that `flow` is pinned to. Never rejects. */
  request(flow: Flow, request: OutboundRequest): Promise<InternalAnswer>
}
