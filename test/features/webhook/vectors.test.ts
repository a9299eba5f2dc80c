import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { type Delivery, inspect } from './inspecting.js'

interface Vector {
  /** Who has published it. */
  readonly source: string
  readonly provider: string
  readonly secret: string
  readonly at: number
  readonly method?: string
  readonly url?: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const SECOND = 1000
const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' }
/** RFC 2202 (SHA-1) and RFC 4231 (SHA-256, SHA-512), test case 2 each. */
const JEFE = { secret: 'Jefe', body: 'what do ya want for nothing?', at: 0 }
const JEFE_SHA1 = 'effcdf6ae5eb2fa2d27416d5f184df9c259a7c79'
const JEFE_SHA256 = '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843'
const JEFE_SHA512 =
  '164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737'
const base64 = (digits: string) => Buffer.from(digits, 'hex').toString('base64')

const rfc = (provider: string, header: string, value: string): Vector => ({
  source: 'RFC 2202 and RFC 4231',
  provider,
  ...JEFE,
  headers: { [header]: value }
})

const TWILIO_URL = 'https://mycompany.com/myapp.php?foo=1&bar=2'
const BOX = {
  source: 'tests of the Box SDK for Python',
  provider: 'box',
  at: Date.parse('2020-01-01T00:00:00-07:00'),
  body: '{"type":"webhook_event","webhook":{"id":"1234567890"},"trigger":"FILE.UPLOADED","source":{"id":"1234567890","type":"file","name":"Test.txt"}}',
  headers: {
    'Box-Delivery-Timestamp': '2020-01-01T00:00:00-07:00',
    'Box-Signature-Algorithm': 'HmacSHA256',
    'Box-Signature-Primary': '6TfeAW3A1PASkgboxxA5yqHNKOwFyMWuEXny/FPD5hI=',
    'Box-Signature-Secondary': 'v+1CD1Jdo3muIcbpv5lxxgPglOqMfsNHPV899xWYydo=',
    'Box-Signature-Version': '1'
  }
}
const CONTENTFUL = {
  source: 'requests signed by the toolkit of Contentful, published with the Prismatic connector',
  provider: 'contentful',
  secret: `${'a'.repeat(32)}${'b'.repeat(32)}`,
  at: 1_767_225_600_000,
  body: '{"sys":{"id":"5KsDBWseXY6QegucYAoacS","type":"Entry"},"fields":{"title":{"en-US":"Hello, World!"}}}'
}
const HUBSPOT_SECRET = 'yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy'

const vectors: readonly Vector[] = [
  {
    source: 'GitHub, validating webhook deliveries',
    provider: 'github',
    secret: "It's a Secret to Everybody",
    at: 0,
    headers: { 'X-Hub-Signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17' },
    body: 'Hello, World!'
  },
  {
    source: 'Slack, verifying requests',
    provider: 'slack',
    secret: '8f742231b10e8888abcd99yyyzzz85a5',
    at: 1_531_420_618 * SECOND,
    headers: {
      ...FORM,
      'X-Slack-Request-Timestamp': '1531420618',
      'X-Slack-Signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503'
    },
    body: 'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c'
  },
  {
    source: 'tests of the SDKs of Mux',
    provider: 'mux',
    secret: 'SuperSecret123',
    at: 1_565_125_718 * SECOND,
    headers: {
      'Mux-Signature': 't=1565125718,v1=854ece4c22acef7c66b57d4e504153bc512595e8e9c772ece2a68150548c19a7'
    },
    body: '{"test":"body"}'
  },
  { ...BOX, secret: 'SamplePrimaryKey' },
  { ...BOX, secret: 'SampleSecondaryKey' },
  {
    source: 'Svix, verifying payloads manually',
    provider: 'svix',
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    at: 1_614_265_330 * SECOND,
    headers: {
      'svix-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'svix-timestamp': '1614265330',
      'svix-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    },
    body: '{"test": 2432232314}'
  },
  {
    source: 'tests of the Twilio library for Node',
    provider: 'twilio',
    secret: '12345',
    at: 0,
    url: TWILIO_URL,
    headers: { ...FORM, 'X-Twilio-Signature': 'RSOYDt4T1cUTdK1PDd93/VVr8B8=' },
    body: 'Digits=1234&CallSid=CA1234567890ABCDE&To=%2B18005551212&Caller=%2B14158675309&From=%2B14158675309'
  },
  {
    source: 'tests of the Twilio library for Node',
    provider: 'twilio',
    secret: '12345',
    at: 0,
    url: `${TWILIO_URL}&bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620`,
    headers: { 'Content-Type': 'application/json', 'X-Twilio-Signature': 'a9nBmqA0ju/hNViExpshrM61xv4=' },
    body: '{"property": "value", "boolean": true}'
  },
  {
    source: 'Square, validating webhook events',
    provider: 'square',
    secret: 'asdf1234',
    at: 0,
    url: 'https://example.com/webhook',
    headers: { 'x-square-hmacsha256-signature': '2kRE5qRU2tR+tBGlDwMEw2avJ7QM4ikPYD/PJ3bd9Og=' },
    body: '{"hello":"world"}'
  },
  {
    source: 'HubSpot, version 1 of request validation',
    provider: 'hubspot',
    secret: HUBSPOT_SECRET,
    at: 0,
    headers: {
      'X-HubSpot-Signature-Version': 'v1',
      'X-HubSpot-Signature': '232db2615f3d666fe21a8ec971ac7b5402d33b9a925784df3ca654d05f4817de'
    },
    body: '[{"eventId":1,"subscriptionId":12345,"portalId":62515,"occurredAt":1564113600000,"subscriptionType":"contact.creation","attemptNumber":0,"objectId":123,"changeSource":"CRM","changeFlag":"NEW","appId":54321}]'
  },
  {
    source: 'HubSpot, version 2 of request validation',
    provider: 'hubspot',
    secret: HUBSPOT_SECRET,
    at: 0,
    method: 'GET',
    url: 'https://www.example.com/webhook_uri',
    headers: {
      'X-HubSpot-Signature-Version': 'v2',
      'X-HubSpot-Signature': 'eee2dddcc73c94d699f5e395f4b9d454a069a6855fbfa152e91e88823087200e'
    },
    body: ''
  },
  {
    source: 'tests of the SendGrid library for Node',
    provider: 'sendgrid',
    secret:
      'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEDr2LjtURuePQzplybdC+u4CwrqDqBaWjcMMsTbhdbcwHBcepxo7yAQGhHPTnlvFYPAZFceEu/1FwCM/QmGUhA==',
    at: 1_588_788_367 * SECOND,
    headers: {
      'X-Twilio-Email-Event-Webhook-Signature':
        'MEUCIQCtIHJeH93Y+qpYeWrySphQgpNGNr/U+UyUlBkU6n7RAwIgJTz2C+8a8xonZGi6BpSzoQsbVRamr2nlxFDWYNH2j/0=',
      'X-Twilio-Email-Event-Webhook-Timestamp': '1588788367'
    },
    body: '{"category":"example_payload","event":"test_event","message_id":"message_id"}'
  },
  {
    source: 'tests of the Orb library for Kotlin',
    provider: 'orb',
    secret: 'c-UGKYdnhHh436B_sMouYAPUvXyWpzOdunZBV5dFSD8',
    at: Date.UTC(2024, 2, 27, 15, 42, 29),
    headers: {
      'X-Orb-Timestamp': '2024-03-27T15:42:29.551',
      'X-Orb-Signature': 'v1=9d25de966891ab0bc18754faf8d83d0980b44ae330fcc130b41a6cf3daf1f391'
    },
    body: '{"id": "o4mmewpfNNTnjfZc", "created_at": "2024-03-27T15:42:29+00:00", "type": "resource_event.test", "properties": {"message": "A test webhook from Orb. Happy testing!"}}'
  },
  {
    ...CONTENTFUL,
    url: 'https://hooks.example.com/trigger/SW5zdGFuY2VGbG93Q29uZmlnOjE=',
    headers: {
      'Content-Type': 'application/vnd.contentful.management.v1+json',
      'X-Contentful-Topic': 'ContentManagement.Entry.publish',
      'X-Contentful-Signature': '8dec81505760a10b542fbc36d3aa0a772b11f759eca7b2351daaf5bba8c7c6f1',
      'X-Contentful-Signed-Headers':
        'content-type,x-contentful-signed-headers,x-contentful-timestamp,x-contentful-topic',
      'X-Contentful-Timestamp': '1767225600000'
    }
  },
  {
    source: "Zendesk's secret for tests, with the signature that a verifier in Rust publishes",
    provider: 'zendesk',
    secret: 'dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ==',
    at: Date.UTC(2021, 2, 25, 5, 9, 27),
    headers: {
      'X-Zendesk-Webhook-Signature': 'S/RDdU2ERmj7LHDDoWJ2onPYH+t7/f2+LTM4dL7UiLM=',
      'X-Zendesk-Webhook-Signature-Timestamp': '2021-03-25T05:09:27Z'
    },
    body: '{"event":"ticket.updated","id":123}'
  },
  rfc('facebook_graph_api', 'X-Hub-Signature-256', `sha256=${JEFE_SHA256}`),
  rfc('facebook_messenger', 'X-Hub-Signature-256', `sha256=${JEFE_SHA256}`),
  rfc('instagram', 'X-Hub-Signature-256', `sha256=${JEFE_SHA256}`),
  rfc('whatsapp', 'X-Hub-Signature-256', `sha256=${JEFE_SHA256}`),
  rfc('bitbucket', 'X-Hub-Signature', `sha256=${JEFE_SHA256}`),
  rfc('jira', 'X-Hub-Signature', `sha256=${JEFE_SHA256}`),
  rfc('orbit', 'X-Orbit-Signature', `sha256=${JEFE_SHA256}`),
  rfc('alchemy', 'X-Alchemy-Signature', JEFE_SHA256),
  rfc('chargify', 'X-Chargify-Webhook-Signature-Hmac-Sha-256', JEFE_SHA256),
  rfc('coinbase', 'X-CC-Webhook-Signature', JEFE_SHA256),
  rfc('dropbox', 'X-Dropbox-Signature', JEFE_SHA256),
  rfc('launch_darkly', 'X-LD-Signature', JEFE_SHA256),
  rfc('modern_treasury', 'X-Signature', JEFE_SHA256),
  rfc('pusher', 'X-Pusher-Signature', JEFE_SHA256),
  rfc('sentry', 'Sentry-Hook-Signature', JEFE_SHA256),
  rfc('signal_sciences', 'X-SigSci-Signature', JEFE_SHA256),
  rfc('trendmicro_conformity', 'X-Conformity-Signature', JEFE_SHA256),
  rfc('circleci', 'circleci-signature', `v1=${JEFE_SHA256}`),
  rfc('pagerduty', 'X-PagerDuty-Signature', `v1=${'0'.repeat(64)},v1=${JEFE_SHA256}`),
  rfc('aftership', 'aftership-hmac-sha256', base64(JEFE_SHA256)),
  rfc('bolt', 'X-Bolt-Hmac-Sha256', base64(JEFE_SHA256)),
  rfc('castle', 'X-Castle-Signature', base64(JEFE_SHA256)),
  rfc('docusign', 'X-DocuSign-Signature-2', base64(JEFE_SHA256)),
  rfc('heroku', 'Heroku-Webhook-Hmac-SHA256', base64(JEFE_SHA256)),
  rfc('shopify', 'X-Shopify-Hmac-Sha256', base64(JEFE_SHA256)),
  rfc('typeform', 'Typeform-Signature', `sha256=${base64(JEFE_SHA256)}`),
  rfc('xero', 'x-xero-signature', base64(JEFE_SHA256)),
  rfc('worldline', 'X-GCS-Signature', base64(JEFE_SHA256)),
  { ...rfc('microsoft_teams', 'Authorization', `HMAC ${base64(JEFE_SHA256)}`), secret: 'SmVmZQ==' },
  rfc('intercom', 'X-Hub-Signature', `sha1=${JEFE_SHA1}`),
  rfc('clearbit', 'X-Request-Signature', `sha1=${JEFE_SHA1}`),
  rfc('autodesk', 'x-adsk-signature', `sha1hash=${JEFE_SHA1}`),
  rfc('webex', 'X-Spark-Signature', JEFE_SHA1),
  rfc('sonatype', 'X-Nexus-Webhook-Signature', JEFE_SHA1),
  rfc('mongodb', 'X-MMS-Signature', base64(JEFE_SHA1)),
  rfc('terraform', 'X-TFE-Notification-Signature', JEFE_SHA512)
]

function deliveryOf({ method = 'POST', url = 'https://hooks.example.com/', headers, body }: Vector): Delivery {
  return { method, url, headers: Object.entries(headers).flat(), body: Buffer.from(body) }
}

t.test('signatures that others have published pass, and the same over another body does not', async (t) => {
  for (const vector of vectors) {
    const { provider, secret, at, source } = vector
    const delivery = deliveryOf(vector)
    t.equal(await inspect(provider, secret, delivery, at), 'verified', `${provider}: ${source}`)
    const other = { ...delivery, body: Buffer.concat([delivery.body, Buffer.from(' ')]) }
    t.not(await inspect(provider, secret, other, at), 'verified', provider)
  }
})

t.test('what the reference implementation of Standard Webhooks signs passes, and it takes what we take', async (t) => {
  for (let i = 0; i < 50; i++) {
    const secret = `whsec_${Buffer.from(`key ${i} of the sender ${'k'.repeat(i)}`).toString('base64')}`
    const at = new Date()
    const body = JSON.stringify({ i, text: 'ä€😀'.repeat(i) })
    const signature = new Webhook(secret).sign(`msg_${i}`, at, body)
    const fields = (prefix: string) => [
      `${prefix}id`,
      `msg_${i}`,
      `${prefix}timestamp`,
      String(Math.floor(at.getTime() / 1000)),
      `${prefix}signature`,
      signature
    ]
    const cases: readonly (readonly [string, string])[] = [
      ['brex', 'webhook-'],
      ['svix', 'webhook-'],
      ['svix', 'svix-'],
      ['clerk', 'svix-']
    ]
    for (const [provider, prefix] of cases) {
      const delivery = { method: 'POST', url: 'https://h.test/', headers: fields(prefix), body: Buffer.from(body) }
      t.equal(await inspect(provider, secret, delivery, at.getTime()), 'verified', `${provider} ${i}`)
    }
    const listed = `v1,${'A'.repeat(43)}= v2,abc ${signature}`
    const headers = Object.fromEntries([
      ['webhook-id', `msg_${i}`],
      ['webhook-timestamp', String(Math.floor(at.getTime() / 1000))],
      ['webhook-signature', listed]
    ])
    t.doesNotThrow(() => new Webhook(secret).verify(body, headers))
    const delivery = { method: 'POST', url: 'https://h.test/', headers: Object.entries(headers).flat() }
    t.equal(await inspect('brex', secret, { ...delivery, body: Buffer.from(body) }, at.getTime()), 'verified')
  }
})

t.test('several signatures: any of them may be ours', async (t) => {
  const wrong = '0'.repeat(64)
  const orb = vectors.find(({ provider }) => provider === 'orb') as Vector
  const signature = orb.headers['X-Orb-Signature']
  for (const [list, expected] of [
    [`v1=${wrong} ${signature}`, 'verified'],
    [`${signature} v2=${wrong}`, 'verified'],
    [`v1=${wrong} v2=${signature?.slice(3)}`, 'SIGNATURE_INVALID']
  ] as const) {
    const delivery = deliveryOf({ ...orb, headers: { ...orb.headers, 'X-Orb-Signature': list } })
    t.equal(await inspect('orb', orb.secret, delivery, orb.at), expected, list)
  }
  const mux = vectors.find(({ provider }) => provider === 'mux') as Vector
  const pair = mux.headers['Mux-Signature'] as string
  for (const [list, expected] of [
    [`${pair.replace(',', `,v1=${wrong},`)},v0=${wrong}`, 'verified'],
    [pair.replace(',', ', '), 'verified'],
    [pair.replace('v1=', 'v0='), 'SIGNATURE_MISSING'],
    [`t=1565125719,${pair}`, 'TIMESTAMP_INVALID'],
    [pair.replace('t=1565125718', 't=now'), 'TIMESTAMP_INVALID']
  ] as const) {
    const delivery = deliveryOf({ ...mux, headers: { 'Mux-Signature': list } })
    t.equal(await inspect('mux', mux.secret, delivery, mux.at), expected, list)
  }
})
