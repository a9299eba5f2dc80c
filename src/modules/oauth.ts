import { createGate } from '../policy/login/gate.js'
import { PROVIDERS, type ProviderName } from '../policy/login/providers.js'
import { type LoginServices, USUAL_MAXIMUM } from '../policy/login/settings.js'
import { defineModule } from './contract.js'
import { loginSteps } from './login.js'

const SECOND = 1_000

interface OauthConfig {
  readonly provider: {
    readonly name: ProviderName
    readonly value: {
      /** '': the application of the operator. */
      readonly client_id: string
      readonly scopes: readonly string[]
      readonly email_addresses: readonly string[]
      readonly email_domains: readonly string[]
      readonly teams?: readonly string[]
      readonly organizations?: readonly string[]
    }
  }
  readonly options_passthrough: boolean
  readonly cookie_prefix: string
  /** Seconds, like the others; 0: no such limit. */
  readonly inactivity_timeout: number
  /** 0: the usual maximum. */
  readonly maximum_duration: number
  readonly auth_check_interval: number
}

/** Lets users pass who have logged in at an OAuth provider and stand in one of its lists, if there are any. */
export const oauthModule = defineModule<OauthConfig>('oauth', (config, scope) => {
  const { name, value } = config.provider
  const { login }: LoginServices = scope.services
  const { provider, application } = login?.providers[name] ?? { provider: PROVIDERS[name], application: undefined }
  const secret = scope.secret(`provider.${name}.client_secret`)
  const own = secret === undefined ? undefined : { id: value.client_id, secret }
  const chosen = value.client_id === '' ? application : own
  return loginSteps(
    createGate(
      {
        result: 'oauth',
        owner: scope.owner,
        authId: '',
        provider,
        client: value.client_id,
        application: () => chosen,
        scopes: value.scopes,
        parameters: {},
        cookiePrefix: config.cookie_prefix,
        cookieDomain: undefined,
        inactivity: config.inactivity_timeout * SECOND,
        maximum: config.maximum_duration === 0 ? USUAL_MAXIMUM : config.maximum_duration * SECOND,
        lasting: config.maximum_duration > 0,
        check: config.auth_check_interval * SECOND,
        preflight: config.options_passthrough ? 'options' : 'none',
        access: listsOf(value)
      },
      scope.services
    )
  )
})

function listsOf({ email_addresses, email_domains, teams = [], organizations = [] }: OauthConfig['provider']['value']) {
  return { email_addresses, email_domains, teams, organizations }
}
