import 'reflect-metadata'
import { createHmac, createSign } from 'node:crypto'
import dns from 'node:dns/promises'
import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, request } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { syncBuiltinESMExports } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { BasicConstraintsExtension, SubjectAlternativeNameExtension } from '@peculiar/x509'
import t, { type Test } from 'tap'
import { webhook } from '../../../src/features/webhook/feature.js'
import { account, create, site } from '../../helpers/account.js'
import { makeFlow } from '../../helpers/flow.js'
import { type RunningSluice, type SluiceSetup, startSluice } from '../../helpers/sluice.js'
import { issue } from '../../resources/certificates.js'
import { Kit, outcomeOf } from '../kit.js'
import { type Delivery, fieldOf, withField } from './inspecting.js'
import { type Sender, senders } from './signing.js'

const HOST = 'hooks.example.com'
const UNVERIFIED = '403 WEBHOOK_UNVERIFIED'
const sender = (provider: string) => senders.find((one) => one.provider === provider) as Sender

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** The product with one route, and an upstream that keeps the bodies it got. */
async function startHooks(t: Test, setup: SluiceSetup = {}) {
  const taken: Buffer[] = []
  let status = 200
  const upstream = createServer((incoming, response) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      taken.push(Buffer.concat(chunks))
      response.writeHead(status).end('taken')
    })
  }).listen(0, '127.0.0.1')
  await new Promise((listening) => upstream.once('listening', listening))
  t.teardown(() => {
    upstream.close()
    upstream.closeAllConnections()
  })
  const sluice = await startSluice(t, setup)
  const address = `127.0.0.1:${(upstream.address() as AddressInfo).port}`
  const backend = await create(sluice, '/backends/static', { address })
  const { edge, route } = await site(sluice, HOST, { match_type: 'path_prefix', backend: { backend_id: backend.id } })
  const ask = account(sluice)
  return {
    sluice,
    taken,
    edge,
    route,
    ask,
    answering(other: number): void {
      status = other
    },
    async module(body: object): Promise<void> {
      const { status: put, text } = await ask(`${route}/webhook_verification`, { method: 'PUT', body })
      if (put !== 200) throw new Error(`${put} ${text}`)
    },
    async deliver(delivery: Delivery, chunked = false): Promise<string> {
      const { status: got, headers } = await send(sluice, delivery, chunked)
      const code = headers['sluice-error-code']
      return code === undefined ? String(got) : `${got} ${code}`
    }
  }
}

/** One request on a connection of its own. */
function send(sluice: RunningSluice, { method, url, headers, body }: Delivery, chunked = false): Promise<Answer> {
  const { pathname, search, host } = new URL(url)
  const raw = url.slice(url.indexOf(host) + host.length) || `${pathname}${search}`
  const length = chunked ? [] : ['Content-Length', String(body.length)]
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: '127.0.0.1',
        port: sluice.port,
        method,
        path: raw,
        agent: false,
        headers: ['Host', host, ...headers, ...length]
      },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks).toString()
          })
        )
      }
    )
    sent.on('error', reject)
    if (chunked) for (let i = 0; i < body.length; i += 7) sent.write(body.subarray(i, i + 7))
    sent.end(chunked ? undefined : body)
  })
}

function tampered({ fields, covers }: Sender, delivery: Delivery): Delivery {
  if (covers !== 'nothing') {
    const body = Buffer.from(delivery.body)
    body[body.length - 3] = (body[body.length - 3] as number) ^ 1
    return { ...delivery, body }
  }
  const [field] = fields
  if (field !== undefined) return withField(delivery, field, `${fieldOf(delivery, field)}x`)
  return { ...delivery, body: Buffer.from(delivery.body.toString().replace('"token":"e', '"token":"f')) }
}

t.test('every sender, through the whole product: its deliveries pass unchanged, tampered ones never do', async (t) => {
  const { module, deliver, taken } = await startHooks(t)
  for (const one of senders) {
    await module({ provider: one.provider.toUpperCase(), secret: one.secret })
    const delivery = one.sign(Date.now())
    taken.length = 0
    const refused = await deliver(tampered(one, delivery))
    t.equal(refused, one.provider === 'xero' ? '401 WEBHOOK_UNVERIFIED' : UNVERIFIED, one.provider)
    t.equal(taken.length, 0, `${one.provider}: nothing is forwarded`)
    t.equal(await deliver(delivery), '200', one.provider)
    t.same(taken, [Buffer.from(delivery.body)], `${one.provider}: the same bytes`)
  }
})

