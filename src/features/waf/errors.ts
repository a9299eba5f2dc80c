import { defineErrors } from '../../lib/errors.js'

/** Error codes of the actions with the Core Rule Set. */
export const wafErrors = defineErrors({
  WAF_REQUEST_DENIED: {
    status: 403,
    text: 'The rules of the web application firewall deny the request.',
    help: 'Look at matched_rules of the results; exclude a rule that matches harmless requests with exclusions.'
  },
  WAF_RESPONSE_DENIED: {
    status: 403,
    text: 'The rules of the web application firewall deny the response.',
    help: 'Look at matched_rules of the results, and at the page that the upstream sent.'
  },
  WAF_BODY_INVALID: {
    status: 400,
    text: 'The web application firewall cannot read the body as its Content-Type or Content-Encoding says.',
    help: 'Send a body that matches its fields, or set on_error to continue.'
  },
  WAF_WORK_EXCEEDED: {
    status: 503,
    text: 'Examining the message would take more work than one message may.',
    help: 'Lower body_limit, exclude expensive rules, or set on_error to continue.'
  }
})

/** Problem codes of the actions with the Core Rule Set. */
export const wafProblems = defineErrors({
  WAF_RULE_REQUIRED: {
    text: 'The config excludes a rule without which nothing is ever denied.',
    help: 'Exclude the rules that match harmless requests, or set enforce to false.'
  },
  WAF_RULES_MISSING: {
    text: 'The process has no rules for the web application firewall.',
    help: 'Unpack a release of the OWASP Core Rule Set and name its folder in the option waf.rules.'
  }
})

/** Error codes of the option `waf.rules`. */
export const wafStartErrors = defineErrors({
  WAF_RULES_INVALID: {
    text: 'The folder of the option waf.rules cannot be read, or a rule in it is not known.',
    help: 'Name the folder of a release of the OWASP Core Rule Set 4, or set waf.skip_unknown to leave out unknown rules.'
  }
})
