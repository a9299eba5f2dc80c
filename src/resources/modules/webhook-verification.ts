import { createPublicKey } from 'node:crypto'
import { didYouMean } from '../../lib/suggest.js'
import { WEBHOOK_PROVIDERS } from '../../policy/actions/webhook-providers.js'
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

function provider(): Field<string> {
  const name = text({ description: 'Who sends.', bytes: 64, required: true, examples: WEBHOOK_PROVIDERS })
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

/** Senders are named in any case; sns signs with a certificate of its own, sendgrid with a key whose public half is the secret. */
function needsSecret({ body, secret: clear, report }: RuleView): void {
  const sender = (body.provider as string).toLowerCase()
  const given = body.secret === true
  if (sender === 'sns' && given) {
    report('secret', 'CONFLICTING_FIELDS', 'is not used by sns')
    return
  }
  if (sender !== 'sns' && !given) {
    report('secret', 'FIELD_REQUIRED', `is required for ${sender}`)
    return
  }
  if (sender === 'sendgrid' && !isEcdsaKey(clear('secret') ?? '')) {
    report('secret', 'FIELD_INVALID', 'must be the base64 form of an ECDSA public key')
  }
}

function isEcdsaKey(base64: string): boolean {
  try {
    const key = createPublicKey({ key: Buffer.from(base64, 'base64'), format: 'der', type: 'spki' })
    return key.asymmetricKeyType === 'ec'
  } catch {
    // OpenSSL has many ways to say that this is no key.
    return false
  }
}
