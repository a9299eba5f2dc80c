import { createHash, createHmac, createSign, generateKeyPairSync } from 'node:crypto'
import type { Delivery } from './inspecting.js'

/** How a sender signs, written from its documentation and without a line of the product. */
export interface Sender {
  readonly provider: string
  readonly secret: string
  /** What of the body is signed: every byte, the decoded fields of a form, or nothing of it. */
  readonly covers: 'bytes' | 'fields' | 'nothing'
  /** Seconds either way that the timestamp may be off; undefined: there is none. */
  readonly tolerance?: number
  /** Fields of which every byte counts. */
  readonly fields: readonly string[]
  sign(at: number): Delivery
}

const URL = 'https://hooks.example.com/in/box?room=7'
const JSON_BODY = '{"event":"created","id":"evt_1","amount":12}'
const FORM_BODY = 'CallSid=CA123456&Digits=1234&To=18005551212'
const SECRET = 'a secret of the sender'
const PLAIN_KEY = Buffer.from('0123456789abcdef0123456789abcdef')

type Algorithm = 'sha1' | 'sha256' | 'sha512'
type Encoding = 'hex' | 'base64'

const code = (algorithm: Algorithm, encoding: Encoding, text: string, key: string | Buffer = SECRET) =>
  createHmac(algorithm, key).update(text).digest(encoding)
const hex = (text: string) => code('sha256', 'hex', text)
const b64 = (text: string) => code('sha256', 'base64', text)

function delivery(headers: Readonly<Record<string, string>>, body = JSON_BODY, url = URL): Delivery {
  const type = body === FORM_BODY ? 'application/x-www-form-urlencoded' : 'application/json'
  const list = Object.entries({ 'Content-Type': type, ...headers }).flat()
  return { method: 'POST', url, headers: list, body: Buffer.from(body) }
}

/** One field with a code of the body. */
function plain(provider: string, field: string, value: string, secret = SECRET): Sender {
  return { provider, secret, covers: 'bytes', fields: [field], sign: () => delivery({ [field]: value }) }
}

/** Fields made from a timestamp in seconds, or as `write` has it. */
function timed(
  provider: string,
  headers: (time: string) => Readonly<Record<string, string>>,
  {
    tolerance = 300,
    write = (at: number) => String(Math.floor(at / 1000)),
    secret = SECRET
  }: { tolerance?: number; write?: (at: number) => string; secret?: string } = {}
): Sender {
  const fields = Object.keys(headers('0'))
  return { provider, secret, covers: 'bytes', tolerance, fields, sign: (at) => delivery(headers(write(at))) }
}

const iso = (at: number) => new Date(at).toISOString()
const isoSeconds = (at: number) => iso(at).replace(/\.\d+Z$/, 'Z')

const paired = (provider: string, field: string, t = 't', s = 'v1') =>
  timed(provider, (time) => ({ [field]: `${t}=${time},${s}=${hex(`${time}.${JSON_BODY}`)}` }))

const colon = (provider: string, version: string, signature: string, timestamp: string, write = undefined as never) =>
  timed(
    provider,
    (time) => ({ [signature]: `${version}=${hex(`${version}:${time}:${JSON_BODY}`)}`, [timestamp]: time }),
    write === undefined ? {} : { write }
  )

const message = (provider: string, prefix: string, id = 'msg_1') =>
  timed(
    provider,
    (time) => ({
      [`${prefix}id`]: id,
      [`${prefix}timestamp`]: time,
      [`${prefix}signature`]: `v1,${code('sha256', 'base64', `${id}.${time}.${JSON_BODY}`, PLAIN_KEY)}`
    }),
    { secret: `whsec_${PLAIN_KEY.toString('base64')}` }
  )

const bodySha256 = createHash('sha256').update(JSON_BODY).digest('hex')
const twilioJsonUrl = `${URL}&bodySHA256=${bodySha256}`
const sortedForm = 'CallSidCA123456Digits1234To18005551212'
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })

