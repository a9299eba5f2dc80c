import { defineUnavailable } from '../action.js'
import { config, text } from '../fields.js'
import { checkApplication, loginFields, loginResults, span } from './identity-provider.js'

/** Logs users in at an OpenID Connect provider. */
export const openidConnect = defineUnavailable({
  type: 'openid-connect',
  phases: ['on_http_request'],
  config: config({
    issuer_url: text({ description: 'Issuer; its discovery document is fetched from there.', minLength: 1 }),
    ...loginFields,
    idle_session_duration: span('Other name of idle_session_timeout')
  }),
  configOptional: false,
  terminates: 'sometimes',
  results: {
    name: 'oidc',
    fields: loginResults({ 'identity.current_session_id': 'string', identity_token: 'string' })
  },
  check({ client_id, client_secret, idle_session_duration, idle_session_timeout, issuer_url }, scope) {
    checkApplication(client_id, client_secret, scope)
    if (idle_session_duration !== undefined && idle_session_timeout !== undefined) {
      scope.problem(
        ['idle_session_duration'],
        'CONFIG_INVALID',
        'idle_session_duration and idle_session_timeout are one; give one of them'
      )
    }
    if (!/^https?:\/\/./i.test(issuer_url) && !/[$<{]/.test(issuer_url)) {
      scope.problem(['issuer_url'], 'CONFIG_INVALID', 'issuer_url is an absolute URL')
    }
  }
})