t.test('bodies come as they like; too large ones are refused by code', async (t) => {
  const { module, deliver, taken } = await startHooks(t, { options: { LIMITS_BUFFERED_BODY: '64KiB' } })
  const { secret } = sender('github')
  await module({ provider: 'github', secret })
  const signed = (body: Buffer): Delivery => {
    const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
    return { method: 'POST', url: `https://${HOST}/`, headers: ['X-Hub-Signature-256', signature], body }
  }
  const binary = Buffer.from(Array.from({ length: 10_240 }, (_, i) => (i * 7) & 0xff))
  t.equal(await deliver(signed(binary), true), '200')
  t.equal(await deliver(signed(Buffer.alloc(0))), '200')
  t.same(taken, [binary, Buffer.alloc(0)])
  taken.length = 0
  t.equal(await deliver(signed(Buffer.alloc(2 * 1024 * 1024, 7)), true), '200', 'as large as those of this sender are')
  t.equal(taken[0]?.length, 2 * 1024 * 1024)
  await module({ provider: 'whatsapp', secret })
  t.equal(await deliver(signed(Buffer.alloc(65_537))), '413 BODY_TOO_LARGE')
  t.equal(await deliver(signed(Buffer.alloc(65_537)), true), '413 BODY_TOO_LARGE')
  t.equal(taken.length, 1)
})

t.test('questions are answered without the upstream', async (t) => {
  const { sluice, module, taken } = await startHooks(t)
  const secret = 'a secret of the sender'
  const code = (of: string, encoding: 'hex' | 'base64') => createHmac('sha256', secret).update(of).digest(encoding)
  const ask = async (delivery: Partial<Delivery>) => {
    const whole = { method: 'GET', url: `https://${HOST}/in`, headers: [], body: Buffer.alloc(0), ...delivery }
    const { status, body } = await send(sluice, whole)
    return `${status} ${body}`
  }
  await module({ provider: 'twitter', secret })
  const token = await ask({ url: `https://${HOST}/in?crc_token=abc` })
  t.equal(token, `200 {"response_token":"sha256=${code('abc', 'base64')}"}`)
  await module({ provider: 'worldline', secret })
  t.equal(await ask({ headers: ['X-GCS-Webhooks-Endpoint-Verification', '5a2f'] }), '200 5a2f')
  await module({ provider: 'dropbox', secret })
  t.equal(await ask({ url: `https://${HOST}/in?challenge=xyz` }), '200 xyz')
  await module({ provider: 'zoom', secret })
  const event = '{"event":"endpoint.url_validation","payload":{"plainToken":"pt"}}'
  const time = String(Math.floor(Date.now() / 1000))
  const headers = ['x-zm-signature', `v0=${code(`v0:${time}:${event}`, 'hex')}`, 'x-zm-request-timestamp', time]
  t.equal(
    await ask({ method: 'POST', headers, body: Buffer.from(event) }),
    `200 {"plainToken":"pt","encryptedToken":"${code('pt', 'hex')}"}`
  )
  await module({ provider: 'xero', secret })
  const intent = '{"events":[],"firstEventSequence":0,"lastEventSequence":0,"entropy":"ABC"}'
  const intend = (signature: string) =>
    ask({ method: 'POST', headers: ['x-xero-signature', signature], body: Buffer.from(intent) })
  t.equal(await intend(code(intent, 'base64')), '200 ')
  t.equal(await intend(code('other', 'base64')), '401 ')
  t.equal(taken.length, 0)
})

t.test('a change of the secret counts at once, and nothing tells it', async (t) => {
  const { sluice, module, deliver, route, ask } = await startHooks(t)
  const { sign, secret } = sender('stripe')
  await module({ provider: 'stripe', secret })
  t.equal(await deliver(sign(Date.now())), '200')
  await module({ provider: 'stripe', secret: 'another secret' })
  t.equal(await deliver(sign(Date.now())), UNVERIFIED)
  await module({ enabled: false, provider: 'stripe', secret })
  t.equal(await deliver({ ...sign(Date.now()), headers: [] }), '200', 'off')
  await module({ provider: 'stripe', secret })
  t.equal(await deliver(sign(Date.now() - 301_000)), UNVERIFIED, 'five minutes old')
  t.equal((await ask(`${route}/webhook_verification`, { method: 'DELETE' })).status, 204)
  t.equal(await deliver({ ...sign(0), headers: [] }), '200')
  const refused = await ask(`${route}/webhook_verification`, {
    method: 'PUT',
    body: { provider: 'svix', secret: 'whsec_no base64' }
  })
  t.equal(refused.status, 400)
  t.notMatch(refused.text, 'no base64')
  t.notMatch(JSON.stringify(sluice.log), /a secret of the sender|another secret/)
})

