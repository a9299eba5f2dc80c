import { type Action, defineUnsupported } from '../policy/action.js'
import type { Field } from '../schema/field.js'
import type { Rule } from '../schema/objects.js'
import { basicAuth } from './basic-auth/feature.js'
import { bodyReplace } from './body-replace/feature.js'
import { circuitBreaker } from './circuit-breaker/feature.js'
import { compression } from './compression/feature.js'
import type { Carrier, Feature, RouteModule } from './contract.js'
import { cors } from './cors.js'
import { errorPages } from './error-pages.js'
import { forwardInternal } from './forward-internal.js'
import { grpcWeb } from './grpc-web.js'
import { headers } from './headers.js'
import { httpRequest } from './http-request/feature.js'
import { ipRestriction } from './ip-restriction.js'
import { jwt } from './jwt/feature.js'
import { login } from './login/feature.js'
import { samlResults } from './login/saml/module.js'
import { rateLimit } from './rate-limit/feature.js'
import { respond } from './respond.js'
import { terminateTls } from './terminate-tls.js'
import { tlsTermination } from './tls-termination.js'
import { trafficPolicy } from './traffic-policy.js'
import { urlRewrite } from './url-rewrite/feature.js'
import { userAgentFilter } from './user-agent-filter.js'
import { variables } from './variables.js'
import { waf } from './waf/feature.js'
import { webhook } from './webhook/feature.js'
import { websocketTcpConverter } from './websocket-tcp-converter.js'

/** All features. Module fields have this order. */
export const features: readonly Feature[] = [
  ipRestriction,
  circuitBreaker,
  compression,
  headers,
  webhook,
  login,
  websocketTcpConverter,
  errorPages,
  userAgentFilter,
  tlsTermination,
  trafficPolicy,
  basicAuth,
  bodyReplace,
  cors,
  forwardInternal,
  grpcWeb,
  httpRequest,
  jwt,
  rateLimit,
  respond,
  terminateTls,
  urlRewrite,
  variables,
  waf
]

/**
 * Order in which modules handle a request; their responses in reverse.
 *
 * - Error pages see the refusals of all others, because the response steps of modules before a refusal run.
 * - Access checks come first, the cheapest before the more expensive ones.
 * - TLS ends after the check of the address, which costs no handshake, and before the policy, which sees the client's certificate.
 * - CORS comes before any login, limit or signature: a preflight request has none of these.
 * - Headers are edited before the policy, which sees the upstream's request, and after the checks, which see the original.
 * - The breaker refuses before the policy spends work on a request to a failing upstream. It sees the response of the upstream or Sluice,
 *   whatever the policy does to headers.
 * - For responses the policy comes first, with the upstream's own text; then headers are set on the result; then it is compressed, when no
 *   policy reads or changes it any more.
 * - Protocol conversion comes last: if a module responds before it, no WebSocket is opened.
 */
const MODULE_ORDER: readonly string[] = [
  'error_pages',
  'ip_restriction',
  'tls_termination',
  'cors',
  'user_agent_filter',
  'webhook_verification',
  'oauth',
  'saml',
  'oidc',
  'request_headers',
  'circuit_breaker',
  'compression',
  'response_headers',
  'traffic_policy',
  'grpc_web',
  'websocket_tcp_converter'
]

/** Sorts modules by an order of names. Throws if a module has no place in it, or a place has no module. */
export function inOrder(found: readonly RouteModule[], order: readonly string[]): readonly RouteModule[] {
  const placeless = found.find(({ name }) => !order.includes(name))
  if (placeless !== undefined) throw new Error(`the module ${placeless.name} has no place in the order of modules`)
  return order.map((name) => {
    const module = found.find((one) => one.name === name)
    if (module === undefined) throw new Error(`the order of modules names ${name}, which no feature has`)
    return module
  })
}

const declared: readonly RouteModule[] = features.flatMap(({ modules = [] }) => modules)

/** All modules in order of execution. */
export const modules: readonly RouteModule[] = inOrder(declared, MODULE_ORDER)

/** Returns the module fields of a route (`https`), TCP edge (`tcp`) or TLS edge (`tls`) by name. */
export function moduleFields(carrier: Carrier): Readonly<Record<string, Field>> {
  const present = declared.filter(({ on }) => on.includes(carrier))
  return Object.fromEntries(present.map((module) => [module.name, module.field(carrier)]))
}

/** Returns the rules for modules that cannot be enabled together. Throws if one of them does not exist. */
export function moduleRules(carrier: Carrier, found: readonly RouteModule[] = declared): readonly Rule[] {
  const present = found.filter(({ on }) => on.includes(carrier))
  return present.flatMap(({ name, excludes }) =>
    excludes.map((other) => {
      if (present.some((module) => module.name === other)) return notBoth(other, name)
      throw new Error(`the module ${name} excludes ${other}, which no feature has`)
    })
  )
}

function notBoth(first: string, second: string): Rule {
  return {
    on: [first, second],
    check({ body, given, report }) {
      const enabled = [first, second].every((name) => (body[name] as Switched | null)?.enabled === true)
      if (!enabled) return
      const message = `only one of ${first} and ${second} can be enabled`
      report(given.has(second) ? second : first, 'CONFLICTING_FIELDS', message)
    }
  }
}

interface Switched {
  readonly enabled: boolean
}

/** Actions that are rejected by name. */
const saml = defineUnsupported('saml', 'use the module saml of a route, or openid-connect', {
  name: 'saml',
  fields: samlResults
})
const aiGateway = defineUnsupported('ai-gateway', 'ai-gateway is retired and has no successor')

const unsupported: readonly Action[] = [saml, aiGateway]

/** Returns the actions of a feature; each has the reason if agents cannot use them. */
function actionsOf({ actions = [], notInAgent }: Feature): readonly Action[] {
  if (notInAgent === undefined) return actions
  return actions.map((action) =>
    action.availability === 'ready' ? { ...action, confined: { ...action.confined, agent: notInAgent } } : action
  )
}

/** All actions of the language by name. */
export const actions: readonly Action[] = [...features.flatMap(actionsOf), ...unsupported].sort((a, b) =>
  a.type < b.type ? -1 : 1
)
