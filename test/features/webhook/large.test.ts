import { createHmac } from 'node:crypto'
import t from 'tap'
import { leastHold, turnsOf } from '../../helpers/loop-hold.js'
import { type Delivery, inspect } from './inspecting.js'

const MIB = 1024 * 1024
const AT = Date.UTC(2026, 0, 2, 3, 4, 5)
const SECRET = 'a secret of the sender'

function delivery(type: string, text: string, ...headers: string[]): Delivery {
  return {
    method: 'POST',
    url: 'https://hooks.example.com/in',
    headers: ['Content-Type', type, ...headers],
    body: Buffer.from(text.slice(0, MIB))
  }
}

const hmac = (text: string) => createHmac('sha256', SECRET).update(text).digest('hex')
const filled = (unit: string, start = '', end = '') =>
  start + unit.repeat(Math.floor((MIB - start.length - end.length) / unit.length)) + end
const json = (text: string, ...headers: string[]) => delivery('application/json', text, ...headers)
const form = (text: string, ...headers: string[]) => delivery('application/x-www-form-urlencoded', text, ...headers)

const nested = filled('[[[[[]]]]],', '{"webhookTimestamp":0,"a":[', '1]}')
const names = `{${Array.from({ length: 80_000 }, (_, i) => `"k${i}":1`).join(',')},"z":0}`
const plivo = ['X-Plivo-Signature-V3', 'none', 'X-Plivo-Signature-V3-Nonce', '1']
const fields = Array.from({ length: 80_000 }, (_, i) => `k${i}=1`).join('&')
/** As much as one field may hold in a form that the sender may write. */
const few = Array.from({ length: 4_000 }, (_, i) => `k${i}=${'%C3%A9'.repeat(40)}`).join('&')

t.test('a long body holds up other requests for a few milliseconds at a time', async (t) => {
  const cases: readonly (readonly [provider: string, delivery: Delivery, outcome: string])[] = [
    ['linear', json(nested, 'Linear-Signature', hmac(nested)), 'TIMESTAMP_STALE'],
    ['linear', json(names, 'Linear-Signature', hmac(names)), 'TIMESTAMP_INVALID'],
    ['mailgun', json(nested), 'SIGNATURE_MISSING'],
    ['mailgun', json(names), 'SIGNATURE_MISSING'],
    ['sns', json(nested), 'SIGNATURE_MISSING'],
    ['mailgun', form(filled('a=b&')), 'SIGNATURE_MISSING'],
    ['plivo', form(fields, ...plivo), 'BODY_INVALID'],
    ['plivo', form(few, ...plivo), 'SIGNATURE_INVALID'],
    ['twilio', form(fields, 'X-Twilio-Signature', 'none'), 'BODY_INVALID'],
    ['mailchimp', form(few, 'X-Mandrill-Signature', 'none'), 'SIGNATURE_INVALID']
  ]
  for (const [provider, sent, outcome] of cases) {
    const { value, turns, longest, took } = await leastHold(() => inspect(provider, SECRET, sent, AT))
    const what = `${provider} with ${sent.headers[1]} of ${sent.body.length}`
    t.equal(value, outcome, what)
    // At once they would take between 60 and 1000 ms.
    t.ok(longest < 40, `${what}: the loop was held for ${longest.toFixed(1)} ms`)
    t.ok(turns >= turnsOf({ took }), `${what}: ${turns} turns in ${took.toFixed(1)} ms`)
  }
})

t.test('a long body is verified as a short one', async (t) => {
  const text = `{"webhookTimestamp":${AT},"text":"${'é😀"\\n'.replace('"', '\\"').repeat(60_000)}"}`
  const sent = json(text, 'Linear-Signature', hmac(Buffer.from(text).toString()))
  t.equal(await inspect('linear', SECRET, { ...sent, body: Buffer.from(text) }, AT), 'verified')
  const time = String(Math.floor(AT / 1000))
  for (const length of [65_535, 65_536, 65_537, 200_000]) {
    const body = `{"a":"${'x'.repeat(length)}😀${'é'.repeat(length)}"}`
    const signed = createHmac('sha256', SECRET)
      .update(JSON.stringify({ Body: body, EnvironmentName: 'e', TimeStamp: AT }))
      .digest('base64')
    const hygraph = json('', 'Gcms-Signature', `sign=${signed}, env=e, t=${AT}`)
    t.equal(await inspect('graphcms', SECRET, { ...hygraph, body: Buffer.from(body) }, AT), 'verified', `${length}`)
    const code = createHmac('sha256', SECRET).update(`${time}.${body}`).digest('hex')
    const stripe = json('', 'Stripe-Signature', `t=${time},v1=${code}`)
    t.equal(await inspect('stripe', SECRET, { ...stripe, body: Buffer.from(body) }, AT), 'verified', `${length}`)
  }
})
