import Type from 'typebox'
import { defineUnavailable } from '../action.js'
import { choice, config, text } from '../fields.js'
import { checkApplication, loginFields, loginResults } from './identity-provider.js'

const PROVIDERS = ['amazon', 'facebook', 'github', 'gitlab', 'google', 'linkedin', 'microsoft', 'twitch'] as const
const list = (description: string) =>
  Type.Optional(Type.Array(text({ description: 'An entry.', minLength: 1 }), { description }))

/** Logs users in at a well-known OAuth provider. */
export const oauth = defineUnavailable({
  type: 'oauth',
  phases: ['on_http_request'],
  config: config({
    provider: choice(PROVIDERS, { description: 'Identity provider.' }),
    ...loginFields,
    email_addresses: list('Addresses that may pass.'),
    email_domains: list('Domains of addresses that may pass.')
  }),
  configOptional: false,
  terminates: 'sometimes',
  results: { name: 'oauth', fields: loginResults({ 'identity.current_provider_session_id': 'string' }) },
  check({ client_id, client_secret, scopes, provider }, scope) {
    checkApplication(client_id, client_secret, scope)
    if (scopes !== undefined && client_id === undefined) {
      scope.warn(
        ['scopes'],
        'CONFIG_UNUSED',
        'scopes need an application of your own: give client_id and client_secret'
      )
    }
    if (client_id === undefined && (provider === 'amazon' || provider === 'facebook')) {
      scope.warn(
        ['provider'],
        'CONFIG_INCOMPLETE',
        `${provider} needs an application of your own: give client_id and client_secret`
      )
    }
  }
})
