import Type from 'typebox'
import { defineUnavailable } from '../action.js'
import { choice, config, enforce, template } from '../fields.js'
import { WEBHOOK_PROVIDERS } from './webhook-providers.js'

/** Lets webhooks with the signature of their sender pass. */
export const verifyWebhook = defineUnavailable({
  type: 'verify-webhook',
  phases: ['on_http_request'],
  config: config({
    provider: choice(WEBHOOK_PROVIDERS, { description: 'Who sends the webhook.' }),
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
    if (secret === undefined && provider !== 'sns') {
      scope.problem([], 'CONFIG_INVALID', `secret is required for the provider ${provider}`)
    }
  }
})
