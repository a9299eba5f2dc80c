import { createHmac } from 'node:crypto'
import t from 'tap'
import type { Verdict } from '../../../src/flow/verdict.js'
import { type Delivery, inspector, say } from './inspecting.js'

const AT = Date.UTC(2026, 0, 2, 3, 4, 5)
const SECRET = 'a secret of the sender'
const NOSNIFF = ['x-content-type-options', 'nosniff']

async function answerTo(provider: string, delivery: Partial<Delivery>, secret = SECRET) {
  const whole = { method: 'GET', url: 'https://h.test/in', headers: [], body: Buffer.alloc(0), ...delivery }
  const outcome = await inspector(provider).outcome(secret, whole, AT)
  if (outcome.kind !== 'answered') return say(outcome)
  const verdict = outcome.verdict as Extract<Verdict, { kind: 'respond' }>
  return { status: verdict.status, headers: verdict.headers, body: Buffer.from(verdict.body ?? []).toString() }
}

const text = (body: string) => ({
  status: 200,
  headers: ['content-type', 'text/plain; charset=utf-8', ...NOSNIFF],
  body
})
const json = (body: unknown) => ({
  status: 200,
  headers: ['content-type', 'application/json; charset=utf-8', ...NOSNIFF],
  body: JSON.stringify(body)
})

t.test('twitter: the code of a token comes back', async (t) => {
  const code = (of: string) => `sha256=${createHmac('sha256', SECRET).update(of).digest('base64')}`
  const ask = (query: string, method = 'GET') => answerTo('twitter', { url: `https://h.test/in?${query}`, method })
  t.same(await ask('crc_token=aB3_-x%3D&nonce=1'), json({ response_token: code('aB3_-x=') }))
  t.same(await ask('crc_token=a+b/c'), json({ response_token: code('a+b/c') }))
  for (const query of ['crc_token=', 'nonce=1', 'crc_token=a&crc_token=b', `crc_token=${'a'.repeat(257)}`])
    t.equal(await ask(query), 'SIGNATURE_MISSING', query)
  t.equal(await ask('crc_token=a', 'POST'), 'SIGNATURE_MISSING')
})

t.test('twitter: nobody can have a delivery signed through the challenge', async (t) => {
  for (const body of ['{"for_user_id":"1"}', '[1]', '"a"', '{}']) {
    t.equal(
      await answerTo('twitter', { url: `https://h.test/in?crc_token=${encodeURIComponent(body)}` }),
      'SIGNATURE_MISSING'
    )
  }
  // What it does sign is no delivery.
  for (const body of ['123', 'true', 'abc']) {
    const signature = `sha256=${createHmac('sha256', SECRET).update(body).digest('base64')}`
    const headers = ['x-twitter-webhooks-signature', signature]
    t.equal(await answerTo('twitter', { method: 'POST', headers, body: Buffer.from(body) }), 'BODY_INVALID', body)
  }
})

t.test('the senders of Meta: the challenge of a subscription comes back', async (t) => {
  for (const provider of ['facebook_graph_api', 'facebook_messenger', 'instagram', 'whatsapp']) {
    const ask = (query: string, method = 'GET') => answerTo(provider, { url: `https://h.test/in?${query}`, method })
    const question = 'hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=mine'
    t.same(await ask(question), text('1158201444'), provider)
    for (const other of [
      'hub.challenge=1',
      'hub.mode=unsubscribe&hub.challenge=1',
      'hub.mode=subscribe&hub.challenge=<b>'
    ])
      t.equal(await ask(other), 'SIGNATURE_MISSING', `${provider} ${other}`)
    t.equal(await ask(question, 'POST'), 'SIGNATURE_MISSING')
  }
  t.equal(await answerTo('github', { url: 'https://h.test/?hub.mode=subscribe&hub.challenge=1' }), 'SIGNATURE_MISSING')
})

t.test('slack: the challenge of a signed verification comes back, and of no other event', async (t) => {
  const ask = (body: string, secret = SECRET) => {
    const time = String(AT / 1000)
    const code = createHmac('sha256', secret).update(`v0:${time}:${body}`).digest('hex')
    const headers = ['x-slack-signature', `v0=${code}`, 'x-slack-request-timestamp', time]
    return answerTo('slack', { method: 'POST', headers, body: Buffer.from(body) })
  }
  const question = '{"token":"x","challenge":"3eZbrw1aB","type":"url_verification"}'
  t.same(await ask(question), text('3eZbrw1aB'))
  t.equal(await ask(question, 'another'), 'SIGNATURE_INVALID')
  t.equal(await ask('{"type":"event_callback","challenge":"a","text":"url_verification"}'), 'verified')
})

t.test('mailchimp: a HEAD finds the URL there', async (t) => {
  t.match(await answerTo('mailchimp', { method: 'HEAD' }), { status: 200, body: '' })
  t.equal(await answerTo('mailchimp', {}), 'SIGNATURE_MISSING')
})