/** Every sender but sns, whose key is not shared; some twice, for another form of theirs. */
export const senders: readonly Sender[] = [
  plain('aftership', 'aftership-hmac-sha256', b64(JSON_BODY)),
  timed('airship', (time) => ({ 'X-UA-SIGNATURE': hex(`${time}:${JSON_BODY}`), 'X-UA-TIMESTAMP': time })),
  plain('alchemy', 'X-Alchemy-Signature', hex(JSON_BODY)),
  plain('autodesk', 'x-adsk-signature', `sha1hash=${code('sha1', 'hex', JSON_BODY)}`),
  plain('bitbucket', 'X-Hub-Signature', `sha256=${hex(JSON_BODY)}`),
  plain('bolt', 'X-Bolt-Hmac-Sha256', b64(JSON_BODY)),
  timed('box', (time) => ({ 'BOX-SIGNATURE-PRIMARY': b64(JSON_BODY + time), 'BOX-DELIVERY-TIMESTAMP': time }), {
    tolerance: 600,
    write: (at) => iso(at).replace('Z', '+00:00')
  }),
  message('brex', 'Webhook-'),
  paired('buildkite', 'X-Buildkite-Signature', 'timestamp', 'signature'),
  paired('calendly', 'Calendly-Webhook-Signature'),
  plain('castle', 'X-Castle-Signature', b64(JSON_BODY)),
  plain('chargify', 'X-Chargify-Webhook-Signature-Hmac-Sha-256', hex(JSON_BODY)),
  plain('circleci', 'circleci-signature', `v1=${hex(JSON_BODY)}`),
  plain('clearbit', 'X-Request-Signature', `sha1=${code('sha1', 'hex', JSON_BODY)}`),
  message('clerk', 'svix-'),
  plain('coinbase', 'X-CC-Webhook-Signature', hex(JSON_BODY)),
  timed(
    'contentful',
    (time) => {
      const signed = 'x-contentful-signed-headers,x-contentful-timestamp'
      const path = '/in/box?room%253D7'
      const fields = `x-contentful-signed-headers:${signed};x-contentful-timestamp:${time}`
      const text = `POST\n${path}\n${fields}\n${JSON_BODY}`
      return {
        'X-Contentful-Signature': hex(text),
        'X-Contentful-Signed-Headers': signed,
        'X-Contentful-Timestamp': time
      }
    },
    { tolerance: 30, write: String }
  ),
  plain('docusign', 'X-DocuSign-Signature-1', b64(JSON_BODY)),
  plain('dropbox', 'X-Dropbox-Signature', hex(JSON_BODY)),
  plain('facebook_graph_api', 'X-Hub-Signature-256', `sha256=${hex(JSON_BODY)}`),
  plain('facebook_messenger', 'X-Hub-Signature-256', `sha256=${hex(JSON_BODY)}`),
  colon('frameio', 'v0', 'X-Frameio-Signature', 'X-Frameio-Request-Timestamp'),
  plain('github', 'X-Hub-Signature-256', `sha256=${hex(JSON_BODY)}`),
  { ...plain('gitlab', 'X-Gitlab-Token', SECRET), covers: 'nothing' },
  paired('go1', 'Go1-Signature'),
  timed(
    'graphcms',
    (time) => {
      const text = JSON.stringify({ Body: JSON_BODY, EnvironmentName: 'master', TimeStamp: Number(time) })
      return { 'gcms-signature': `sign=${b64(text)}, env=master, t=${time}` }
    },
    { write: String }
  ),
  plain('heroku', 'Heroku-Webhook-Hmac-SHA256', b64(JSON_BODY)),
  paired('hostedhooks', 'HostedHooks-Signature', 't', 's'),
  timed(
    'hubspot',
    (time) => ({
      'X-HubSpot-Signature-v3': b64(`POST${URL}${JSON_BODY}${time}`),
      'X-HubSpot-Request-Timestamp': time
    }),
    { write: String }
  ),
  {
    provider: 'hubspot',
    secret: SECRET,
    covers: 'bytes',
    fields: ['X-HubSpot-Signature', 'X-HubSpot-Signature-Version'],
    sign: () =>
      delivery({
        'X-HubSpot-Signature': createHash('sha256').update(`${SECRET}POST${URL}${JSON_BODY}`).digest('hex'),
        'X-HubSpot-Signature-Version': 'v2'
      })
  },
  plain('instagram', 'X-Hub-Signature-256', `sha256=${hex(JSON_BODY)}`),
  plain('intercom', 'X-Hub-Signature', `sha1=${code('sha1', 'hex', JSON_BODY)}`),
  plain('jira', 'X-Hub-Signature', `sha256=${hex(JSON_BODY)}`),
  plain('launch_darkly', 'X-LD-Signature', hex(JSON_BODY)),
  {
    provider: 'linear',
    secret: SECRET,
    covers: 'bytes',
    tolerance: 60,
    fields: ['Linear-Signature'],
    sign(at) {
      const body = `{"action":"create","webhookTimestamp":${at}}`
      return delivery({ 'Linear-Signature': hex(body) }, body)
    }
  },
  {
    provider: 'mailchimp',
    secret: SECRET,
    covers: 'fields',
    fields: ['X-Mandrill-Signature'],
    sign: () => delivery({ 'X-Mandrill-Signature': code('sha1', 'base64', URL + sortedForm) }, FORM_BODY)
  },
  {
    provider: 'mailgun',
    secret: SECRET,
    covers: 'nothing',
    tolerance: 300,
    fields: [],
    sign(at) {
      const timestamp = String(Math.floor(at / 1000))
      const signature = {
        timestamp,
        token: 'e0b5477167110d68991efc6b',
        signature: hex(`${timestamp}e0b5477167110d68991efc6b`)
      }
      return delivery({}, JSON.stringify({ signature, 'event-data': { event: 'opened' } }))
    }
  },
  plain(
    'microsoft_teams',
    'Authorization',
    `HMAC ${code('sha256', 'base64', JSON_BODY, PLAIN_KEY)}`,
    PLAIN_KEY.toString('base64')
  ),
  plain('modern_treasury', 'X-Signature', hex(JSON_BODY)),
  plain('mongodb', 'X-MMS-Signature', code('sha1', 'base64', JSON_BODY)),
  paired('mux', 'Mux-Signature'),
  colon('orb', 'v1', 'X-Orb-Signature', 'X-Orb-Timestamp', ((at: number) => iso(at).replace('Z', '')) as never),
  plain('orbit', 'X-Orbit-Signature', `sha256=${hex(JSON_BODY)}`),
  plain('pagerduty', 'X-PagerDuty-Signature', `v1=${hex(JSON_BODY)}`),
  colon('pinwheel', 'v2', 'X-Pinwheel-Signature', 'X-Timestamp'),
  {
    provider: 'plivo',
    secret: SECRET,
    covers: 'fields',
    fields: ['X-Plivo-Signature-V3', 'X-Plivo-Signature-V3-Nonce'],
    sign: () =>
      delivery(
        { 'X-Plivo-Signature-V3': b64(`${URL}.${sortedForm}.4711`), 'X-Plivo-Signature-V3-Nonce': '4711' },
        FORM_BODY
      )
  },
  plain('pusher', 'X-Pusher-Signature', hex(JSON_BODY)),
  timed(
    'sendgrid',
    (time) => ({
      'X-Twilio-Email-Event-Webhook-Signature': createSign('sha256')
        .update(time + JSON_BODY)
        .sign(ec.privateKey, 'base64'),
      'X-Twilio-Email-Event-Webhook-Timestamp': time
    }),
    { secret: ec.publicKey.export({ format: 'der', type: 'spki' }).toString('base64') }
  ),
  plain('sentry', 'Sentry-Hook-Signature', hex(JSON_BODY)),
  plain('shopify', 'X-Shopify-Hmac-Sha256', b64(JSON_BODY)),
  plain('signal_sciences', 'X-SigSci-Signature', hex(JSON_BODY)),
  colon('slack', 'v0', 'X-Slack-Signature', 'X-Slack-Request-Timestamp'),
  plain('sonatype', 'X-Nexus-Webhook-Signature', code('sha1', 'hex', JSON_BODY)),
  plain('square', 'x-square-hmacsha256-signature', b64(URL + JSON_BODY)),
  paired('stripe', 'Stripe-Signature'),
  message('svix', 'svix-'),
  message('svix', 'webhook-', 'msg_2'),
  plain('terraform', 'X-TFE-Notification-Signature', code('sha512', 'hex', JSON_BODY)),
  paired('tiktok', 'TikTok-Signature', 't', 's'),
  plain('trendmicro_conformity', 'X-Conformity-Signature', hex(JSON_BODY)),
  {
    provider: 'twilio',
    secret: SECRET,
    covers: 'fields',
    fields: ['X-Twilio-Signature'],
    sign: () => delivery({ 'X-Twilio-Signature': code('sha1', 'base64', URL + sortedForm) }, FORM_BODY)
  },
  {
    provider: 'twilio',
    secret: SECRET,
    covers: 'bytes',
    fields: ['X-Twilio-Signature'],
    sign: () => delivery({ 'X-Twilio-Signature': code('sha1', 'base64', twilioJsonUrl) }, JSON_BODY, twilioJsonUrl)
  },
  plain('twitter', 'x-twitter-webhooks-signature', `sha256=${b64(JSON_BODY)}`),
  plain('typeform', 'Typeform-Signature', `sha256=${b64(JSON_BODY)}`),
  {
    ...plain('vmware', 'Authorization', `Basic ${Buffer.from('hook:pass:word').toString('base64')}`, 'hook::pass:word'),
    covers: 'nothing'
  },
  plain('webex', 'X-Spark-Signature', code('sha1', 'hex', JSON_BODY)),
  plain('whatsapp', 'X-Hub-Signature-256', `sha256=${hex(JSON_BODY)}`),
  plain('worldline', 'X-GCS-Signature', b64(JSON_BODY)),
  plain('xero', 'x-xero-signature', b64(JSON_BODY)),
  timed(
    'zendesk',
    (time) => ({
      'X-Zendesk-Webhook-Signature': b64(time + JSON_BODY),
      'X-Zendesk-Webhook-Signature-Timestamp': time
    }),
    { write: isoSeconds }
  ),
  colon('zoom', 'v0', 'x-zm-signature', 'x-zm-request-timestamp')
]
