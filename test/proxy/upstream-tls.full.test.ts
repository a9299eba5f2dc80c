import { execFileSync } from 'node:child_process'
import { createHash, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createSecureServer } from 'node:http2'
import { createServer, type Server, type ServerOptions } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { type KeyedCertificate, makeAuthority, makeServerCertificate } from '../../src/lib/self-signed.js'
import { account, create, site, visit } from '../helpers/account.js'
import { fixture } from '../helpers/files.js'
import { needs, peerProgram } from '../helpers/peer-program.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { until } from '../helpers/until.js'
import { onEngines } from '../wire/engines.js'
import { freePort } from './free-port.js'

const HOST = 'shop.example.com'
const DAY = 86_400_000
const AUTHORITY = 'CN=Authority of upstreams'
const file = (name: string) => readFileSync(fileURLToPath(fixture(`tls/${name}`)), 'utf8')
const CLIENT = { certificate_pem: file('client.crt'), private_key_pem: file('client.key') }
const STRANGER = { certificate_pem: file('stranger.crt'), private_key_pem: file('stranger.key') }

const now = Date.now()
const authority = await makeAuthority(AUTHORITY, { now, life: DAY })
const signed = (name: string, validity = { now, life: DAY }) =>
  makeServerCertificate('CN=upstream', [name], validity, { subject: AUTHORITY, key: authority.key })
const good = await signed('upstream.test')
const expired = await signed('upstream.test', { now: now - 3 * DAY, life: DAY })
const self = await makeServerCertificate('CN=on its own', ['own.test'], { now, life: DAY })

