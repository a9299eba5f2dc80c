import Type from 'typebox'
import { didYouMean } from '../../lib/suggest.js'
import { defineUnavailable, type Scope } from '../action.js'
import { config, enforce, template } from '../fields.js'
import { WEBHOOK_PROVIDERS } from './webhook-providers.js'

/** Lets webhooks with the signature of their sender pass. */
export const verifyWebhook = defineUnavailable({
  type: 'verify-webhook',
  phases: ['on_http_request'],
  config: config({
    provider: Type.String({ description: 'Who sends the webhook.', minLength: 1, examples: [...WEBHOOK_PROVIDERS] }),
    secret: Type.Optional(template({ description: 'Secret shared with the sender; sns needs none.', minLength: 1 })),
    enforce: enforce()
  }),
  configOptional: false,
  terminates: 'sometimes',
  results: {
    name: 'verify_webhook',
    fields: { verified: 'bool', 'error.code': 'string', 'error.message': 'string' }
  },
  check({ provider, secret }, scope) {
    checkProvider(provider, scope)
    if (secret === undefined && provider !== 'sns') {
      scope.problem([], 'CONFIG_INVALID', `secret is required for the provider ${provider}`)
    }
  }
})

/** Published documents name some providers otherwise than the list of providers does, such as `vmware_workspace`. */
function checkProvider(provider: string, scope: Scope): void {
  if ((WEBHOOK_PROVIDERS as readonly string[]).includes(provider)) return
  const meant = WEBHOOK_PROVIDERS.filter((known) => sameWords(known, provider))
  if (meant.length > 0) {
    scope.warn(['provider'], 'PROVIDER_RENAMED', `"${provider}" is called ${meant.join(' or ')} here`)
    return
  }
  const known = `known are ${WEBHOOK_PROVIDERS.join(', ')}`
  scope.problem(
    ['provider'],
    'CONFIG_INVALID',
    `there is no provider "${provider}"${didYouMean(provider, WEBHOOK_PROVIDERS)}; ${known}`
  )
}

/** True when the words of one name are all words of the other, or both names differ in their separators only. */
function sameWords(a: string, b: string): boolean {
  const [some, others] = [wordsOf(a), wordsOf(b)]
  if (some.join('') === others.join('')) return true
  return some.every((word) => others.includes(word)) || others.every((word) => some.includes(word))
}

function wordsOf(name: string): readonly string[] {
  return name.toLowerCase().split(/[^a-z0-9]+/)
}
