import { createHmac } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { isEmptyList, objectMember, readObject } from '../../../src/features/webhook/json.js'
import { type Provider, providers, secretProblem } from '../../../src/features/webhook/providers.js'
import { Replays } from '../../../src/features/webhook/replays.js'
import { readTimestamp } from '../../../src/features/webhook/scheme.js'
import { type Delivery, inspect, inspector, say } from './inspecting.js'
import { type Sender, senders } from './signing.js'

const AT = Date.UTC(2026, 0, 2, 3, 4, 5)
const SECRET = 'a secret of the sender'
const sender = (provider: string) => senders.find((one) => one.provider === provider) as Sender
const code = (algorithm: string, encoding: 'hex' | 'base64', text: string) =>
  createHmac(algorithm, SECRET).update(text).digest(encoding)

function form(url: string, headers: Readonly<Record<string, string>>, body: string, method = 'POST'): Delivery {
  const type = { 'Content-Type': 'application/x-www-form-urlencoded; charset=utf-8' }
  return { method, url, headers: Object.entries({ ...type, ...headers }).flat(), body: Buffer.from(body) }
}

t.test('timestamps: Unix time in seconds and milliseconds, ISO 8601, and nothing else', async (t) => {
  const time = Date.UTC(2024, 2, 27, 15, 42, 29)
  for (const text of [
    '1711554149',
    '1711554149000',
    '2024-03-27T15:42:29Z',
    '2024-03-27T15:42:29',
    '2024-03-27T08:42:29-07:00',
    '2024-03-27T08:42:29.000-0700'
  ]) {
    t.equal(readTimestamp(text), time, text)
  }
  for (const text of [
    '',
    ' 1',
    '-1',
    '1e9',
    '0x10',
    '1711554149.5',
    '2024-03-27',
    '2024-13-27T15:42:29Z',
    'now',
    '9'.repeat(16)
  ])
    t.equal(readTimestamp(text), undefined, text)
})

