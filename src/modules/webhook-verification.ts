import { refuse } from '../flow/verdict.js'
import { decisionCounters } from '../policy/services.js'
import { providers } from '../policy/webhook/providers.js'
import { published, Verification } from '../policy/webhook/verification.js'
import { defineModule } from './contract.js'

interface WebhookVerificationConfig {
  /** In any case. */
  readonly provider: string
}

const NO_SECRET = refuse(503, 'WEBHOOK_SECRET_UNAVAILABLE')

/**
 * Lets webhooks with the signature of their sender pass, and answers the questions by which some senders test a URL. While
 * the secret is not to be had nobody passes.
 */
export const webhookVerification = defineModule<WebhookVerificationConfig>(
  'webhook_verification',
  ({ provider: name }, scope) => {
    const provider = providers.get(name.toLowerCase())
    const secret = provider?.withoutSecret === true ? '' : scope.secret('secret')
    if (provider === undefined || secret === undefined) return { request: () => NO_SECRET }
    const { meter } = scope.services
    const counters = decisionCounters(meter, scope.owner, 'webhook_verification', ['verified', 'answered', 'refused'])
    const verification = new Verification(name.toLowerCase(), provider, scope.services, scope)
    return {
      async request(flow) {
        const outcome = await verification.outcome(flow, secret)
        flow.publish('verify_webhook', published(outcome))
        const { kind } = outcome
        counters[kind === 'verified' || kind === 'answered' ? kind : 'refused'].inc()
        return outcome.kind === 'verified' ? undefined : outcome.verdict
      }
    }
  }
)
