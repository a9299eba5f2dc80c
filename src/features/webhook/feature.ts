import { refuse } from '../../flow/verdict.js'
import { defineErrors } from '../../lib/errors.js'
import { didYouMean } from '../../lib/suggest.js'
import { defineAction, ERROR_RESULTS, type Scope } from '../../policy/action.js'
import { config, enforce } from '../../policy/fields.js'
import { policyErrors } from '../../policy/problems.js'
import { decisionCounters } from '../../policy/services.js'
import { isPlaceholder } from '../../policy/values.js'
import { anyCase, given, textLike } from '../../schema/editor.js'
import { defineField, type Field } from '../../schema/field.js'
import * as field from '../../schema/fields.js'
import type { RuleView } from '../../schema/objects.js'
import { secret } from '../../schema/secrets.js'
import { optional, template, text } from '../../schema/values.js'
import { allowOrBlock, defineFeature, defineModule, lastResults } from '../contract.js'
import { type Provider, providers, secretProblem, UNCONFIRMED } from './providers.js'
import { webhookFailures } from './scheme.js'
import { published, Verification, webhookErrors } from './verification.js'

/** Problem codes of the action verify-webhook. */
const webhookProblems = defineErrors({
  PROVIDER_RENAMED: { text: 'The provider has another name here.', help: 'Write the name that the message gives.' }
})

/** Senders known to `verify-webhook` by name. */
const WEBHOOK_PROVIDERS: readonly string[] = [...providers.keys()]

const WITHOUT_SECRET = [...providers].flatMap(([name, provider]) => (provider.withoutSecret === true ? [name] : []))
/** Patterns of similar names: in capitals, or with a word of a known name. They cause a warning, not a rejection. */
const RESEMBLING = [...new Set(WEBHOOK_PROVIDERS.flatMap((name) => [...wordsOf(name), wordsOf(name).join('')]))]
  .map((word) => `(?:^|[^a-zA-Z0-9])${anyCase(word)}(?![a-zA-Z0-9])`)
  .join('|')

const UNKNOWN: Provider = { scheme: () => () => 'SIGNATURE_INVALID' }

/**
 * Allows webhooks with a valid signature of their sender, and responds to some senders' tests of a URL.
 *
 * The signature is verified over the body at the time of the action: an earlier change of the body makes it invalid. Timestamps may differ
 * by five minutes, unless the sender defines otherwise.
 */
const verifyWebhook = defineAction({
  type: 'verify-webhook',
  summary: 'Refuses requests that are not signed by the sender of a webhook.',
  example: {
    policy: `on_http_request:
  - expressions: ["req.url.path == '/hooks/github'"]
    actions:
      - type: verify-webhook
        config:
          provider: github
          secret: \${secrets.get('main', 'webhook')}
`,
    request: 'POST /hooks/github'
  },
  misnamed: ['webhook-validation', 'webhook-verification'],
  phases: ['on_http_request'],
  config: config(
    {
      provider: text({
        description: `Who sends the webhook. Not confirmed by public documentation: ${UNCONFIRMED}.`,
        min: 1,
        examples: [...WEBHOOK_PROVIDERS],
        editor: { anyOf: [{ enum: [...WEBHOOK_PROVIDERS] }, textLike(RESEMBLING)] }
      }),
      secret: optional(
        template({
          description: 'Secret shared with the sender, or several, one a line, while it changes; sns needs none.',
          min: 1
        })
      ),
      enforce: enforce()
    },
    { anyOf: [given('provider', WITHOUT_SECRET), { required: ['secret'] }] }
  ),
  configOptional: false,
  terminates: 'sometimes',
  denies: ({ enforce = true }) => enforce,
  results: {
    name: 'verify_webhook',
    fields: { verified: ['bool', 'Was the signature right?'], ...ERROR_RESULTS }
  },
  compile({ provider: name, secret: source, enforce = true }, scope) {
    const provider = providerCalled(name, scope) ?? UNKNOWN
    const template = source === undefined ? undefined : scope.template(source, ['secret'])
    checkSecret(name, provider, source, template?.constant, scope)
    const verification = new Verification(name.toLowerCase(), provider, scope.services, scope)
    return async (flow) => {
      const secret = provider.withoutSecret === true ? '' : (template?.text(flow) ?? '')
      const outcome = await verification.outcome(flow, secret)
      flow.publish('verify_webhook', published(outcome))
      if (outcome.kind === 'verified') return undefined
      return enforce || outcome.kind === 'unreadable' ? outcome.verdict : undefined
    }
  }
})

