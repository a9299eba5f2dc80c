import type { Fields } from '../field.js'
import { boolean, text, texts, UINT32, whole } from '../fields.js'
import type { Rule, RuleView } from '../members.js'
import { module, object, oneOf } from '../objects.js'
import { secret } from '../secrets.js'
import { LOGIN_PATHS } from './login-paths.js'

const MAX_ENTRIES = 1000

const entries = (description: string, form: 'email' | 'email_domain' | 'team' | 'slug') =>
  texts({ description, form, max: MAX_ENTRIES, distinct: true })

const application = {
  client_id: text({
    description: 'Id of an application of your own; empty: the application of the operator.',
    bytes: 1024
  }),
  client_secret: secret({
    description: 'Secret of the application; together with client_id.',
    bytes: 4096,
    shown: 'owner'
  }),
  scopes: texts({ description: 'Scopes to ask for; needs an application of your own.', max: 100, distinct: true })
}
const people = {
  email_addresses: entries('Users who may pass, by address.', 'email'),
  email_domains: entries('Users who may pass, by the domain of their address.', 'email_domain')
}
const memberships = {
  teams: entries('Members of these teams may pass: <organization>/<team>.', 'team'),
  organizations: entries('Members of these organizations may pass.', 'slug')
}

const rules: readonly Rule[] = [
  { on: ['client_id', 'client_secret'], check: wholeApplication },
  { on: ['client_id', 'scopes'], check: ownScopes }
]

const provider = (name: string, fields: Fields = {}) =>
  object({ ...application, ...people, ...fields }, { description: `Users log in at ${name}.`, rules })

/** Lets users pass who have logged in at an identity provider. */
export function oauthFields() {
  const seconds = (description: string) =>
    whole({ description: `${description} (seconds; 0: no such limit)`, min: 0, max: UINT32, default: 0 })
  return module(`Lets users pass who have logged in at an identity provider. ${LOGIN_PATHS}`, {
    provider: oneOf(
      {
        github: provider('GitHub', memberships),
        facebook: provider('Facebook'),
        microsoft: provider('Microsoft'),
        google: provider('Google'),
        linkedin: provider('LinkedIn'),
        gitlab: provider('GitLab'),
        twitch: provider('Twitch'),
        amazon: provider('Amazon')
      },
      { description: 'The identity provider and who may pass.', required: true }
    ),
    options_passthrough: boolean({ description: 'true lets OPTIONS requests pass, as CORS needs.', default: false }),
    cookie_prefix: {
      ...text({ description: 'Prefix of the names of cookies; empty: none.', bytes: 128, form: 'cookie_prefix' }),
      initial: 'sluice.'
    },
    inactivity_timeout: seconds('Time without a request after which a session ends'),
    maximum_duration: whole({
      description: 'Longest session (seconds; 0: 14 days).',
      min: 0,
      max: UINT32,
      default: 0
    }),
    auth_check_interval: seconds('How often the provider is asked again')
  })
}

function wholeApplication({ body, report }: RuleView): void {
  const [id, clear] = [body.client_id !== '', body.client_secret === true]
  if (id && !clear) report('client_secret', 'FIELD_REQUIRED', 'is required with client_id')
  if (clear && !id) report('client_id', 'FIELD_REQUIRED', 'is required with client_secret')
}

function ownScopes({ body, report }: RuleView): void {
  if ((body.scopes as readonly string[]).length === 0 || body.client_id !== '') return
  report('scopes', 'CONFLICTING_FIELDS', 'need an application of your own: client_id and client_secret')
}
