import type { Static } from 'typebox'
import type { Template } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import { defineErrors } from '../../lib/errors.js'
import { parseDuration } from '../../lib/units.js'
import { type ActionRun, defineAction, type Scope } from '../../policy/action.js'
import { config } from '../../policy/fields.js'
import { policyErrors } from '../../policy/problems.js'
import { BLANK, checkUrl, isBlank, isPlaceholderWord } from '../../policy/values.js'
import { textLike, WEB_URL, wordLike } from '../../schema/editor.js'
import { choice, duration, flag, list, map, optional, template, text } from '../../schema/values.js'
import type { AccessLists } from './access.js'
import { createGate } from './gate.js'
import { type Application, openidProvider, PROVIDER_NAMES, PROVIDERS, type Provider } from './providers.js'
import { type LoginResult, loginResults, logins, USUAL_MAXIMUM } from './service.js'

/** Problem codes of the actions oauth and openid-connect. */
export const loginProblems = defineErrors({
  LOGIN_VALUE_ABSENT: {
    text: 'A field of the login reads a value that does not exist on the paths of the login itself.',
    help: 'Use a value that the request itself has.'
  }
})

const SECOND = 1_000
const YEAR = 8_760 * 3_600 * SECOND
const COOKIE_PREFIX = 'sluice.'
/** Parameters of RFC 6749 4.1.1, RFC 7636 and OpenID Connect Core that Sluice sets itself, or that would change the flow. */
const OWN_PARAMETERS = new Set([
  'client_id',
  'code_challenge',
  'code_challenge_method',
  'nonce',
  'redirect_uri',
  'request',
  'request_uri',
  'response_mode',
  'response_type',
  'scope',
  'state'
])
/** Values available only after earlier actions. */
const LATE = /^(?:vars|actions)\b/
/** Lower-case domain name. */
const DOMAIN = /^(?!.{254})(?:(?!-)[a-z0-9_-]{1,63}(?<!-)\.)+(?!\d+$)(?!-)[a-z0-9_-]{1,63}(?<!-)$/

/** Domain in any case, with an optional leading dot. */
const ANY_CASE_DOMAIN = DOMAIN.source.replace('^', '^\\.?').replaceAll('a-z', 'A-Za-z')
const blank = (field: string) => ({
  required: [field],
  properties: { [field]: { type: 'string', pattern: BLANK.source } }
})
/** JSON schema for editors of the checks in `compile`: id and secret are required together, and neither is blank. */
const APPLICATION = {
  anyOf: [
    { dependentRequired: { client_id: ['client_secret'], client_secret: ['client_id'] } },
    blank('client_id'),
    blank('client_secret')
  ]
}

function span(description: string) {
  return optional(duration({ description, min: SECOND, max: YEAR }))
}

/** Common fields of all login actions. */
const loginFields = {
  auth_id: optional(text({ description: 'Keeps logins of several such actions apart.', min: 1 })),
  client_id: optional(template({ description: 'Id of the application at the provider.', min: 1 })),
  client_secret: optional(template({ description: 'Secret of the application at the provider.', min: 1 })),
  scopes: optional(list(text({ description: 'A scope.', min: 1 }), { description: 'Scopes to ask for.' })),
  authz_url_params: optional(
    map(text({ description: 'Value of the parameter.' }), {
      description: 'Added to the authorization URL.',
      editor: { propertyNames: { not: { enum: [...OWN_PARAMETERS] } } }
    })
  ),
  max_session_duration: span('Longest session (default: 14 days)'),
  idle_session_timeout: span('Longest time without a request'),
  userinfo_refresh_interval: span('How often the identity is fetched anew'),
  allow_cors_preflight: optional(flag({ description: 'true lets CORS preflight requests pass.', default: false })),
  auth_cookie_domain: optional(
    text({ description: 'Domain of the session cookie.', min: 1, editor: textLike(ANY_CASE_DOMAIN) })
  )
}

const sharedFields = config(loginFields)
type LoginConfig = Static<typeof sharedFields>

function loginExample(type: string, config: string) {
  return { policy: `on_http_request:\n  - actions:\n      - type: ${type}\n        config: { ${config} }\n` }
}

const OPENID =
  "issuer_url: https://accounts.example.com, client_id: sluice, client_secret: \"${secrets.get('main', 'sluice')}\""

/** Returns the values available after a login; a preflight request has no user. */
function leftByLogin(result: LoginResult, { allow_cors_preflight }: LoginConfig): readonly string[] {
  return allow_cors_preflight === true ? [] : [`actions.service.${result}`]
}

/** Settings of a login action besides the common fields. */
interface LoginSource {
  readonly result: LoginResult
  readonly provider: Provider
  /** Operator's application, for configurations without their own. */
  readonly operatorApplication: Application | undefined
  readonly idle: string | undefined
  readonly providerLogout: boolean
  readonly access: AccessLists
}

