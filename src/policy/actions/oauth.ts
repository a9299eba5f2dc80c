import Type from 'typebox'
import { defineAction } from '../action.js'
import { choice, config, text } from '../fields.js'
import { PROVIDER_NAMES, PROVIDERS } from '../login/providers.js'
import type { LoginServices } from '../login/settings.js'
import { APPLICATION, compileLogin, leftByLogin, loginFields, loginResults } from './identity-provider.js'

const list = (description: string) =>
  Type.Optional(Type.Array(text({ description: 'An entry.', minLength: 1 }), { description }))

/**
 * Logs users in at a well-known OAuth provider: authorization code with state, nonce and proof key, session in sealed cookies.
 *
 * `/.sluice/login`, `/.sluice/logout` (also `/ngrok/login`, `/ngrok/logout`) and `/.sluice/callback` belong to the action on
 * every host of its entry: no rule sees requests for them, whatever its expressions say. Modules for access by address do.
 */
export const oauth = defineAction({
  type: 'oauth',
  phases: ['on_http_request'],
  config: config(
    {
      provider: choice(PROVIDER_NAMES, { description: 'Identity provider.' }),
      ...loginFields,
      email_addresses: list('Addresses that may pass.'),
      email_domains: list('Domains of addresses that may pass.')
    },
    APPLICATION
  ),
  configOptional: false,
  terminates: 'sometimes',
  denies: true,
  leaves: (settings) => leftByLogin('oauth', settings),
  results: { name: 'oauth', fields: loginResults({ 'identity.current_provider_session_id': 'string' }) },
  compile(settings, scope) {
    const {
      client_id,
      scopes,
      provider: name,
      email_addresses = [],
      email_domains = [],
      idle_session_timeout
    } = settings
    const { login }: LoginServices = scope.services
    const { provider, application } = login?.providers[name] ?? { provider: PROVIDERS[name], application: undefined }
    if (scopes !== undefined && client_id === undefined) {
      scope.warn(
        ['scopes'],
        'CONFIG_UNUSED',
        'scopes need an application of your own: give client_id and client_secret'
      )
    }
    if (client_id === undefined && application === undefined && (name === 'amazon' || name === 'facebook')) {
      scope.warn(
        ['provider'],
        'CONFIG_INCOMPLETE',
        `${name} needs an application of your own: give client_id and client_secret`
      )
    }
    const asked = client_id === undefined ? { ...settings, scopes: [] } : settings
    const access = { email_addresses, email_domains }
    const source = {
      result: 'oauth',
      provider,
      operatorApplication: application,
      idle: idle_session_timeout,
      access
    } as const
    return compileLogin(asked, source, scope)
  }
})