t.test('a delivery that comes twice is refused, unless the upstream failed the first time', async (t) => {
  const { module, deliver, answering, taken } = await startHooks(t)
  const { sign, secret } = sender('svix')
  await module({ provider: 'svix', secret })
  const delivery = sign(Date.now())
  answering(503)
  t.equal(await deliver(delivery), '503')
  answering(200)
  t.equal(await deliver(delivery), '200')
  t.equal(await deliver(delivery), UNVERIFIED)
  await module({ provider: 'svix', secret, enabled: true })
  t.equal(await deliver(delivery), UNVERIFIED, 'remembered over a change of the configuration')
  t.equal(taken.length, 2)
})

t.test('a signed URL is that of the route: a client cannot say that it was another', async (t) => {
  const { secret } = sender('twilio')
  const signedFor = (url: string, headers: string[] = []): Delivery => {
    const signature = createHmac('sha1', secret).update(`${url}a1`).digest('base64')
    const type = ['Content-Type', 'application/x-www-form-urlencoded']
    const own = ['X-Twilio-Signature', signature, ...type, ...headers]
    return { method: 'POST', url: `https://${HOST}/call?x=%2f`, headers: own, body: Buffer.from('a=1') }
  }
  const ours = `https://${HOST}/call?x=%2f`
  const other = 'https://other.example.com/call?x=%2f'
  const forwarded = ['X-Forwarded-Host', 'other.example.com', 'X-Forwarded-Proto', 'https']
  const plain = await startHooks(t)
  await plain.module({ provider: 'twilio', secret })
  t.equal(await plain.deliver(signedFor(ours)), '200')
  t.equal(await plain.deliver(signedFor(`https://${HOST}:443/call?x=%2f`)), '200')
  t.equal(await plain.deliver(signedFor(other)), UNVERIFIED)
  t.equal(await plain.deliver(signedFor(other, forwarded)), UNVERIFIED)
  t.equal(await plain.deliver(signedFor(`https://${HOST}:8443/call?x=%2f`)), UNVERIFIED)
  const behind = await startHooks(t, { options: { TRUSTED_PROXIES: '127.0.0.1/32' } })
  await behind.module({ provider: 'twilio', secret })
  t.equal(await behind.deliver(signedFor(other, forwarded)), '200', 'a trusted proxy knows better')
  t.equal(await behind.deliver(signedFor(ours)), '200')

  const elsewhere = await startHooks(t)
  await elsewhere.module({ provider: 'twilio', secret })
  const hostports = [`${HOST}:443`, `${HOST}:8443`, '*.example.com:9443', 'x.example.com:7443']
  t.equal((await elsewhere.ask(elsewhere.edge, { method: 'PATCH', body: { hostports } })).status, 200)
  for (const port of [8443, 9443, 443]) {
    const signed = signedFor(`https://${HOST}:${port}/call?x=%2f`)
    t.equal(await elsewhere.deliver(signed), '200', `the edge says that it is known by port ${port}`)
  }
  for (const url of [`https://${HOST}:7443/call?x=%2f`, 'https://x.example.com:7443/call?x=%2f']) {
    t.equal(await elsewhere.deliver(signedFor(url)), UNVERIFIED, 'a port of another name is none of this one')
  }
})

t.test('the action and the module are one verification', async (t) => {
  const { deliver, ask, route, taken } = await startHooks(t)
  const { sign, secret } = sender('slack')
  const value = JSON.stringify({
    on_http_request: [{ actions: [{ type: 'verify-webhook', config: { provider: 'slack', secret } }] }]
  })
  t.equal((await ask(`${route}/traffic_policy`, { method: 'PUT', body: { value } })).status, 200)
  t.equal(await deliver(sign(Date.now())), '200')
  t.equal(await deliver(tampered(sender('slack'), sign(Date.now()))), UNVERIFIED)
  t.equal(taken.length, 1)
})

t.test('without its secret nobody passes', async (t) => {
  const kit = new Kit()
  const scope = {
    owner: 'route_1',
    services: kit.services,
    service: kit.services.service,
    keep: <T>(key: readonly unknown[], make: (identity: string) => T) => make(JSON.stringify(key)),
    secret: () => undefined
  }
  const [module] = webhook.modules ?? []
  if (module === undefined) throw new Error('the feature has no module')
  const compiled = module.compile({ provider: 'github' }, scope)
  const flow = makeFlow({ method: 'POST' })
  const verdict = await compiled.request?.(flow, { ...flow.units, policy: () => undefined })
  t.equal(outcomeOf(verdict), '503 WEBHOOK_SECRET_UNAVAILABLE')
})