/** Compiles the gate of an action. */
function compileLogin(settings: LoginConfig, source: LoginSource, scope: Scope): ActionRun {
  checkApplication(settings.client_id, settings.client_secret, scope)
  checkParameters(settings.authz_url_params ?? {}, scope)
  const { result, provider, operatorApplication, idle, providerLogout, access } = source
  const gate = createGate(
    {
      result,
      owner: scope.owner,
      authId: settings.auth_id ?? '',
      provider,
      client: settings.client_id ?? '',
      application: applicationOf(settings, operatorApplication, scope),
      scopes: settings.scopes ?? [],
      parameters: settings.authz_url_params ?? {},
      cookiePrefix: COOKIE_PREFIX,
      cookieDomain: cookieDomain(settings.auth_cookie_domain, scope),
      inactivity: milliseconds(idle),
      maximum:
        settings.max_session_duration === undefined ? USUAL_MAXIMUM : milliseconds(settings.max_session_duration),
      lasting: settings.max_session_duration !== undefined,
      check: milliseconds(settings.userinfo_refresh_interval),
      providerLogout,
      preflight: settings.allow_cors_preflight === true ? 'cors' : 'none',
      access
    },
    scope.services
  )
  scope.login(gate)
  return (flow) => gate.run(flow)
}

/** Checks that an application has both id and secret. */
function checkApplication(clientId: string | undefined, clientSecret: string | undefined, scope: Scope): void {
  const fields = { client_id: clientId, client_secret: clientSecret }
  const blank = Object.entries(fields).find(([, text]) => text !== undefined && isBlank(text))
  if (blank !== undefined) {
    const message = `${blank[0]} is a placeholder: put that of your application at the provider in its place`
    scope.unavailable([blank[0]], message, policyErrors.PLACEHOLDER)
    return
  }
  if ((clientId === undefined) === (clientSecret === undefined)) return
  const [given, missing] = clientId === undefined ? ['client_secret', 'client_id'] : ['client_id', 'client_secret']
  scope.problem(
    [given as string],
    policyErrors.CONFIG_INVALID,
    `${given} needs ${missing}: give both, or neither for the operator's application`
  )
}

function checkParameters(parameters: Readonly<Record<string, string>>, scope: Scope): void {
  for (const name of Object.keys(parameters)) {
    if (!OWN_PARAMETERS.has(name)) continue
    scope.problem(['authz_url_params', name], policyErrors.CONFIG_INVALID, `${name} is set by the login itself`)
  }
}

function applicationOf(
  { client_id, client_secret }: LoginConfig,
  operator: Application | undefined,
  scope: Scope
): (flow: Flow) => Application | undefined {
  if (client_id === undefined || client_secret === undefined) return () => operator
  const id = scope.template(client_id, ['client_id'])
  const secret = scope.template(client_secret, ['client_secret'])
  warnOfLate('client_id', id, scope)
  warnOfLate('client_secret', secret, scope)
  const constant = isConstant(id) && isConstant(secret) ? known(id.constant, secret.constant) : undefined
  return constant === undefined ? (flow) => known(id.text(flow), secret.text(flow)) : () => constant
}

function warnOfLate(field: string, { variables }: Template, scope: Scope): void {
  const late = [...variables].find((name) => LATE.test(name))
  if (late === undefined) return
  const message = `${late} has no value where the login answers its own paths, which no rule sees; the login would fail there`
  scope.warn([field], loginProblems.LOGIN_VALUE_ABSENT, message)
}

function isConstant(template: Template): template is Template & { readonly constant: string } {
  return template.constant !== undefined
}

/** Returns the application; undefined if an expression returned an empty value. */
function known(id: string, secret: string): Application | undefined {
  return id === '' || secret === '' ? undefined : { id, secret }
}

/** Returns the cookie domain. Browsers store no cookie for an address or a name without a dot (RFC 6265 5.3). */
function cookieDomain(given: string | undefined, scope: Scope): string | undefined {
  if (given === undefined) return undefined
  const domain = given.toLowerCase().replace(/^\./, '')
  if (DOMAIN.test(domain)) return domain
  scope.problem(['auth_cookie_domain'], policyErrors.CONFIG_INVALID, `"${given}" is no domain such as example.com`)
  return undefined
}

function milliseconds(duration: string | undefined): number {
  return duration === undefined ? 0 : (parseDuration(duration) ?? 0)
}

const entries = (description: string) => optional(list(text({ description: 'An entry.', min: 1 }), { description }))

/**
 * Logs users in at a well-known OAuth provider: authorization code with state, nonce and proof key, session in sealed cookies.
 *
 * `/.sluice/login`, `/.sluice/logout` (also `/ngrok/login`, `/ngrok/logout`), `/.sluice/callback` and `/.sluice/backchannel-logout` are
 * reserved for the action on every host of its endpoint: no rule runs for them, whatever its expressions, but IP restriction modules do.
 */
