import { didYouMean } from '../../lib/suggest.js'
import { WEBHOOK_PROVIDERS } from '../../policy/actions/webhook-providers.js'
import { providers, secretProblem, UNCONFIRMED } from '../../policy/webhook/providers.js'
import { defineField, type Field } from '../field.js'
import { text } from '../fields.js'
import type { RuleView } from '../members.js'
import { module } from '../objects.js'
import { secret } from '../secrets.js'

/** Lets webhooks with the signature of their sender pass. */
export function webhookVerificationModule() {
  return module(
    'Lets webhooks with the signature of their sender pass.',
    {
      provider: provider(),
      secret: secret({
        description: 'What the sender signs with; every provider but sns needs it.',
        bytes: 4096,
        shown: 'owner'
      })
    },
    [{ on: ['provider', 'secret'], check: needsSecret }]
  )
}

const DESCRIPTION = `Who sends, in any case. Not confirmed by public documentation: ${UNCONFIRMED}.`

function provider(): Field<string> {
  const name = text({ description: DESCRIPTION, bytes: 64, required: true, examples: WEBHOOK_PROVIDERS })
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

/** Senders are named in any case; what a secret looks like is the sender's affair. */
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