/** An HTTPS server on port 443 of an address of this machine that nobody else uses; undefined when we may not. */
async function serveCertificates(t: Test, host: string, page: string): Promise<{ ca: string } | undefined> {
  const authority = await issue({
    subject: 'CN=test authority',
    extensions: [new BasicConstraintsExtension(true, undefined, true)]
  })
  const names = new SubjectAlternativeNameExtension([{ type: 'dns', value: host }])
  const identity = await issue({ subject: `CN=${host}`, issuer: authority, extensions: [names] })
  const server = createSecureServer({ cert: identity.pem, key: identity.key }, (_, response) => response.end(page))
  const listening = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(443, '127.77.0.1', () => resolve(true))
  })
  if (!listening) return undefined
  const { lookup } = dns
  dns.lookup = (async () => [{ address: '127.77.0.1', family: 4 }]) as unknown as typeof dns.lookup
  syncBuiltinESMExports()
  t.teardown(() => {
    dns.lookup = lookup
    syncBuiltinESMExports()
    server.close()
    server.closeAllConnections()
  })
  return { ca: authority.pem }
}

t.test('sns: the certificate is fetched by the guarded client, and only from Amazon', async (t) => {
  const host = 'sns.eu-west-1.amazonaws.com'
  const signer = await issue({ subject: 'CN=sns.amazonaws.com', algorithm: 'rsa' })
  const served = await serveCertificates(t, host, signer.pem)
  if (served === undefined) {
    t.plan(0, 'port 443 may not be bound here')
    return
  }
  const ca = join(t.testdir(), 'ca.pem')
  await writeFile(ca, served.ca)
  // The name is answered by a double of the system's look-up.
  const options = { OUTBOUND_ALLOW_PRIVATE: 'on', OUTBOUND_CA: ca, DNS_RESOLVER: 'system' }
  const { module, deliver, taken } = await startHooks(t, { options })
  await module({ provider: 'sns' })
  const message: Record<string, string> = {
    Message: 'hello',
    MessageId: '1',
    Timestamp: new Date().toISOString(),
    TopicArn: 'arn:aws:sns:eu-west-1:1:t',
    Type: 'Notification'
  }
  const text = Object.keys(message)
    .map((name) => `${name}\n${message[name]}\n`)
    .join('')
  const Signature = createSign('sha256').update(text).sign(signer.key, 'base64')
  const post = (url: string, more: object = {}) => {
    const body = JSON.stringify({ ...message, SignatureVersion: '2', Signature, SigningCertURL: url, ...more })
    const headers = ['Content-Type', 'text/plain']
    return deliver({ method: 'POST', url: `https://${HOST}/sns`, headers, body: Buffer.from(body) })
  }
  const file = 'SimpleNotificationService-1.pem'
  t.equal(await post(`https://evil.test/${file}`), UNVERIFIED)
  t.equal(await post(`https://${host}:8443/${file}`), UNVERIFIED)
  t.equal(taken.length, 0)
  t.equal(await post(`https://${host}/${file}`), '200')
  t.equal(await post(`https://${host}/${file}`, { Message: 'other' }), UNVERIFIED)
  t.equal(taken.length, 1)
})

t.test('sns: a certificate that cannot be had is no fault of the sender', async (t) => {
  const { lookup } = dns
  // An address that no guarded client may reach.
  dns.lookup = (async () => [{ address: '169.254.169.254', family: 4 }]) as unknown as typeof dns.lookup
  syncBuiltinESMExports()
  t.teardown(() => {
    dns.lookup = lookup
    syncBuiltinESMExports()
  })
  const { module, deliver, taken } = await startHooks(t, { options: { DNS_RESOLVER: 'system' } })
  await module({ provider: 'sns' })
  const body = JSON.stringify({
    Message: 'hello',
    MessageId: '1',
    Timestamp: new Date().toISOString(),
    TopicArn: 't',
    Type: 'Notification',
    SignatureVersion: '2',
    Signature: 'AAAA',
    SigningCertURL: 'https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem'
  })
  const delivery = { method: 'POST', url: `https://${HOST}/`, headers: [], body: Buffer.from(body) }
  t.equal(await deliver(delivery), '503 WEBHOOK_CERTIFICATE_UNAVAILABLE')
  t.equal(taken.length, 0)
})
