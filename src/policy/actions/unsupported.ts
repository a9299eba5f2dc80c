import { defineUnsupported } from '../action.js'

/** Actions of the language that are refused by name. */
export const saml = defineUnsupported('saml', 'saml was never released; use openid-connect for single sign-on')
export const aiGateway = defineUnsupported('ai-gateway', 'ai-gateway is retired and has no successor')

const WAF =
  'needs the OWASP core rule set and an engine for it, which Sluice does not ship; write expressions with deny instead'
export const owaspCrsRequest = defineUnsupported('owasp-crs-request', `owasp-crs-request ${WAF}`)
export const owaspCrsResponse = defineUnsupported('owasp-crs-response', `owasp-crs-response ${WAF}`)
