import Type from 'typebox'
import type { Scope } from '../action.js'
import { duration, flag, template, text } from '../fields.js'

const SECOND = 1_000
const YEAR = 8_760 * 3_600 * SECOND

export function span(description: string) {
  return Type.Optional(duration({ description, min: SECOND, max: YEAR }))
}

/** Fields that every action has that logs users in at an identity provider. */
export const loginFields = {
  auth_id: Type.Optional(text({ description: 'Keeps logins of several such actions apart.', minLength: 1 })),
  client_id: Type.Optional(template({ description: 'Id of the application at the provider.', minLength: 1 })),
  client_secret: Type.Optional(template({ description: 'Secret of the application at the provider.', minLength: 1 })),
  scopes: Type.Optional(
    Type.Array(text({ description: 'A scope.', minLength: 1 }), { description: 'Scopes to ask for.' })
  ),
  authz_url_params: Type.Optional(
    Type.Record(Type.String(), text({ description: 'Value of the parameter.' }), {
      description: 'Added to the authorization URL.'
    })
  ),
  max_session_duration: span('Longest session'),
  idle_session_timeout: span('Longest time without a request'),
  userinfo_refresh_interval: span('How often the identity is fetched anew'),
  allow_cors_preflight: Type.Optional(flag({ description: 'true lets CORS preflight requests pass.', default: false })),
  auth_cookie_domain: Type.Optional(text({ description: 'Domain of the session cookie.', minLength: 1 }))
}

/** What such an action publishes besides `identity.<more>`. */
export function loginResults(more: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return {
    'identity.id': 'string',
    'identity.email': 'string',
    'identity.name': 'string',
    'identity.provider_user_id': 'string',
    access_token: 'string',
    refresh_token: 'string',
    expires_at: 'timestamp',
    session_timed_out: 'bool',
    session_max_duration_reached: 'bool',
    userinfo_refreshed: 'bool',
    user_info_refreshed: 'bool',
    'error.code': 'string',
    'error.message': 'string',
    ...more
  }
}

/** An application of one's own has an id and a secret. */
export function checkApplication(clientId: string | undefined, clientSecret: string | undefined, scope: Scope): void {
  if ((clientId === undefined) === (clientSecret === undefined)) return
  const [given, missing] = clientId === undefined ? ['client_secret', 'client_id'] : ['client_id', 'client_secret']
  scope.problem(
    [given as string],
    'CONFIG_INVALID',
    `${given} needs ${missing}: give both, or neither for the operator's application`
  )
}