/** An upstream over TLS that answers with the common name of its client. */
async function upstream(t: Test, { cert, key }: KeyedCertificate, options: ServerOptions = {}): Promise<string> {
  const server: Server = createServer({ cert, key, ...options }, (request, response) => {
    const { getPeerX509Certificate } = request.socket as unknown as { getPeerX509Certificate(): X509Certificate }
    response.end(getPeerX509Certificate.call(request.socket)?.subject ?? 'no certificate')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function backend(sluice: RunningSluice, address: string, tls: object, more: object = {}) {
  const { id } = await create(sluice, '/backends/static', { address, tls: { enabled: true, ...tls }, ...more })
  await site(sluice, HOST, { backend: { backend_id: id } })
  return id as string
}

/** The code of the answer, or its status with the text; and what the log says of a failure. */
async function outcome(sluice: RunningSluice): Promise<readonly [answer: string, detail: string]> {
  const { status, headers, body } = await visit(sluice, HOST)
  const code = headers['sluice-error-code']
  if (code === undefined) return [`${status} ${body}`, '']
  const line = await sluice.line(({ msg }) => msg === 'upstream failed')
  return [String(code), String(line.detail)]
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest()
const pinsOf = (cert: string) => {
  const { raw, publicKey } = new X509Certificate(cert)
  const key = sha256(publicKey.export({ type: 'spki', format: 'der' }))
  const certificate = sha256(raw).toString('hex')
  return {
    certificate: `certificate:${certificate}`,
    colons: `certificate:${certificate.toUpperCase().replace(/..(?!$)/g, '$&:')}`,
    key: `public-key:${key.toString('base64')}`
  }
}

const trusted = { ca_pem: authority.cert, server_name: 'upstream.test' }

onEngines('what is wrong with the certificate of an upstream has a code, and the log names it', async (t, engine) => {
  const cases: readonly [string, KeyedCertificate, object, string, RegExp][] = [
    [
      'unknown authority',
      good,
      { server_name: 'upstream.test' },
      'UPSTREAM_CERTIFICATE_UNTRUSTED',
      /CN=Authority of upstreams.*known authorities/
    ],
    [
      'another authority',
      good,
      { ...trusted, ca_pem: self.cert },
      'UPSTREAM_CERTIFICATE_UNTRUSTED',
      /CN=Authority of upstreams.*of the backend/
    ],
    [
      'another name',
      good,
      { ...trusted, server_name: 'shop.test' },
      'UPSTREAM_CERTIFICATE_NAME',
      /not for shop\.test; it has "DNS:upstream\.test"/
    ],
    ['the address as name', good, { ca_pem: authority.cert }, 'UPSTREAM_CERTIFICATE_NAME', /not for 127\.0\.0\.1/],
    ['expired', expired, trusted, 'UPSTREAM_CERTIFICATE_EXPIRED', /"CN=upstream" was valid until/],
    [
      'wrong pin',
      good,
      { ...trusted, pins: [pinsOf(self.cert).certificate] },
      'UPSTREAM_CERTIFICATE_PIN',
      /none of its pins fits "CN=upstream": certificate:[0-9a-f]{64}, public-key:/
    ]
  ]
  for (const [name, shown, tls, code, says] of cases) {
    const sluice = await startSluice(t, { engine })
    await backend(sluice, await upstream(t, shown), tls)
    const [answer, detail] = await outcome(sluice)
    t.equal(answer, code, name)
    t.match(detail, says, name)
    await sluice.stop()
  }
})

onEngines(
  'a pin is enough for a certificate that nobody has issued, and holds beside an authority',
  async (t, engine) => {
    const own = pinsOf(self.cert)
    const passes: readonly [KeyedCertificate, object][] = [
      [self, { pins: [own.certificate] }],
      [self, { pins: [own.colons] }],
      [self, { pins: [pinsOf(good.cert).key, own.key], server_name: 'own.test' }],
      [good, { ...trusted, pins: [pinsOf(good.cert).key] }]
    ]
    for (const [shown, tls] of passes) {
      const sluice = await startSluice(t, { engine })
      await backend(sluice, await upstream(t, shown), tls)
      t.same(await outcome(sluice), ['200 no certificate', ''])
      await sluice.stop()
    }
    const refused: readonly [KeyedCertificate, object, string][] = [
      [self, { pins: [own.key], server_name: 'other.test' }, 'UPSTREAM_CERTIFICATE_NAME'],
      [expired, { pins: [pinsOf(expired.cert).key] }, 'UPSTREAM_CERTIFICATE_EXPIRED'],
      [self, { ...trusted, pins: [own.key] }, 'UPSTREAM_CERTIFICATE_UNTRUSTED']
    ]
    for (const [shown, tls, code] of refused) {
      const sluice = await startSluice(t, { engine })
      await backend(sluice, await upstream(t, shown), tls)
      t.equal((await outcome(sluice))[0], code)
      await sluice.stop()
    }
  }
)

onEngines('an upstream that speaks too old a version is refused', async (t, engine) => {
  const sluice = await startSluice(t, { engine })
  await backend(sluice, await upstream(t, good, { maxVersion: 'TLSv1.2' }), { ...trusted, min_version: '1.3' })
  t.equal((await outcome(sluice))[0], 'UPSTREAM_TLS_VERSION')
})

onEngines('an upstream that wants a client certificate gets it, and no other', async (t, engine) => {
  const mutual = { requestCert: true, rejectUnauthorized: true, ca: file('clients-ca.crt') }
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    const sluice = await startSluice(t, { engine })
    const address = await upstream(t, good, { ...mutual, maxVersion })
    const id = await backend(sluice, address, trusted)
    const code = maxVersion === 'TLSv1.3' ? 'UPSTREAM_CLIENT_CERTIFICATE' : 'UPSTREAM_TLS'
    const [answer, detail] = await outcome(sluice)
    t.equal(answer, code, `${maxVersion} without one`)
    t.match(detail, /client certificate/)
    const certificate = await create(sluice, '/tls_certificates', CLIENT)
    const tls = { enabled: true, ...trusted, client_certificate_id: certificate.id }
    const changed = await account(sluice)(`/backends/static/${id}`, { method: 'PATCH', body: { tls } })
    t.match(changed.json, { tls: { client_certificate: { id: certificate.id } } })
    t.match(await visit(sluice, HOST), { status: 200, body: 'CN=client.test' }, maxVersion)
    const used = await account(sluice)(`/tls_certificates/${certificate.id}`, { method: 'DELETE' })
    t.equal(used.status, 409, 'what is in use stays')
    const stranger = await create(sluice, '/tls_certificates', STRANGER)
    await account(sluice)(`/backends/static/${id}`, {
      method: 'PATCH',
      body: { tls: { ...tls, client_certificate_id: stranger.id } }
    })
    t.equal((await visit(sluice, HOST)).status, 502, 'another one is not enough')
    t.notOk(JSON.stringify(sluice.log).includes('PRIVATE KEY'))
    await sluice.stop()
  }
})

t.test('over HTTP/2 it is the same', async (t) => {
  const sluice = await startSluice(t)
  const server = createSecureServer(
    { ...good, cert: good.cert, requestCert: true, rejectUnauthorized: true, ca: file('clients-ca.crt') },
    (_request, response) => response.end('h2')
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const id = await backend(sluice, address, trusted, { http2: true })
  t.match(await outcome(sluice), ['UPSTREAM_CLIENT_CERTIFICATE', /CERTIFICATE_REQUIRED/])
  const certificate = await create(sluice, '/tls_certificates', CLIENT)
  await account(sluice)(`/backends/static/${id}`, {
    method: 'PATCH',
    body: { tls: { enabled: true, ...trusted, client_certificate_id: certificate.id } }
  })
  t.match(await visit(sluice, HOST), { status: 200, body: 'h2' })
})

t.test('a health check tells the same', async (t) => {
  const sluice = await startSluice(t)
  const health = { type: 'tcp', interval: 0.1 }
  const id = await backend(sluice, await upstream(t, good), { ...trusted, server_name: 'shop.test' }, { health })
  await until(async () => {
    const { json } = await account(sluice)(`/backends/static/${id}`)
    return /^tls-name: its certificate is not for shop\.test/.test(json.state.reason)
  })
})

t.test('what is no pin and no certificate is refused when it is written', async (t) => {
  const sluice = await startSluice(t)
  const write = (tls: object) =>
    account(sluice)('/backends/static', { method: 'POST', body: { address: 'a:1', tls: { enabled: true, ...tls } } })
  for (const pin of ['certificate:abc', 'sha1:00', `${'0'.repeat(64)}`, 'public-key:!!']) {
    const answer = await write({ pins: [pin] })
    t.equal(answer.status, 400, pin)
    t.match(answer.text, /tls\.pins/)
  }
  t.match((await write({ client_certificate_id: 'cert_nothing' })).text, /tls\.client_certificate_id/)
  t.match((await write({ client_certificate_id: 'ca_1' })).text, /REF_INVALID/)
})

function files(t: Test): string {
  return t.testdir({ 'cert.pem': good.cert, 'key.pem': good.key, 'clients.pem': file('clients-ca.crt') })
}

const OPENSSL = needs('/usr/bin/openssl')

t.test('a server of OpenSSL gets the client certificate', OPENSSL, async (t) => {
  const folder = files(t)
  const port = await freePort()
  const at = (name: string) => join(folder, name)
  const words = ['s_server', '-accept', `127.0.0.1:${port}`, '-www', '-quiet', '-Verify', '1', '-verify_return_error']
  await peerProgram(t, port, '/usr/bin/openssl', [
    ...words,
    ...['-cert', at('cert.pem'), '-key', at('key.pem'), '-CAfile', at('clients.pem')]
  ])
  const sluice = await startSluice(t)
  const id = await backend(sluice, `127.0.0.1:${port}`, trusted)
  t.equal((await outcome(sluice))[0], 'UPSTREAM_CLIENT_CERTIFICATE')
  const certificate = await create(sluice, '/tls_certificates', CLIENT)
  await account(sluice)(`/backends/static/${id}`, {
    method: 'PATCH',
    body: { tls: { enabled: true, ...trusted, client_certificate_id: certificate.id } }
  })
  const { status, body } = await visit(sluice, HOST)
  t.equal(status, 200)
  t.match(body, /CN\s*=\s*client\.test/)
})

const NGINX = needs('/usr/sbin/nginx')

t.test('nginx gets the client certificate', NGINX, async (t) => {
  const folder = files(t)
  const port = await freePort()
  await writeFile(
    join(folder, 'conf'),
    `daemon off; pid ${folder}/pid; error_log ${folder}/log; events {}
http {
  access_log off;
  client_body_temp_path ${folder}; proxy_temp_path ${folder}; fastcgi_temp_path ${folder}; uwsgi_temp_path ${folder}; scgi_temp_path ${folder};
  server {
    listen 127.0.0.1:${port} ssl;
    ssl_certificate ${folder}/cert.pem; ssl_certificate_key ${folder}/key.pem;
    ssl_client_certificate ${folder}/clients.pem; ssl_verify_client on;
    location / { return 200 "$ssl_client_s_dn"; }
  }
}
`
  )
  execFileSync('/usr/sbin/nginx', ['-t', '-p', folder, '-c', join(folder, 'conf')], { stdio: 'ignore' })
  await peerProgram(t, port, '/usr/sbin/nginx', ['-p', folder, '-c', join(folder, 'conf')])
  const sluice = await startSluice(t)
  const id = await backend(sluice, `127.0.0.1:${port}`, trusted)
  t.equal((await visit(sluice, HOST)).status, 400, 'nginx answers who shows none')
  const certificate = await create(sluice, '/tls_certificates', CLIENT)
  await account(sluice)(`/backends/static/${id}`, {
    method: 'PATCH',
    body: { tls: { enabled: true, ...trusted, client_certificate_id: certificate.id } }
  })
  t.match(await visit(sluice, HOST), { status: 200, body: 'CN=client.test' })
})
