import type { Fields } from '../../schema/field.js'
import { flag, text, texts } from '../../schema/fields.js'
import { object, oneOf, type Rule, type RuleView } from '../../schema/objects.js'
import { secret } from '../../schema/secrets.js'
import { defineFeature, defineModule } from '../contract.js'
import { loginProblems, oauth, oidc, openidConnect } from './actions.js'
import { loginErrors } from './answers.js'
import { loginEventFields } from './event-fields.js'
import { createGate } from './gate.js'
import { loginSteps, longestSession, SECOND, seconds, sessionOf } from './module-parts.js'
import { openidProvider, PROVIDERS, type ProviderName } from './providers.js'
import { samlModule } from './saml/module.js'
import { logins } from './service.js'

/** Description of the reserved login paths. */
const LOGIN_PATHS =
  'Register https://<host>/.sluice/callback at the provider; it, /.sluice/login and /.sluice/logout belong to the login on every host of the edge, whatever the route matches, as does /.sluice/backchannel-logout.'

const MAX_ENTRIES = 1000

const entries = (description: string, item: string, form: 'email' | 'email_domain' | 'team' | 'slug') =>
  texts({ description, item, form, max: MAX_ENTRIES, distinct: true })

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
  scopes: texts({
    description: 'Scopes to ask for; needs an application of your own.',
    item: 'A scope.',
    max: 100,
    distinct: true
  })
}
const people = {
  email_addresses: entries('Users who may pass, by address.', 'An address in lower case.', 'email'),
  email_domains: entries(
    'Users who may pass, by the domain of their address.',
    'A domain in lower case.',
    'email_domain'
  )
}
const memberships = {
  teams: entries('Members of these teams may pass: <organization>/<team>.', 'A team, or its number.', 'team'),
  organizations: entries('Members of these organizations may pass.', 'An organization.', 'slug')
}

const rules: readonly Rule[] = [
  { on: ['client_id', 'client_secret'], check: wholeApplication },
  { on: ['client_id', 'scopes'], check: ownScopes }
]

const provider = (name: string, fields: Fields = {}) =>
  object({ ...application, ...people, ...fields }, { description: `Users log in at ${name}.`, rules })

/** Configured provider and its access lists. */
interface ChosenProvider {
  readonly name: ProviderName
  readonly value: {
    /** '': the operator's application. */
    readonly client_id: string
    readonly scopes: readonly string[]
    readonly email_addresses: readonly string[]
    readonly email_domains: readonly string[]
    readonly teams?: readonly string[]
    readonly organizations?: readonly string[]
  }
}

/** Allows users who have logged in at an OAuth provider and are in one of its lists, if there are any. */
const oauthModule = defineModule({
  name: 'oauth',
  description: `Lets users pass who have logged in at an identity provider. ${LOGIN_PATHS}`,
  on: ['https'],
  fields: {
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
    options_passthrough: flag({ description: 'true lets OPTIONS requests pass, as CORS needs.', default: false }),
    cookie_prefix: {
      ...text({ description: 'Prefix of the names of cookies; empty: none.', bytes: 128, form: 'cookie_prefix' }),
      initial: 'sluice.'
    },
    inactivity_timeout: seconds('Time without a request after which a session ends'),
    maximum_duration: longestSession,
    auth_check_interval: seconds('How often the provider is asked again')
  },
  compile(config, scope) {
    const { name, value } = config.provider as unknown as ChosenProvider
    const login = scope.service(logins)
    const { provider, application } = login?.providers[name] ?? { provider: PROVIDERS[name], application: undefined }
    const secret = scope.secret(`provider.${name}.client_secret`)
    const own = secret === undefined ? undefined : { id: value.client_id, secret }
    const chosen = value.client_id === '' ? application : own
    return loginSteps(
      createGate(
        {
          result: 'oauth',
          ...sessionOf(config),
          owner: scope.owner,
          provider,
          client: value.client_id,
          application: () => chosen,
          scopes: value.scopes,
          check: config.auth_check_interval * SECOND,
          providerLogout: false,
          access: listsOf(value)
        },
        scope.services
      )
    )
  }
})

function listsOf({ email_addresses, email_domains, teams = [], organizations = [] }: ChosenProvider['value']) {
  return { email_addresses, email_domains, teams, organizations }
}

/** Allows users who have logged in at an OpenID Connect provider. */
const oidcModule = defineModule({
  name: 'oidc',
  description: `Lets users pass who have logged in at an OpenID Connect provider. ${LOGIN_PATHS}`,
  on: ['https'],
  // Two logins on one route would ask every visitor twice.
  excludes: ['oauth', 'saml'],
  fields: {
    issuer: text({
      description: 'The provider; its discovery document is fetched from there when it is first needed.',
      bytes: 2048,
      form: 'url',
      required: true
    }),
    client_id: text({ description: 'Id of the application at the provider.', bytes: 1024, required: true }),
    client_secret: secret({ description: 'Its secret.', bytes: 4096, shown: 'owner', required: true }),
    scopes: texts({ description: 'Scopes to ask for besides openid.', item: 'A scope.', max: 100, distinct: true }),
    assume_email_verified: flag({
      description: 'true takes addresses without the claim email_verified for verified: the provider gives no others.',
      default: false
    }),
    options_passthrough: flag({ description: 'true lets OPTIONS requests pass, as CORS needs.', default: false }),
    cookie_prefix: text({
      description: 'Prefix of the names of cookies; empty: none.',
      bytes: 128,
      form: 'cookie_prefix'
    }),
    inactivity_timeout: seconds('Time without a request after which a session ends'),
    maximum_duration: longestSession,
    provider_logout: flag({
      description:
        'true makes a logout end the session at the provider too; register https://<host>/.sluice/logout there as a place to come back to.',
      default: false
    })
  },
  compile(config, scope) {
    const secret = scope.secret('client_secret')
    const application = secret === undefined ? undefined : { id: config.client_id, secret }
    return loginSteps(
      createGate(
        {
          result: 'oidc',
          ...sessionOf(config),
          owner: scope.owner,
          provider: openidProvider(config.issuer, config.assume_email_verified === true),
          client: config.client_id,
          application: () => application,
          scopes: config.scopes,
          check: 0,
          providerLogout: config.provider_logout === true,
          access: {}
        },
        scope.services
      )
    )
  }
})

function wholeApplication({ body, report }: RuleView): void {
  const [id, clear] = [body.client_id !== '', body.client_secret === true]
  if (id && !clear) report('client_secret', 'FIELD_REQUIRED', 'is required with client_id')
  if (clear && !id) report('client_id', 'FIELD_REQUIRED', 'is required with client_secret')
}

function ownScopes({ body, report }: RuleView): void {
  if ((body.scopes as readonly string[]).length === 0 || body.client_id !== '') return
  report('scopes', 'CONFLICTING_FIELDS', 'need an application of your own: client_id and client_secret')
}

/** Feature: logins at providers of OAuth, OpenID Connect and SAML. */
export const login = defineFeature({
  name: 'login',
  summary: 'Lets users pass who have logged in at an identity provider.',
  actions: [oauth, oidc, openidConnect],
  modules: [oauthModule, samlModule, oidcModule],
  eventFields: loginEventFields,
  notInAgent: 'logins need the keys of the server; put this rule into a policy there',
  errors: [loginErrors],
  problems: [loginProblems]
})
