import { createHmac } from 'node:crypto'
import { providers } from '../src/features/webhook/providers.js'
import type { SenderKeys, WebhookRequest } from '../src/features/webhook/scheme.js'
import { HeaderFields } from '../src/flow/headers.js'
import { type MicroResult, timed } from './timing.js'

const SECRET = 'a secret of the sender'
const BODY = Buffer.alloc(10_240, '{"event":"push","ref":"refs/heads/main"}')
const NOW = 1_767_225_600_000
const TIME = String(NOW / 1000)

const hex = (text: string) => createHmac('sha256', SECRET).update(text).update(BODY).digest('hex')

const keys: SenderKeys = { certificate: () => Promise.resolve('CERTIFICATE_REFUSED') }

function verifying(provider: string, headers: readonly string[]): MicroResult {
  const verify = providers.get(provider)?.scheme(SECRET)
  if (verify === undefined || typeof verify === 'string') throw new Error(`${provider}: ${verify}`)
  const request: WebhookRequest = {
    method: 'POST',
    target: '/in',
    urls: () => ['https://hooks.example.com/in'],
    headers: new HeaderFields(headers),
    body: BODY,
    now: NOW
  }
  let accepted = 0
  const calls = 5_000
  const nanoseconds = timed(calls, () => {
    const found = verify(request, keys)
    if (typeof found === 'object') accepted++
  })
  if (accepted !== calls * 5 + calls / 5) throw new Error(`${provider}: ${accepted} accepted`)
  return { name: `webhook: ${provider}, a body of 10 KiB`, nanoseconds }
}

/** Verification of a body of 10 KiB, without reading it. */
export function webhookMicro(): MicroResult[] {
  return [
    verifying('github', ['x-hub-signature-256', `sha256=${hex('')}`]),
    verifying('stripe', ['stripe-signature', `t=${TIME},v1=${hex(`${TIME}.`)}`]),
    verifying('slack', ['x-slack-signature', `v0=${hex(`v0:${TIME}:`)}`, 'x-slack-request-timestamp', TIME])
  ]
}
