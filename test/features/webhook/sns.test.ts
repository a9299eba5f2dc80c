import { createPrivateKey, createSign, type KeyObject } from 'node:crypto'
import t from 'tap'
import { SenderCertificates } from '../../../src/features/webhook/certificates.js'
import type { OutboundError, OutboundResponse } from '../../../src/lib/http-client/answer.js'
import type { Outbound } from '../../../src/lib/http-client/outbound.js'
import { issue } from '../../resources/certificates.js'
import { inspector, say } from './inspecting.js'

const AT = Date.UTC(2026, 5, 2, 3, 4, 5)
const HOUR = 3_600_000
const CERTIFICATE = 'https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123abcd.pem'

type Message = Record<string, string>

const notification: Message = {
  Type: 'Notification',
  MessageId: '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324',
  TopicArn: 'arn:aws:sns:us-west-2:123456789012:MyTopic',
  Subject: 'My First Message',
  Message: 'Hello\nworld ä',
  Timestamp: new Date(AT).toISOString()
}
const confirmation: Message = {
  Type: 'SubscriptionConfirmation',
  MessageId: '165545c9-2a5c-472c-8df2-7ff2be2b3b1b',
  Token: '2336412f37',
  TopicArn: 'arn:aws:sns:us-west-2:123456789012:MyTopic',
  Message: 'You have chosen to subscribe.',
  SubscribeURL: 'https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&Token=2336412f37',
  Timestamp: new Date(AT).toISOString()
}

/** As Amazon documents it: name and value of each member in alphabetical order, a line each. */
function signed(message: Message, key: KeyObject, version = '1', url = CERTIFICATE): Message {
  const names = Object.keys(message).sort()
  const text = names.map((name) => `${name}\n${message[name]}\n`).join('')
  const algorithm = version === '1' ? 'RSA-SHA1' : 'RSA-SHA256'
  const Signature = createSign(algorithm).update(text).sign(key, 'base64')
  return { ...message, SignatureVersion: version, Signature, SigningCertURL: url }
}

const deliveryOf = (body: object | string) => ({
  method: 'POST',
  url: 'https://hooks.example.com/sns',
  headers: ['Content-Type', 'text/plain; charset=UTF-8'],
  body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body, undefined, 2))
})

/** A client that serves what stands at a URL, and writes down what it was asked. */
class Served implements Outbound {
  readonly asked: string[] = []
  readonly pages = new Map<string, string | (() => Promise<string>)>()

  async request({ url }: { url: string }): Promise<OutboundResponse | OutboundError> {
    this.asked.push(url)
    const page = this.pages.get(url)
    if (page === undefined) return { ok: false, code: 'TIMEOUT', message: '', timeMs: 1 }
    const body = Buffer.from(typeof page === 'string' ? page : await page())
    return { ok: true, status: body.length === 0 ? 404 : 200, headers: [], body, address: '192.0.2.1', timeMs: 1 }
  }

  close(): void {}
}

async function stand() {
  const identity = await issue({ subject: 'CN=sns.amazonaws.com', algorithm: 'rsa' })
  const served = new Served()
  served.pages.set(CERTIFICATE, identity.pem)
  const one = inspector('sns', served)
  const look = async (body: object | string, at = AT) => say(await one.outcome('', deliveryOf(body), at))
  return { served, look, key: createPrivateKey(identity.key), pem: identity.pem }
}

t.test('messages of every type and both versions of the signature pass; the certificate is fetched once', async (t) => {
  const { served, look, key } = await stand()
  const withoutSubject: Message = { ...notification }
  delete withoutSubject.Subject
  for (const version of ['1', '2']) {
    for (const message of [
      notification,
      withoutSubject,
      confirmation,
      { ...confirmation, Type: 'UnsubscribeConfirmation' }
    ]) {
      t.equal(await look(signed(message, key, version)), 'verified', `${message.Type} ${version}`)
    }
  }
  t.same(served.asked, [CERTIFICATE])
  t.equal(await look({ ...signed(withoutSubject, key), Subject: null }), 'verified')
})

