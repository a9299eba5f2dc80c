import type { Static } from 'typebox'
import { defineUnavailable, type Scope } from '../action.js'
import { config, text } from '../fields.js'
import { checkUrl } from './absolute-url.js'
import { checkApplication, loginFields, loginResults, span } from './identity-provider.js'

const fields = config({
  issuer_url: text({ description: 'Issuer; its discovery document is fetched from there.', minLength: 1 }),
  ...loginFields,
  idle_session_duration: span('Other name of idle_session_timeout')
})

const shared = {
  phases: ['on_http_request'],
  config: fields,
  configOptional: false,
  terminates: 'sometimes',
  results: { name: 'oidc', fields: loginResults({ 'identity.current_session_id': 'string', identity_token: 'string' }) }
} as const

/** Logs users in at an OpenID Connect provider. */
export const openidConnect = defineUnavailable({ ...shared, type: 'openid-connect', check })

/** Another name of `openid-connect` that published documents use. */
export const oidc = defineUnavailable({
  ...shared,
  type: 'oidc',
  check(config, scope) {
    scope.warn([], 'ACTION_RENAMED', 'oidc is called openid-connect; the old name is accepted')
    check(config, scope)
  }
})

function check(config: Static<typeof fields>, scope: Scope): void {
  const { client_id, client_secret, idle_session_duration, idle_session_timeout, issuer_url } = config
  checkApplication(client_id, client_secret, scope)
  if (idle_session_duration !== undefined && idle_session_timeout !== undefined) {
    scope.problem(
      ['idle_session_duration'],
      'CONFIG_INVALID',
      'idle_session_duration and idle_session_timeout are one; give one of them'
    )
  }
  checkUrl(issuer_url, /^https?:\/\/./i, 'an absolute http or https URL', ['issuer_url'], scope)
}
