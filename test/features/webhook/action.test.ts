import { createHmac } from 'node:crypto'
import t from 'tap'
import { type Provider, providers, secretProblem } from '../../../src/features/webhook/providers.js'
import type { Flow } from '../../../src/flow/flow.js'
import { makeFlow } from '../../helpers/flow.js'
import { Kit, outcomeOf } from '../kit.js'

const SECRET = 'a secret of the sender'
const BODY = '{"action":"opened"}'

const signature = (body = BODY, secret = SECRET) => `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`

function delivery(value = signature(), body = BODY): Flow {
  const secret = (vault: string, name: string) => (vault === 'vault' && name === 'github' ? SECRET : undefined)
  const headers = ['X-Hub-Signature-256', value]
  return makeFlow({ method: 'POST', headers, body: Buffer.from(body), units: { secret } })
}

function published(kit: Kit, flow: Flow) {
  const field = (name: string) => kit.read(`actions.service.verify_webhook.${name}`, flow)
  return { verified: field('verified'), code: field('error.code'), message: field('error.message') }
}

t.test('a delivery with the signature of its sender passes with its bytes, any other is refused', async (t) => {
  const kit = new Kit()
  const run = kit.waiting([['verify-webhook', { provider: 'github', secret: SECRET }]])
  const good = delivery()
  t.equal(await run(good), undefined)
  t.same(published(kit, good), { verified: true, code: '', message: '' })
  t.equal(Buffer.from(good.request?.body as Uint8Array).toString(), BODY)
  const bad = delivery(signature(`${BODY} `))
  t.equal(outcomeOf(await run(bad)), '403 WEBHOOK_UNVERIFIED')
  t.match(published(kit, bad), { verified: false, code: 'SIGNATURE_INVALID', message: /signature/ })
  t.equal(outcomeOf(await run(makeFlow({ method: 'POST' }))), '403 WEBHOOK_UNVERIFIED')
})

t.test('a secret may come from a vault; one that is not there fails closed', async (t) => {
  const kit = new Kit()
  const from = (name: string) =>
    kit.waiting([['verify-webhook', { provider: 'github', secret: `\${secrets.get('vault', '${name}')}` }]])
  t.equal(await from('github')(delivery()), undefined)
  t.equal(outcomeOf(await from('github')(delivery(signature(BODY, 'x')))), '403 WEBHOOK_UNVERIFIED')
  t.equal(outcomeOf(await from('other')(delivery())), '500 POLICY_EXPRESSION')
  t.notMatch(JSON.stringify(kit.logged), SECRET)
})

t.test('several secrets, one a line: each of them signs while a secret changes', async (t) => {
  const kit = new Kit()
  const run = kit.waiting([['verify-webhook', { provider: 'github', secret: `the new one\n${SECRET}\r\nthird\n` }]])
  for (const secret of ['the new one', SECRET, 'third'])
    t.equal(outcomeOf(await run(delivery(signature(BODY, secret)))), 'goes on', secret)
  for (const secret of ['', 'the new one\n', `the new one\n${SECRET}`, 'fourth'])
    t.equal(outcomeOf(await run(delivery(signature(BODY, secret)))), '403 WEBHOOK_UNVERIFIED', secret)
  const from = kit.waiting([
    ['verify-webhook', { provider: 'github', secret: `new\n\${secrets.get('vault', 'github')}` }]
  ])
  t.equal(await from(delivery()), undefined)
  t.match(secretProblem(providers.get('github') as Provider, 'x\n'.repeat(9)), /at most 8 lines/)
  t.match(secretProblem(providers.get('svix') as Provider, 'whsec_YQ==\nwhsec_?'), /^must be/)
})

t.test('an empty secret, with which anybody could sign, lets nobody pass', async (t) => {
  const kit = new Kit()
  const run = kit.waiting([['verify-webhook', { provider: 'github', secret: "${req.method == 'GET' ? 'x' : ''}" }]])
  const flow = delivery(signature(BODY, ''))
  t.equal(outcomeOf(await run(flow)), '503 WEBHOOK_SECRET_UNAVAILABLE')
  t.match(published(kit, flow), { verified: false, code: 'SECRET_UNUSABLE' })
})

t.test('enforce: false finds out and lets the request and its questions go on', async (t) => {
  const kit = new Kit()
  const run = kit.waiting([['verify-webhook', { provider: 'github', secret: SECRET, enforce: false }]])
  const bad = delivery('sha256=0')
  t.equal(await run(bad), undefined)
  t.match(published(kit, bad), { verified: false, code: 'SIGNATURE_INVALID' })
  t.equal(await run(delivery()), undefined)
  const twitter = kit.waiting([['verify-webhook', { provider: 'twitter', secret: SECRET, enforce: false }]])
  const question = makeFlow({ url: 'https://h.test/?crc_token=abc' })
  t.equal(await twitter(question), undefined)
  t.match(published(kit, question), { verified: false, code: '' })
  const answering = kit.waiting([['verify-webhook', { provider: 'twitter', secret: SECRET }]])
  t.equal(outcomeOf(await answering(makeFlow({ url: 'https://h.test/?crc_token=abc' }))), '200 -')
})

t.test('a later rule sees what was found', async (t) => {
  const kit = new Kit()
  const { policy } = kit.compile({
    on_http_request: [
      { actions: [{ type: 'verify-webhook', config: { provider: 'github', secret: SECRET, enforce: false } }] },
      {
        expressions: ['!actions.service.verify_webhook.verified'],
        actions: [{ type: 'deny', config: { status_code: 418 } }]
      }
    ]
  })
  const phase = policy?.phases.on_http_request
  if (phase === null || phase === undefined) throw new Error('no rules')
  t.equal(await phase.run(delivery()), undefined)
  t.match(await phase.run(delivery('sha256=0')), { status: 418 })
})

t.test('secrets are asked for where they are needed and checked where they stand', async (t) => {
  const kit = new Kit()
  const problems = (config: object) => kit.problems('verify-webhook', config)
  t.same(problems({ provider: 'GitHub', secret: 'x' }), [], 'in any case')
  t.same(problems({ provider: 'sns' }), [])
  t.match(problems({ provider: 'sns', secret: 'x' }), [/^warning CONFIG_UNUSED .*secret/])
  t.match(problems({ provider: 'github' }), [/^error CONFIG_INVALID .*secret is required/])
  t.match(problems({ provider: 'svix', secret: 'whsec_no base64' }), [/^error CONFIG_INVALID .*config\.secret.*base64/])
  t.match(problems({ provider: 'svix', secret: '{your signing secret}' }), [/^warning PLACEHOLDER .*config\.secret/])
  t.same(problems({ provider: 'svix', secret: "${secrets.get('vault', 'svix')}" }), [])
  t.match(problems({ provider: 'vmware', secret: 'no-pair' }), [/^error CONFIG_INVALID .*config\.secret/])
  t.notMatch(problems({ provider: 'vmware', secret: 'no-pair' }).join(), 'no-pair')
  t.match(problems({ provider: 'launchdarkly', secret: 'x' }), [/^warning PROVIDER_RENAMED .*launch_darkly/])
  t.match(problems({ provider: 'nobody', secret: 'x' }), [/^error CONFIG_INVALID .*no provider/])
})
