import { boolean, text, texts, UINT32, whole } from '../fields.js'
import type { RuleView } from '../members.js'
import { module } from '../objects.js'
import { secret } from '../secrets.js'
import { LOGIN_PATHS } from './login-paths.js'

/** Lets users pass who have logged in at an OpenID Connect provider. */
export function oidcFields() {
  const seconds = (description: string) =>
    whole({ description: `${description} (seconds; 0: no such limit)`, min: 0, max: UINT32, default: 0 })
  return module(`Lets users pass who have logged in at an OpenID Connect provider. ${LOGIN_PATHS}`, {
    issuer: text({
      description: 'The provider; its discovery document is fetched from there when it is first needed.',
      bytes: 2048,
      form: 'url',
      required: true
    }),
    client_id: text({ description: 'Id of the application at the provider.', bytes: 1024, required: true }),
    client_secret: secret({ description: 'Its secret.', bytes: 4096, shown: 'owner', required: true }),
    scopes: texts({ description: 'Scopes to ask for besides openid.', max: 100, distinct: true }),
    assume_email_verified: boolean({
      description: 'true takes addresses without the claim email_verified for verified: the provider gives no others.',
      default: false
    }),
    options_passthrough: boolean({ description: 'true lets OPTIONS requests pass, as CORS needs.', default: false }),
    cookie_prefix: text({
      description: 'Prefix of the names of cookies; empty: none.',
      bytes: 128,
      form: 'cookie_prefix'
    }),
    inactivity_timeout: seconds('Time without a request after which a session ends'),
    maximum_duration: whole({ description: 'Longest session (seconds; 0: 14 days).', min: 0, max: UINT32, default: 0 })
  })
}

/** Two logins on one route would ask every visitor twice. */
export function oneLogin({ body, given, report }: RuleView): void {
  const [oauth, oidc] = [body.oauth, body.oidc] as ({ readonly enabled: boolean } | null)[]
  if (oauth?.enabled !== true || oidc?.enabled !== true) return
  report(given.has('oidc') ? 'oidc' : 'oauth', 'CONFLICTING_FIELDS', 'only one of oauth and oidc can be enabled')
}
