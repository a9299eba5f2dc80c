import { circuitBreakerModule } from './circuit-breaker.js'
import { compression } from './compression.js'
import type { ModuleDefinition } from './contract.js'
import { ipRestriction } from './ip-restriction.js'
import { oauthModule } from './oauth.js'
import { oidcModule } from './oidc.js'
import { requestHeaders } from './request-headers.js'
import { responseHeaders } from './response-headers.js'
import { trafficPolicy } from './traffic-policy.js'
import { userAgentFilter } from './user-agent-filter.js'
import { webhookVerification } from './webhook-verification.js'
import { websocketTcpConverter } from './websocket-tcp-converter.js'

/**
 * Every module, in the order in which they see a request; they see its response in reverse.
 *
 * - First who may come at all, the cheapest check before the dearer: nobody who is refused costs more than that.
 * - Headers are edited before the policy, which sees what the upstream will see, and after the checks, which see what came.
 * - The breaker refuses before the policy spends anything on a request that has nowhere to go. Of responses it sees the
 *   upstream's or ours, whatever the policy did to the headers.
 * - Of responses the policy comes first, with the upstream's own text; then headers are set on whatever the answer has
 *   become; then it is compressed, when nobody reads or changes it any more.
 * - What a request becomes on its way to the upstream is asked last: whoever answers it before need not open a WebSocket.
 */
export const modules: readonly ModuleDefinition[] = [
  ipRestriction,
  userAgentFilter,
  webhookVerification,
  oauthModule,
  oidcModule,
  requestHeaders,
  circuitBreakerModule,
  compression,
  responseHeaders,
  trafficPolicy,
  websocketTcpConverter
]
