import { createGate } from '../policy/login/gate.js'
import { openidProvider } from '../policy/login/providers.js'
import { USUAL_MAXIMUM } from '../policy/login/settings.js'
import { defineModule } from './contract.js'
import { loginSteps } from './login.js'

const SECOND = 1_000

interface OidcConfig {
  readonly issuer: string
  readonly client_id: string
  readonly scopes: readonly string[]
  /** Absent in modules that were written before there was the field. */
  readonly assume_email_verified?: boolean
  readonly options_passthrough: boolean
  readonly cookie_prefix: string
  /** Seconds, like the other; 0: no such limit. */
  readonly inactivity_timeout: number
  /** 0: the usual maximum. */
  readonly maximum_duration: number
}

/** Lets users pass who have logged in at an OpenID Connect provider. */
export const oidcModule = defineModule<OidcConfig>('oidc', (config, scope) => {
  const secret = scope.secret('client_secret')
  const application = secret === undefined ? undefined : { id: config.client_id, secret }
  return loginSteps(
    createGate(
      {
        result: 'oidc',
        owner: scope.owner,
        authId: '',
        provider: openidProvider(config.issuer, config.assume_email_verified === true),
        client: config.client_id,
        application: () => application,
        scopes: config.scopes,
        parameters: {},
        cookiePrefix: config.cookie_prefix,
        cookieDomain: undefined,
        inactivity: config.inactivity_timeout * SECOND,
        maximum: config.maximum_duration === 0 ? USUAL_MAXIMUM : config.maximum_duration * SECOND,
        lasting: config.maximum_duration > 0,
        check: 0,
        preflight: config.options_passthrough ? 'options' : 'none',
        access: {}
      },
      scope.services
    )
  )
})
