import Type, { type Static } from 'typebox'
import { type ActionRun, defineAction, type Scope } from '../action.js'
import { WEB_URL, wordLike } from '../editor.js'
import { config, flag, text } from '../fields.js'
import { openidProvider } from '../login/providers.js'
import { checkUrl } from './absolute-url.js'
import { APPLICATION, compileLogin, leftByLogin, loginFields, loginResults, span } from './identity-provider.js'
import { isPlaceholderWord } from './placeholder.js'

const URL_FORM = /^https?:\/\/./i
/** Stands where a document names no issuer that could be asked. */
const NO_ISSUER = 'https://issuer.invalid'

const fields = config(
  {
    issuer_url: text({
      description: 'Issuer; its discovery document is fetched from there.',
      minLength: 1,
      editor: wordLike(WEB_URL)
    }),
    ...loginFields,
    assume_email_verified: Type.Optional(
      flag({
        description:
          'true takes addresses without the claim email_verified for verified: the provider gives no others.',
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
  results: { name: 'oidc', fields: loginResults({ 'identity.current_session_id': 'string', identity_token: 'string' }) }
} as const

/**
 * Logs users in at an OpenID Connect provider. Its discovery document and its keys are fetched when first needed and kept; the
 * paths of `oauth` belong to the action too.
 */
export const openidConnect = defineAction({ ...shared, type: 'openid-connect', compile })

/** Another name of `openid-connect` that published documents use. */
export const oidc = defineAction({
  ...shared,
  type: 'oidc',
  compile(settings, scope) {
    scope.warn([], 'ACTION_RENAMED', 'oidc is called openid-connect; the old name is accepted')
    return compile(settings, scope)
  }
})

function compile(settings: Static<typeof fields>, scope: Scope): ActionRun {
  const { issuer_url, idle_session_duration, idle_session_timeout } = settings
  if (idle_session_duration !== undefined && idle_session_timeout !== undefined) {
    scope.problem(
      ['idle_session_duration'],
      'CONFIG_INVALID',
      'idle_session_duration and idle_session_timeout are one; give one of them'
    )
  }
  const source = {
    result: 'oidc',
    provider: openidProvider(readIssuer(issuer_url, scope), settings.assume_email_verified === true),
    operatorApplication: undefined,
    idle: idle_session_duration ?? idle_session_timeout,
    access: {}
  } as const
  return compileLogin(settings, source, scope)
}

function readIssuer(url: string, scope: Scope): string {
  const at = ['issuer_url']
  if (isPlaceholderWord(url)) {
    scope.unavailable(at, `"${url}" is a placeholder: put an absolute http or https URL in its place`, 'PLACEHOLDER')
    return NO_ISSUER
  }
  checkUrl(url, URL_FORM, 'an absolute http or https URL', at, scope)
  if (URL.canParse(url)) return url
  if (URL_FORM.test(url)) scope.problem(at, 'CONFIG_INVALID', `"${url}" is not an absolute http or https URL`)
  return NO_ISSUER
}