t.test('no changed member passes', async (t) => {
  const { look, key } = await stand()
  for (const message of [notification, confirmation]) {
    const whole = signed(message, key, '2')
    for (const name of Object.keys(whole).filter((one) => one !== 'SigningCertURL')) {
      const value = whole[name] as string
      for (let i = 0; i < 4; i++) {
        const at = Math.floor((value.length * i) / 4)
        const other = value.slice(0, at) + (value[at] === 'x' ? 'y' : 'x') + value.slice(at + 1)
        t.not(await look({ ...whole, [name]: other }), 'verified', `${name}: ${other}`)
      }
      const { [name]: _, ...rest } = whole
      t.not(await look(rest), 'verified', `no ${name}`)
      t.not(await look({ ...whole, [name]: [value] }), 'verified', `${name} in a list`)
    }
  }
  t.equal(await look(signed({ ...notification, Extra: 'x' }, key)), 'SIGNATURE_INVALID')
  t.equal(await look(signed({ ...notification, Type: '__proto__' }, key)), 'BODY_INVALID')
  t.equal(await look({ ...signed(notification, key, '2'), SignatureVersion: '3' }), 'SIGNATURE_MISSING')
  t.equal(await look({ ...signed(notification, key, '2'), SignatureVersion: '1' }), 'SIGNATURE_INVALID')
  t.equal(await look('{}'), 'SIGNATURE_MISSING')
  t.equal(await look('no JSON'), 'BODY_INVALID')
})

t.test('a message that names a member twice does not pass, whichever is signed', async (t) => {
  const { look, key } = await stand()
  const text = JSON.stringify(signed(notification, key))
  t.equal(await look(text), 'verified')
  t.equal(await look(text.replace('{', '{"Message":"evil",')), 'BODY_INVALID')
  t.equal(await look(text.replace(/}$/, ',"M\\u0065ssage":"evil"}')), 'BODY_INVALID')
})

t.test('messages are fresh for an hour', async (t) => {
  const { look, key } = await stand()
  const message = signed(notification, key)
  t.equal(await look(message, AT + HOUR), 'verified')
  t.equal(await look(message, AT + HOUR + 1000), 'TIMESTAMP_STALE')
  t.equal(await look(message, AT - HOUR - 1000), 'TIMESTAMP_STALE')
})

t.test('a certificate from anywhere else is never asked for', async (t) => {
  const { served, look, key } = await stand()
  const file = 'SimpleNotificationService-0123abcd.pem'
  const elsewhere = [
    `http://sns.us-east-1.amazonaws.com/${file}`,
    `https://sns.us-east-1.amazonaws.com.evil.test/${file}`,
    `https://evil.test/sns.us-east-1.amazonaws.com/${file}`,
    `https://sns.us-east-1.amazonaws.com@evil.test/${file}`,
    `https://evil.test#sns.us-east-1.amazonaws.com/${file}`,
    `https://sns.us-east-1.amazonaws.com:8443/${file}`,
    `https://sns.us-east-1.amazonaws.com:443/${file}`,
    `https://user@sns.us-east-1.amazonaws.com/${file}`,
    `https://sns.us-east-1.amazonaws.com/../${file}`,
    `https://sns.us-east-1.amazonaws.com//${file}`,
    `https://sns.us-east-1.amazonaws.com/bucket/${file}`,
    `https://sns.us-east-1.amazonaws.com/${file}?x`,
    `https://sns.us-east-1.amazonaws.com/${file}#x`,
    `https://sns.us-east-1.amazonaws.com/${file}\n`,
    `https://bucket.s3.amazonaws.com/${file}`,
    `https://sns.s3.amazonaws.com/${file}`,
    `https://sns.s3-us-west-2.amazonaws.com/${file}`,
    `https://s3.us-east-1.amazonaws.com/${file}`,
    `https://sns.us-east-1.amazonawsXcom/${file}`,
    'https://sns.us-east-1.amazonaws.com/other.pem',
    'https://127.0.0.1/SimpleNotificationService-0123abcd.pem',
    'https://169.254.169.254/latest/meta-data/',
    'file:///etc/passwd',
    ''
  ]
  for (const url of elsewhere) {
    const found = await look(signed(notification, key, '2', url))
    t.equal(found, 'CERTIFICATE_REFUSED', url)
  }
  t.same(served.asked, [])
  for (const region of ['us-gov-west-1', 'ap-southeast-2', 'il-central-1', 'us-iso-east-1']) {
    const url = `https://sns.${region}.amazonaws.com/${file}`
    t.equal(await look(signed(notification, key, '2', url)), 'CERTIFICATE_UNAVAILABLE', url)
  }
  const china = `https://sns.cn-north-1.amazonaws.com.cn/${file}`
  t.equal(await look(signed(notification, key, '2', china)), 'CERTIFICATE_UNAVAILABLE')
  t.equal(served.asked.length, 5)
})

