import Type from 'typebox'
import { didYouMean } from '../../lib/suggest.js'
import { defineAction, type Scope } from '../action.js'
import { anyCase, given, textLike } from '../editor.js'
import { config, enforce, template } from '../fields.js'
import type { Provider } from '../webhook/provider.js'
import { providers, secretProblem, UNCONFIRMED } from '../webhook/providers.js'
import { published, Verification } from '../webhook/verification.js'
import { isPlaceholder } from './placeholder.js'
import { WEBHOOK_PROVIDERS } from './webhook-providers.js'

const WITHOUT_SECRET = [...providers].flatMap(([name, provider]) => (provider.withoutSecret === true ? [name] : []))
/** A name in capitals, or one that has a word of a known one: that is told, not refused. */
const RESEMBLING = [...new Set(WEBHOOK_PROVIDERS.flatMap((name) => [...wordsOf(name), wordsOf(name).join('')]))]
  .map((word) => `(?:^|[^a-zA-Z0-9])${anyCase(word)}(?![a-zA-Z0-9])`)
  .join('|')

const UNKNOWN: Provider = { scheme: () => () => 'SIGNATURE_INVALID' }

/**
 * Lets webhooks with the signature of their sender pass, and answers the questions by which some senders test a URL.
 *
 * The signature is looked at over the bytes of the body as they are when the action runs: what changes the body before it
 * makes every signature wrong. Of timestamps at most five minutes either way are allowed, unless the sender says otherwise.
 */
export const verifyWebhook = defineAction({
  type: 'verify-webhook',
  phases: ['on_http_request'],
  config: config(
    {
      provider: Type.String({
        description: `Who sends the webhook. Not confirmed by public documentation: ${UNCONFIRMED}.`,
        minLength: 1,
        examples: [...WEBHOOK_PROVIDERS],
        'x-editor': { anyOf: [{ enum: [...WEBHOOK_PROVIDERS] }, textLike(RESEMBLING)] }
      }),
      secret: Type.Optional(template({ description: 'Secret shared with the sender; sns needs none.', minLength: 1 })),
      enforce: enforce()
    },
    { anyOf: [given('provider', WITHOUT_SECRET), { required: ['secret'] }] }
  ),
  configOptional: false,
  terminates: 'sometimes',
  denies: ({ enforce = true }) => enforce,
  results: {
    name: 'verify_webhook',
    fields: { verified: 'bool', 'error.code': 'string', 'error.message': 'string' }
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

/** Published documents name some providers otherwise than the list of providers does, such as `vmware_workspace`. */
function providerCalled(name: string, scope: Scope): Provider | undefined {
  const provider = providers.get(name.toLowerCase())
  if (provider !== undefined) return provider
  const meant = WEBHOOK_PROVIDERS.filter((known) => sameWords(known, name))
  if (meant.length > 0) {
    scope.unavailable(['provider'], `"${name}" is called ${meant.join(' or ')} here`, 'PROVIDER_RENAMED')
    return undefined
  }
  const known = `known are ${WEBHOOK_PROVIDERS.join(', ')}`
  scope.problem(
    ['provider'],
    'CONFIG_INVALID',
    `there is no provider "${name}"${didYouMean(name, WEBHOOK_PROVIDERS)}; ${known}`
  )
  return undefined
}

/** `constant`: the secret when it holds no `${…}`; nothing of it is repeated. */
function checkSecret(
  name: string,
  provider: Provider,
  source: string | undefined,
  constant: string | undefined,
  scope: Scope
): void {
  if (provider.withoutSecret === true) {
    if (source !== undefined) scope.warn(['secret'], 'CONFIG_UNUSED', `secret is not used by ${name}`)
    return
  }
  if (source === undefined) {
    scope.problem([], 'CONFIG_INVALID', `secret is required for the provider ${name}`)
    return
  }
  const problem = constant === undefined ? undefined : secretProblem(provider, constant)
  if (problem === undefined) return
  if (isPlaceholder(source)) {
    scope.unavailable(['secret'], `secret is a placeholder; that of ${name} ${problem}`, 'PLACEHOLDER')
  } else scope.problem(['secret'], 'CONFIG_INVALID', `secret of ${name} ${problem}`)
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
