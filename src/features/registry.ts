import { type Action, defineUnsupported } from '../policy/action.js'
import { basicAuth } from './basic-auth.js'
import { requestBodyFindReplace, responseBodyFindReplace, sseFindReplace } from './body-replace/feature.js'
import { circuitBreaker, circuitBreakerModule } from './circuit-breaker/feature.js'
import { compression, compressResponse } from './compression/feature.js'
import type { ModuleDefinition } from './contract.js'
import { forwardInternal } from './forward-internal.js'
import { addHeaders, removeHeaders, requestHeaders, responseHeaders } from './headers.js'
import { httpRequest } from './http-request/feature.js'
import { ipRestriction, restrictIps } from './ip-restriction.js'
import { jwtValidation } from './jwt/feature.js'
import { oauth, oidc, openidConnect } from './login/actions.js'
import { oauthModule, oidcModule } from './login/feature.js'
import { rateLimit } from './rate-limit/feature.js'
import { closeConnectionAction, customResponse, deny } from './respond.js'
import { terminateTls } from './terminate-tls.js'
import { trafficPolicy } from './traffic-policy.js'
import { redirect, urlRewrite } from './url-rewrite.js'
import { userAgentFilter } from './user-agent-filter.js'
import { log, setVars } from './variables.js'
import { verifyWebhook, webhookVerification } from './webhook/feature.js'
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

/** Actions of the language that are refused by name. */
const saml = defineUnsupported('saml', 'saml was never released; use openid-connect for single sign-on')
const aiGateway = defineUnsupported('ai-gateway', 'ai-gateway is retired and has no successor')

const WAF =
  'needs the OWASP core rule set and an engine for it, which Sluice does not ship; write expressions with deny instead'
const owaspCrsRequest = defineUnsupported('owasp-crs-request', `owasp-crs-request ${WAF}`)
const owaspCrsResponse = defineUnsupported('owasp-crs-response', `owasp-crs-response ${WAF}`)

/** Every action of the language; what is not here does not exist. */
export const actions: readonly Action[] = [
  addHeaders,
  aiGateway,
  basicAuth,
  circuitBreaker,
  closeConnectionAction,
  compressResponse,
  customResponse,
  deny,
  forwardInternal,
  httpRequest,
  jwtValidation,
  log,
  oauth,
  oidc,
  openidConnect,
  owaspCrsRequest,
  owaspCrsResponse,
  rateLimit,
  redirect,
  removeHeaders,
  requestBodyFindReplace,
  responseBodyFindReplace,
  restrictIps,
  saml,
  setVars,
  sseFindReplace,
  terminateTls,
  urlRewrite,
  verifyWebhook
]

/** Wrong names whose right one is known: refused, with that suggestion. */
export const suggestions: Readonly<Record<string, string>> = {
  'webhook-validation': 'verify-webhook',
  'webhook-verification': 'verify-webhook',
  'ip-restriction': 'restrict-ips',
  'rewrite-url': 'url-rewrite',
  jwt: 'jwt-validation',
  compression: 'compress-response'
}
