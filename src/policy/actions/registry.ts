import type { Action } from '../action.js'
import { addHeaders } from './add-headers.js'
import { basicAuth } from './basic-auth.js'
import { circuitBreaker } from './circuit-breaker.js'
import { closeConnectionAction } from './close-connection.js'
import { compressResponse } from './compress-response.js'
import { customResponse } from './custom-response.js'
import { deny } from './deny.js'
import { forwardInternal } from './forward-internal.js'
import { httpRequest } from './http-request.js'
import { jwtValidation } from './jwt-validation.js'
import { log } from './log.js'
import { oauth } from './oauth.js'
import { oidc, openidConnect } from './openid-connect.js'
import { rateLimit } from './rate-limit.js'
import { redirect } from './redirect.js'
import { removeHeaders } from './remove-headers.js'
import { requestBodyFindReplace } from './request-body-find-replace.js'
import { responseBodyFindReplace } from './response-body-find-replace.js'
import { restrictIps } from './restrict-ips.js'
import { setVars } from './set-vars.js'
import { sseFindReplace } from './sse-find-replace.js'
import { terminateTls } from './terminate-tls.js'
import { aiGateway, owaspCrsRequest, owaspCrsResponse, saml } from './unsupported.js'
import { urlRewrite } from './url-rewrite.js'
import { verifyWebhook } from './verify-webhook.js'

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