/** Returns a provider by name. Published documents use other names for some, such as `vmware_workspace`. */
function providerCalled(name: string, scope: Scope): Provider | undefined {
  const provider = providers.get(name.toLowerCase())
  if (provider !== undefined) return provider
  const meant = WEBHOOK_PROVIDERS.filter((known) => sameWords(known, name))
  if (meant.length > 0) {
    scope.unavailable(['provider'], `"${name}" is called ${meant.join(' or ')} here`, webhookProblems.PROVIDER_RENAMED)
    return undefined
  }
  const known = `known are ${WEBHOOK_PROVIDERS.join(', ')}`
  scope.problem(
    ['provider'],
    policyErrors.CONFIG_INVALID,
    `there is no provider "${name}"${didYouMean(name, WEBHOOK_PROVIDERS)}; ${known}`
  )
  return undefined
}

/** Checks a secret. `constant`: the secret if it has no `${…}`; messages never contain it. */
function checkSecret(
  name: string,
  provider: Provider,
  source: string | undefined,
  constant: string | undefined,
  scope: Scope
): void {
  if (provider.withoutSecret === true) {
    if (source !== undefined) scope.warn(['secret'], policyErrors.CONFIG_UNUSED, `secret is not used by ${name}`)
    return
  }
  if (source === undefined) {
    scope.problem([], policyErrors.CONFIG_INVALID, `secret is required for the provider ${name}`)
    return
  }
  const problem = constant === undefined ? undefined : secretProblem(provider, constant)
  if (problem === undefined) return
  if (isPlaceholder(source)) {
    scope.unavailable(['secret'], `secret is a placeholder; that of ${name} ${problem}`, policyErrors.PLACEHOLDER)
  } else scope.problem(['secret'], policyErrors.CONFIG_INVALID, `secret of ${name} ${problem}`)
}

/** Returns true if all words of one name are in the other, or the names differ only in separators. */
function sameWords(a: string, b: string): boolean {
  const [some, others] = [wordsOf(a), wordsOf(b)]
  if (some.join('') === others.join('')) return true
  return some.every((word) => others.includes(word)) || others.every((word) => some.includes(word))
}

function wordsOf(name: string): readonly string[] {
  return name.toLowerCase().split(/[^a-z0-9]+/)
}

const DESCRIPTION = `Who sends, in any case. Not confirmed by public documentation: ${UNCONFIRMED}.`

function provider(): Field<string> {
  const name = field.text({ description: DESCRIPTION, bytes: 64, required: true, examples: WEBHOOK_PROVIDERS })
  return defineField<string>({
    ...name,
    read(written, at, path, reading) {
      const read = name.read(written, at, path, reading)
      if (read === undefined || (WEBHOOK_PROVIDERS as readonly string[]).includes(read.toLowerCase())) return read
      const message = `must be one of ${WEBHOOK_PROVIDERS.join(', ')}${didYouMean(read, WEBHOOK_PROVIDERS)}`
      reading.report({ field: at, code: 'FIELD_INVALID', message })
      return undefined
    }
  })
}

const NO_SECRET = refuse(webhookErrors.WEBHOOK_SECRET_UNAVAILABLE)

/**
 * Allows webhooks with a valid signature of their sender, and responds to some senders' tests of a URL. Without an available secret no
 * delivery is allowed.
 */
const routeModule = defineModule({
  name: 'webhook_verification',
  description: 'Lets webhooks with the signature of their sender pass.',
  on: ['https'],
  fields: {
    provider: provider(),
    secret: secret({
      description:
        'What the sender signs with; several while it changes, one a line, the new one first. Every provider but sns needs it.',
      bytes: 4096,
      shown: 'owner'
    })
  },
  rules: [{ on: ['provider', 'secret'], check: needsSecret }],
  compile({ provider: name }, scope) {
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
})

/** Checks that a sender has a valid secret. Sender names are case-insensitive; each sender defines the form of its secrets. */
function needsSecret({ body, secret: clear, report }: RuleView): void {
  const sender = (body.provider as string).toLowerCase()
  const provider = providers.get(sender)
  const given = body.secret === true
  if (provider?.withoutSecret === true) {
    if (given) report('secret', 'CONFLICTING_FIELDS', `is not used by ${sender}`)
    return
  }
  if (!given) {
    report('secret', 'FIELD_REQUIRED', `is required for ${sender}`)
    return
  }
  const text = clear('secret')
  const problem = provider === undefined || text === undefined ? undefined : secretProblem(provider, text)
  if (problem !== undefined) report('secret', 'FIELD_INVALID', problem)
}

/** Feature: verification of webhooks. */
export const webhook = defineFeature({
  name: 'webhook',
  summary: 'Lets only webhooks pass whose signature is right.',
  actions: [verifyWebhook],
  modules: [routeModule],
  eventFields: {
    http: {
      'webhook_verification.decision': {
        type: 'string',
        description: 'allow when the signature was right, else block, by module or action; null when neither ran.',
        read: ({ flow, code }) => {
          const verified = lastResults(flow, 'verify_webhook')?.verified
          if (typeof verified === 'boolean') return allowOrBlock(verified)
          return code?.startsWith('WEBHOOK_') === true ? allowOrBlock(false) : null
        }
      }
    }
  },
  errors: [webhookErrors, webhookFailures],
  problems: [webhookProblems]
})