t.test(
  'certificates: kept for a day, asked for again, used while nobody answers, refused when out of date',
  async (t) => {
    const { served, pem } = await stand()
    const certificates = new SenderCertificates(served)
    const ask = async (now: number) => {
      const key = await certificates.certificate(CERTIFICATE, now)
      return typeof key === 'string' ? key : 'key'
    }
    t.same(await Promise.all([ask(AT), ask(AT), ask(AT)]), ['key', 'key', 'key'])
    t.equal(served.asked.length, 1, 'one fetch serves all')
    t.equal(await ask(AT + 24 * HOUR - 1), 'key')
    t.equal(served.asked.length, 1)
    t.equal(await ask(AT + 24 * HOUR), 'key')
    t.equal(served.asked.length, 2)
    served.pages.delete(CERTIFICATE)
    t.equal(await ask(AT + 50 * HOUR), 'key', 'the one before serves on')
    t.equal(served.asked.length, 3)
    t.equal(await ask(AT + 50 * HOUR + 1), 'key')
    t.equal(served.asked.length, 3, 'nobody is asked for a while')
    t.equal(await ask(Date.UTC(2027, 0, 2)), 'CERTIFICATE_UNAVAILABLE', 'not beyond its end')
    served.pages.set(CERTIFICATE, pem)
    t.equal(await ask(Date.UTC(2027, 0, 3)), 'CERTIFICATE_REFUSED')
    for (const page of ['', 'no certificate', (await issue({ subject: 'CN=ec' })).pem]) {
      served.pages.set(CERTIFICATE, page)
      const other = new SenderCertificates(served)
      const expected = page === '' ? 'CERTIFICATE_UNAVAILABLE' : 'CERTIFICATE_REFUSED'
      t.equal(await other.certificate(CERTIFICATE, AT), expected)
    }
  }
)

t.test('invented names have few fetches made and push nothing out', async (t) => {
  const { served } = await stand()
  const certificates = new SenderCertificates(served)
  t.type(await certificates.certificate(CERTIFICATE, AT), 'object')
  const url = (i: number) => `https://sns.us-east-1.amazonaws.com/SimpleNotificationService-${i}.pem`
  let release: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  for (let i = 0; i < 100; i++) served.pages.set(url(i), () => gate.then(() => ''))
  const waiting = Array.from({ length: 100 }, (_, i) => certificates.certificate(url(i), AT))
  t.equal(served.asked.length, 1 + 4, 'four under way at once')
  release()
  t.same(new Set(await Promise.all(waiting)), new Set(['CERTIFICATE_UNAVAILABLE']))
  for (let i = 0; i < 100; i++) await certificates.certificate(url(i), AT)
  const before = served.asked.length
  t.type(await certificates.certificate(CERTIFICATE, AT), 'object')
  t.equal(served.asked.length, before)
})