t.test('a secret with a version before it, or one of several, signs', async (t) => {
  const base64 = (key: string) => Buffer.from(key).toString('base64')
  const [one, other] = [base64('a first key'), base64('the second key')]
  const sent = (key: string) => {
    const time = String(AT / 1000)
    const code = createHmac('sha256', Buffer.from(key, 'base64')).update(`1.${time}.{}`).digest('base64')
    const headers = ['webhook-id', '1', 'webhook-timestamp', time, 'webhook-signature', `v1,${code}`]
    return { method: 'POST', headers, body: Buffer.from('{}') }
  }
  for (const secret of [
    one,
    `whsec_${one}`,
    `v1,whsec_${one}`,
    `v1,whsec_${one}|v1,whsec_${other}`,
    `whsec_${other} whsec_${one}`
  ])
    t.equal(await answerTo('svix', sent(one), secret), 'verified')
  t.equal(
    await answerTo('svix', sent(base64('an unknown one')), `v1,whsec_${one}|v1,whsec_${other}`),
    'SIGNATURE_INVALID'
  )
  for (const secret of ['v1,whsec_', `v1a,whpk_${one}`, `whsec_${one}|`])
    t.equal(await answerTo('svix', sent(one), secret), 'SECRET_UNUSABLE', secret)
})

t.test('worldline: the value of a field comes back', async (t) => {
  const field = 'X-GCS-Webhooks-Endpoint-Verification'
  t.same(await answerTo('worldline', { headers: [field, '<b>5a2f</b>'] }), text('<b>5a2f</b>'))
  t.equal(await answerTo('worldline', { headers: [field, 'a', field, 'b'] }), 'SIGNATURE_MISSING')
  t.equal(await answerTo('worldline', { headers: [field, 'a'.repeat(257)] }), 'SIGNATURE_MISSING')
  t.equal(await answerTo('worldline', { headers: [field, 'a'], method: 'POST' }), 'SIGNATURE_MISSING')
  t.equal(await answerTo('worldline', {}), 'SIGNATURE_MISSING')
})

t.test('dropbox: the value of a parameter comes back', async (t) => {
  const ask = (query: string, method = 'GET') => answerTo('dropbox', { url: `https://h.test/in?${query}`, method })
  t.same(await ask('challenge=abc%3Cscript%3E'), text('abc<script>'))
  t.equal(await ask('challenge='), 'SIGNATURE_MISSING')
  t.equal(await ask(`challenge=${'a'.repeat(257)}`), 'SIGNATURE_MISSING')
  t.equal(await ask('challenge=abc', 'POST'), 'SIGNATURE_MISSING')
})

t.test('zoom: a signed event with a token is answered by its code, an unsigned one is not', async (t) => {
  const body =
    '{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1654503849680,"event":"endpoint.url_validation"}'
  const time = String(AT / 1000)
  const fields = (of: string) => {
    const signature = createHmac('sha256', SECRET).update(`v0:${time}:${of}`).digest('hex')
    return ['x-zm-signature', `v0=${signature}`, 'x-zm-request-timestamp', time]
  }
  const ask = (of: string, headers = fields(of)) => answerTo('zoom', { method: 'POST', headers, body: Buffer.from(of) })
  const encryptedToken = createHmac('sha256', SECRET).update('qgg8vlvZRS6UYooatFL8Aw').digest('hex')
  t.same(await ask(body), json({ plainToken: 'qgg8vlvZRS6UYooatFL8Aw', encryptedToken }))
  t.equal(await ask(body, []), 'SIGNATURE_MISSING')
  t.equal(await ask(body, fields('{}')), 'SIGNATURE_INVALID')
  t.equal(await ask('{"event":"meeting.started","payload":{"topic":"endpoint.url_validation"}}'), 'verified')
  t.equal(await ask('{"event":"endpoint.url_validation"}'), 'verified')
})

t.test('xero: an intent is answered by 200 or 401, deliveries go on', async (t) => {
  const sign = (of: string) => createHmac('sha256', SECRET).update(of).digest('base64')
  const ask = (of: string, signature = sign(of)) =>
    answerTo('xero', { method: 'POST', headers: ['x-xero-signature', signature], body: Buffer.from(of) })
  const intent = '{"events":[],"firstEventSequence": 0,"lastEventSequence": 0, "entropy": "S0m3r4Nd0mt3xt"}'
  t.same(await ask(intent), { status: 200, headers: [], body: '' })
  t.equal(await ask(intent.replace('"events":[]', '"events":[{"eventType":"UPDATE"}]')), 'verified')
  const whole = {
    method: 'POST',
    url: 'https://h.test/',
    headers: ['x-xero-signature', sign('x')],
    body: Buffer.from(intent)
  }
  const wrong = await inspector('xero').outcome(SECRET, whole, AT)
  t.match(wrong, { kind: 'unverified', verdict: { status: 401, code: 'WEBHOOK_UNVERIFIED' } })
})