t.test('a JSON body that says something twice is none', async (t) => {
  const read = (text: string | Buffer) => readObject(Buffer.from(text as string), ['a', 'c', 'd', 'e'])
  const plain = async (text: string) => Object.fromEntries((await read(text)) ?? [['none', 'none']])
  t.same(await plain('{"a":1,"b":{"a":[1,{"a":2}]},"c":"\\"a\\":,{","d":null}'), { a: 1, c: '"a":,{', d: null })
  t.same(await plain(' {} '), {})
  t.same(await plain('{"a":"\\\\","b":{"x":1,"x":2}}'), { a: '\\' }, 'inside of members it is their affair')
  const nested = await read('{"d":{"x":"y","z":7},"e": [ ],"a":[1]}')
  if (nested === undefined) throw new Error('it is an object')
  t.same([...((await objectMember(nested, 'd', ['x'])) ?? [])], [['x', 'y']])
  t.equal(await objectMember(nested, 'a', ['x']), undefined, 'a list is no object')
  t.same([isEmptyList(nested, 'e'), isEmptyList(nested, 'a'), isEmptyList(nested, 'd')], [true, false, false])
  for (const text of ['{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '{"a":{"b":1},"c":2,"a":3}', '[1]', '1', 'null', '{', ''])
    t.equal(await read(text), undefined, text)
  t.equal(await read(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), undefined, 'no UTF-8')
})

t.test('secrets that a sender cannot have are known as such, and never repeated', async (t) => {
  const problem = (name: string, secret: string) => secretProblem(providers.get(name) as Provider, secret)
  for (const [name, secret] of [
    ['svix', 'whsec_not base64!'],
    ['brex', 'whsec_?'],
    ['microsoft_teams', 'not-base64!'],
    ['sendgrid', 'bm90IGEga2V5'],
    ['vmware', 'user:password']
  ] as const) {
    const found = problem(name, secret)
    t.match(found, /^must be /, name)
    t.notOk(found?.includes(secret), name)
  }
  for (const { provider, secret } of senders) t.equal(problem(provider, secret), undefined, provider)
})

t.test('the attempt of a delivery counts once, unless nobody took it', async (t) => {
  for (const provider of ['svix', 'clerk', 'brex', 'mailgun']) {
    const { secret, sign } = sender(provider)
    const one = inspector(provider)
    const delivery = sign(AT)
    t.equal(say(await one.outcome(secret, delivery, AT)), 'verified', provider)
    t.equal(say(await one.outcome(secret, delivery, AT + 1000)), 'REPLAYED', provider)
    t.equal(
      say(await one.outcome(secret, { ...delivery, body: Buffer.from('{}') }, AT)),
      provider === 'mailgun' ? 'SIGNATURE_MISSING' : 'SIGNATURE_INVALID'
    )
    if (provider !== 'mailgun') {
      t.equal(say(await one.outcome(secret, sign(AT + 5000), AT + 5000)), 'verified', `${provider}: another attempt`)
    }
    const failing = inspector(provider)
    t.equal(say(await failing.outcome(secret, delivery, AT, 502)), 'verified', provider)
    t.equal(say(await failing.outcome(secret, delivery, AT)), 'verified', `${provider}: nobody took it`)
    t.equal(say(await failing.outcome(secret, delivery, AT)), 'REPLAYED', provider)
  }
  const github = inspector('github')
  const { secret, sign } = sender('github')
  for (let i = 0; i < 2; i++) t.equal(say(await github.outcome(secret, sign(AT), AT)), 'verified', 'nothing marks it')
})

t.test('what is remembered ends with its time and has a bound', async (t) => {
  const replays = new Replays()
  t.ok(replays.admit('a', 0, 100))
  t.notOk(replays.admit('a', 99, 100))
  t.ok(replays.admit('a', 100, 100))
  for (let i = 0; i < 70_000; i++) replays.admit(`b${i}`, 101, 100)
  t.ok(replays.admit('a', 102, 100), 'the oldest is forgotten first')
  t.notOk(replays.admit('b69999', 102, 100))
})

t.test('airship signs the text, however it travels', async (t) => {
  const text = '{"notification":{"alert":"hello"}}'
  const time = String(AT / 1_000)
  const deliver = (body: Uint8Array, coding: readonly string[], signed = text) => {
    const headers = ['X-UA-SIGNATURE', code('sha256', 'hex', `${time}:${signed}`), 'X-UA-TIMESTAMP', time, ...coding]
    const delivery = { method: 'POST', url: 'https://hooks.example.com/', headers, body: Buffer.from(body) }
    return inspect('airship', SECRET, delivery, AT)
  }
  const gzip = ['Content-Encoding', 'gzip']
  t.equal(await deliver(Buffer.from(text), []), 'verified')
  t.equal(await deliver(gzipSync(text), gzip), 'verified')
  t.equal(await deliver(gzipSync(text.replace('hello', 'other')), gzip), 'SIGNATURE_INVALID')
  t.equal(await deliver(gzipSync(text).subarray(0, 20), gzip), 'BODY_INVALID')
  t.equal(await deliver(Buffer.from(text), ['Content-Encoding', 'unheard-of']), 'BODY_INVALID')
  const bomb = gzipSync(Buffer.alloc(8 * 1024 * 1024))
  t.equal(await deliver(bomb, gzip, ''), 'BODY_INVALID', 'a few bytes stand for no more than they may')
})

t.test('mailgun signs timestamp and token; also in a form', async (t) => {
  const at = String(AT / 1000)
  const signature = code('sha256', 'hex', `${at}tok`)
  const look = (body: object | string) => {
    if (typeof body === 'string') return inspect('mailgun', SECRET, form('https://h.test/', {}, body), AT)
    const delivery = { method: 'POST', url: 'https://h.test/', headers: [], body: Buffer.from(JSON.stringify(body)) }
    return inspect('mailgun', SECRET, delivery, AT)
  }
  t.equal(await look({ signature: { timestamp: at, token: 'tok', signature } }), 'verified')
  t.equal(await look({ signature: { timestamp: AT / 1000, token: 'tok', signature } }), 'verified', 'a number')
  t.equal(await look({ signature: { timestamp: at, token: 'tok2', signature } }), 'SIGNATURE_INVALID')
  t.equal(await look({ signature: { timestamp: '1', token: 'tok', signature } }), 'TIMESTAMP_STALE')
  t.equal(await look({ signature: { timestamp: at, token: ['tok'], signature } }), 'SIGNATURE_MISSING')
  t.equal(await look({ signature: 'x' }), 'SIGNATURE_MISSING')
  t.equal(await look([] as object), 'SIGNATURE_MISSING')
  t.equal(await look(`timestamp=${at}&token=tok&signature=${signature}`), 'verified')
  t.equal(await look(`timestamp=${at}&token=tok&token=tok&signature=${signature}`), 'SIGNATURE_MISSING')
})

t.test('twilio: fields sorted, doubled values once, ports as the sender likes them, nothing unsigned', async (t) => {
  const look = (delivery: Delivery) => inspect('twilio', SECRET, delivery, AT)
  const signed = (url: string, text: string) => ({ 'X-Twilio-Signature': code('sha1', 'base64', url + text) })
  const url = 'https://h.test/a%2fb?q=a%20b'
  t.equal(await look(form(url, signed(url, 'B1a1a2c '), 'c=+&a=2&B=1&a=1&a=2')), 'verified')
  t.equal(await look(form(url, signed('https://h.test:443/a%2fb?q=a%20b', 'a1'), 'a=1')), 'verified')
  t.equal(await look(form('https://h.test:8443/x', signed('https://h.test/x', 'a1'), 'a=1')), 'verified')
  t.equal(
    await look(form(url, signed('https://h.test/a%2Fb?q=a%20b', 'a1'), 'a=1')),
    'SIGNATURE_INVALID',
    'no normal form'
  )
  t.equal(
    await look(form('http://h.test/x', signed('http://h.test/x', 'a1'), 'a=1')),
    'SIGNATURE_INVALID',
    'never sent in clear'
  )
  t.equal(await look(form(url, signed(url, ''), '', 'GET')), 'verified', 'a call in GET')
  const json = {
    method: 'POST',
    url,
    headers: ['X-Twilio-Signature', code('sha1', 'base64', url)],
    body: Buffer.from('{}')
  }
  t.equal(await look(json), 'BODY_INVALID', 'a body that nothing covers')
  const hashed = `${url}&bodySHA256=${'0'.repeat(64)}`
  const other = { ...json, url: hashed, headers: ['X-Twilio-Signature', code('sha1', 'base64', hashed)] }
  t.equal(await look(other), 'SIGNATURE_INVALID', 'signed for another body')
  t.equal(await look(form(hashed, signed(hashed, 'a1'), 'a=1')), 'SIGNATURE_INVALID', 'a form hides no body either')
})

t.test('plivo: the example of its documentation, with and without a query', async (t) => {
  const fields = 'Digits=1234&To=%2B15555555555&From=%2B15551111111&CallUUID=4vbcpem8-0u46-x1ha-9af1-438vc92bf374'
  const sorted = 'CallUUID4vbcpem8-0u46-x1ha-9af1-438vc92bf374Digits1234From+15551111111To+15555555555'
  const look = (url: string, text: string, body = fields, method = 'POST') => {
    const signature = `AAAA,${code('sha256', 'base64', `${text}.n1`)}`
    const headers = { 'X-Plivo-Signature-V3': signature, 'X-Plivo-Signature-V3-Nonce': 'n1' }
    return inspect('plivo', SECRET, form(url, headers, body, method), AT)
  }
  const url = 'https://example.com/abcd'
  t.equal(await look(`${url}?foo=bar`, `${url}?foo=bar.${sorted}`), 'verified')
  t.equal(await look(url, `${url}.${sorted}`), 'verified')
  t.equal(await look(url, `${url}?${sorted}`), 'verified')
  t.equal(await look(`${url}?b=2&a=%2B1`, `${url}?a=+1&b=2`, '', 'GET'), 'verified')
  t.equal(await look(url, url, ''), 'verified')
  t.equal(await look(`${url}?foo=bar`, `${url}?foo=bar`), 'SIGNATURE_INVALID', 'fields that are not signed')
})

t.test('hubspot: version 3 reads a URL decoded, and goes before the others', async (t) => {
  const url = 'https://h.test/a%2Fb?u=%40x%3A%20y'
  const signature = code('sha256', 'base64', `POSThttps://h.test/a/b?u=@x:%20y{}${AT}`)
  const v3 = ['X-HubSpot-Signature-v3', signature, 'X-HubSpot-Request-Timestamp', String(AT)]
  const look = (headers: string[]) =>
    inspect('hubspot', SECRET, { method: 'POST', url, headers, body: Buffer.from('{}') }, AT)
  t.equal(await look(v3), 'verified')
  t.equal(await look([...v3, 'X-HubSpot-Signature', 'x', 'X-HubSpot-Signature-Version', 'v1']), 'verified')
  t.equal(await look(['X-HubSpot-Signature-v3', signature]), 'TIMESTAMP_INVALID')
  t.equal(await look(['X-HubSpot-Signature', 'x', 'X-HubSpot-Signature-Version', 'v4']), 'SIGNATURE_INVALID')
  t.equal(await look(['X-HubSpot-Signature', 'x']), 'SIGNATURE_MISSING')
})

t.test('contentful: what it says is signed must be, and a path that would be signed in part is refused', async (t) => {
  const text = (path: string, fields: string) => `POST\n${path}\n${fields}\n{}`
  const look = (url: string, path: string, names: string, fields: string, more: string[] = []) => {
    const headers = ['X-Contentful-Signature', code('sha256', 'hex', text(path, fields)), ...more]
    headers.push('X-Contentful-Signed-Headers', names, 'X-Contentful-Timestamp', String(AT))
    return inspect('contentful', SECRET, { method: 'POST', url, headers, body: Buffer.from('{}') }, AT)
  }
  const names = 'x-contentful-signed-headers,x-contentful-timestamp'
  const fields = `x-contentful-signed-headers:${names};x-contentful-timestamp:${AT}`
  t.equal(await look('https://h.test/a', '/a', names, fields), 'verified')
  t.equal(await look('https://h.test/a?b=%20', '/a?b%253D%252520', names, fields), 'verified')
  t.equal(await look('https://h.test/a?b=1?c', '/a?b%253D1', names, fields), 'SIGNATURE_INVALID')
  t.equal(
    await look('https://h.test/a', '/a', 'x-contentful-timestamp', `x-contentful-timestamp:${AT}`),
    'SIGNATURE_INVALID'
  )
  const topic = `${names},x-contentful-topic`
  const with_ = `x-contentful-signed-headers:${topic};x-contentful-timestamp:${AT};x-contentful-topic:t`
  t.equal(await look('https://h.test/a', '/a', topic, with_, ['X-Contentful-Topic', ' t ']), 'verified')
  t.equal(await look('https://h.test/a', '/a', topic, with_), 'SIGNATURE_INVALID', 'a signed field that is not there')
  t.equal(
    await look('https://h.test/a', '/a', topic, with_, ['X-Contentful-Topic', 't', 'X-Contentful-Topic', 'u']),
    'SIGNATURE_INVALID'
  )
})

t.test('graphcms: bytes that are no text are not signed', async (t) => {
  const text = JSON.stringify({ Body: '\ufffd', EnvironmentName: 'master', TimeStamp: AT })
  const headers = ['gcms-signature', `sign=${code('sha256', 'base64', text)}, env=master, t=${AT}`]
  const look = (body: Buffer) =>
    inspect('graphcms', SECRET, { method: 'POST', url: 'https://h.test/', headers, body }, AT)
  t.equal(await look(Buffer.from('\ufffd')), 'verified')
  t.equal(await look(Buffer.from([0xff])), 'BODY_INVALID')
})

t.test('linear: a body without its time does not pass, however well it is signed', async (t) => {
  for (const [body, expected] of [
    ['{"webhookTimestamp":1}', 'TIMESTAMP_STALE'],
    ['{}', 'TIMESTAMP_INVALID'],
    ['[]', 'BODY_INVALID'],
    [`{"webhookTimestamp":1,"webhookTimestamp":${AT}}`, 'BODY_INVALID']
  ] as const) {
    const headers = ['Linear-Signature', code('sha256', 'hex', body)]
    t.equal(
      await inspect('linear', SECRET, { method: 'POST', url: 'https://h.test/', headers, body: Buffer.from(body) }, AT),
      expected,
      body
    )
  }
})
