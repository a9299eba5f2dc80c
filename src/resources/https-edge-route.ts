import { HTTP_BACKENDS } from './backends.js'
import { choice, constant, described, text } from './fields.js'
import { HTTPS_EDGE } from './https-edge-target.js'
import { backendModule } from './modules/backend.js'
import { circuitBreakerFields } from './modules/circuit-breaker.js'
import { compressionModule } from './modules/compression.js'
import { headersModule } from './modules/headers.js'
import { ipRestrictionModule } from './modules/ip-restriction.js'
import { oauthFields } from './modules/oauth.js'
import { oidcFields, oneLogin } from './modules/oidc.js'
import { trafficPolicyModule } from './modules/traffic-policy.js'
import { userAgentFilterModule } from './modules/user-agent-filter.js'
import { webhookVerificationModule } from './modules/webhook-verification.js'
import { websocketTcpConverterModule } from './modules/websocket-tcp-converter.js'
import { writtenById } from './principals.js'
import { parent } from './references.js'
import { defineResource } from './resource.js'

const unsupported = (name: string) => constant(null, `${name} is not supported; always null.`)

/**
 * The path of a route as it is compared, from its normal form: a prefix ends on a segment border, so that its last slash says
 * nothing.
 */
export function comparedPath(matchType: string, path: string): string {
  return matchType === 'path_prefix' && path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path
}

/** What happens to the requests of an HTTPS edge whose path matches. */
export const httpsEdgeRoute = defineResource({
  name: 'https_edge_route',
  description: 'What happens to the requests of an HTTPS edge whose path matches.',
  path: '/edges/https/{edge_id}/routes',
  listKey: 'routes',
  idPrefix: 'edghtsrt',
  operations: ['create', 'get', 'update', 'delete'],
  events: 'edge_https_route',
  rules: [
    {
      on: ['match_type', 'match'],
      check({ body }) {
        body.match = comparedPath(String(body.match_type), String(body.match))
      }
    },
    { on: ['oauth', 'oidc'], check: oneLogin }
  ],
  fields: {
    edge_id: parent(HTTPS_EDGE, 'Id of its edge.'),
    match_type: choice(['exact_path', 'path_prefix'], {
      description: 'How match is compared.',
      default: 'path_prefix'
    }),
    match: text({
      description: 'The path, or its beginning; kept in the normal form of paths, a prefix without a slash at its end.',
      form: 'path',
      bytes: 1024,
      required: true,
      unique: 'https_edge_route_match',
      within: ['edge_id', 'match_type']
    }),
    ...described,
    owner_id: writtenById('The user or bot who made it; members see secrets of their own routes alone.', false),
    backend: backendModule(HTTP_BACKENDS),
    ip_restriction: ipRestrictionModule(),
    circuit_breaker: circuitBreakerFields(),
    compression: compressionModule(),
    request_headers: headersModule('requests'),
    response_headers: headersModule('responses'),
    webhook_verification: webhookVerificationModule(),
    oauth: oauthFields(),
    saml: unsupported('saml'),
    oidc: oidcFields(),
    websocket_tcp_converter: websocketTcpConverterModule(),
    user_agent_filter: userAgentFilterModule(),
    traffic_policy: trafficPolicyModule('http'),
    policy: unsupported('policy, the predecessor of traffic_policy,')
  }
})