export const oauth = defineAction({
  type: 'oauth',
  summary: 'Lets users pass who have logged in at an OAuth provider such as GitHub.',
  example: loginExample('oauth', "provider: github, email_domains: ['example.com']"),
  phases: ['on_http_request'],
  config: config(
    {
      provider: choice(PROVIDER_NAMES, { description: 'Identity provider.' }),
      ...loginFields,
      email_addresses: entries('Addresses that may pass.'),
      email_domains: entries('Domains of addresses that may pass.')
    },
    APPLICATION
  ),
  configOptional: false,
  terminates: 'sometimes',
  denies: true,
  leaves: (settings) => leftByLogin('oauth', settings),
  results: {
    name: 'oauth',
    fields: loginResults({
      'identity.current_provider_session_id': ['string', 'Id of the session here.']
    })
  },
  compile(settings, scope) {
    const {
      client_id,
      scopes,
      provider: name,
      email_addresses = [],
      email_domains = [],
      idle_session_timeout
    } = settings
    const login = scope.service(logins)
    const { provider, application } = login?.providers[name] ?? { provider: PROVIDERS[name], application: undefined }
    if (scopes !== undefined && client_id === undefined) {
      scope.warn(
        ['scopes'],
        policyErrors.CONFIG_UNUSED,
        'scopes need an application of your own: give client_id and client_secret'
      )
    }
    if (client_id === undefined && application === undefined && (name === 'amazon' || name === 'facebook')) {
      scope.warn(
        ['provider'],
        policyErrors.CONFIG_INCOMPLETE,
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
      providerLogout: false,
      access
    } as const
    return compileLogin(asked, source, scope)
  }
})

const URL_FORM = /^https?:\/\/./i
/** Placeholder for a document without a usable issuer. */
const NO_ISSUER = 'https://issuer.invalid'

const fields = config(
  {
    issuer_url: text({
      description: 'Issuer; its discovery document is fetched from there.',
      min: 1,
      editor: wordLike(WEB_URL)
    }),
    ...loginFields,
    assume_email_verified: optional(
      flag({
        description:
          'true takes addresses without the claim email_verified for verified: the provider gives no others.',
        default: false
      })
    ),
    provider_logout: optional(
      flag({
        description:
          'true makes a logout end the session at the provider too; register https://<host>/.sluice/logout there as a place to come back to.',
        default: false
      })
    ),
    idle_session_duration: span('Other name of idle_session_timeout')
  },
  { ...APPLICATION, not: { required: ['idle_session_duration', 'idle_session_timeout'] } }
)

const shared = {
  phases: ['on_http_request'],
  config: fields,
  configOptional: false,
  terminates: 'sometimes',
  denies: true,
  leaves: (settings: Static<typeof fields>) => leftByLogin('oidc', settings),
  results: {
    name: 'oidc',
    fields: loginResults({
      'identity.current_session_id': ['string', 'Id of the session here.'],
      identity_token: ['string', 'The ID token of the provider.']
    })
  }
} as const

/**
 * Logs users in at an OpenID Connect provider. Its discovery document and keys are fetched on first use and cached; the paths of `oauth`
 * are reserved too.
 */
export const openidConnect = defineAction({
  ...shared,
  type: 'openid-connect',
  summary: 'Lets users pass who have logged in at a provider of OpenID Connect.',
  example: loginExample('openid-connect', OPENID),
  compile
})

/** Alias of `openid-connect` in published documents. */
export const oidc = defineAction({
  ...shared,
  type: 'oidc',
  summary: 'Older name of openid-connect.',
  example: loginExample('oidc', OPENID),
  compile(settings, scope) {
    scope.warn([], policyErrors.ACTION_RENAMED, 'oidc is called openid-connect; the old name is accepted')
    return compile(settings, scope)
  }
})

function compile(settings: Static<typeof fields>, scope: Scope): ActionRun {
  const { issuer_url, idle_session_duration, idle_session_timeout } = settings
  if (idle_session_duration !== undefined && idle_session_timeout !== undefined) {
    scope.problem(
      ['idle_session_duration'],
      policyErrors.CONFIG_INVALID,
      'idle_session_duration and idle_session_timeout are one; give one of them'
    )
  }
  const source = {
    result: 'oidc',
    provider: openidProvider(readIssuer(issuer_url, scope), settings.assume_email_verified === true),
    operatorApplication: undefined,
    idle: idle_session_duration ?? idle_session_timeout,
    providerLogout: settings.provider_logout === true,
    access: {}
  } as const
  return compileLogin(settings, source, scope)
}

function readIssuer(url: string, scope: Scope): string {
  const at = ['issuer_url']
  if (isPlaceholderWord(url)) {
    scope.unavailable(
      at,
      `"${url}" is a placeholder: put an absolute http or https URL in its place`,
      policyErrors.PLACEHOLDER
    )
    return NO_ISSUER
  }
  checkUrl(url, URL_FORM, 'an absolute http or https URL', at, scope)
  if (URL.canParse(url)) return url
  if (URL_FORM.test(url))
    scope.problem(at, policyErrors.CONFIG_INVALID, `"${url}" is not an absolute http or https URL`)
  return NO_ISSUER
}
