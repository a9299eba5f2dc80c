import 'reflect-metadata'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { type ConnectionOptions, connect } from 'node:tls'
import { BasicConstraintsExtension, SubjectAlternativeNameExtension } from '@peculiar/x509'
import t, { type Test } from 'tap'
import { account, create, site, visit } from '../helpers/account.js'
import { ManualClock } from '../helpers/clock.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { answering, RawUpstream } from '../helpers/upstream.js'
import { issue, revocationList } from '../resources/certificates.js'
import { freePort } from './free-port.js'
import { type Authority, askTls, authority, certificate, session, shownTo } from './tls-client.js'

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

interface Started {
  readonly sluice: RunningSluice
  /** Of the TLS listener. */
  readonly port: number
  readonly backend: string
  readonly ca: Authority
}

async function start(t: Test, clock?: ManualClock): Promise<Started> {
  const port = await freePort()
  const sluice = await startSluice(t, {
    options: { LISTENERS: `https://127.0.0.1:${port}` },
    ...(clock === undefined ? {} : { clock })
  })
  const upstream = await RawUpstream.start(t, answering(OK))
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  return { sluice, port, backend: id, ca: await authority('Test CA') }
}

async function upload(sluice: RunningSluice, { pem, key }: Authority): Promise<string> {
  return (await create(sluice, '/tls_certificates', { certificate_pem: pem, private_key_pem: key })).id
}

const from = (id: string) => ({ backend: { backend_id: id } })

/** Asks clients of an edge for certificates that this authority has signed. */
async function mutual(sluice: RunningSluice, edge: string, { pem }: Authority): Promise<void> {
  const ca = await create(sluice, '/certificate_authorities', { ca_pem: pem })
  const body = { enabled: true, certificate_authority_ids: [ca.id] }
  const answer = await account(sluice)(`${edge}/mutual_tls`, { method: 'PUT', body })
  if (answer.status !== 200) throw new Error(answer.text)
}

t.test('the certificate is chosen by the name that the client asks for', async (t) => {
  const { sluice, port, backend, ca } = await start(t)
  for (const host of ['a.example.com', 'b.example.com', 'x.wild.example.com']) await site(sluice, host, from(backend))
  await upload(sluice, await certificate('A', ca, ['a.example.com']))
  await upload(sluice, await certificate('B', ca, ['b.example.com']))
  await upload(sluice, await certificate('W', ca, ['*.wild.example.com']))
  t.match(await askTls(port, 'a.example.com', { ca: ca.pem }), { status: 200, body: 'ok', certificate: 'CN=A' })
  t.match(await askTls(port, 'b.example.com', { ca: ca.pem }), { status: 200, certificate: 'CN=B' })
  t.match(await askTls(port, 'x.wild.example.com', { ca: ca.pem }), { status: 200, certificate: 'CN=W' })
})

t.test('a valid certificate comes first, then one for the name, and a wildcard stands for one label', async (t) => {
  const { sluice, port, ca } = await start(t)
  const shown = (servername: string) => shownTo(port, { servername })
  await upload(sluice, await certificate('W', ca, ['*.example.com']))
  await upload(sluice, await certificate('Ended', ca, ['a.example.com'], -1_000))
  t.equal(await shown('a.example.com'), 'CN=W', 'an expired one for the name hides no wildcard')
  await upload(sluice, await certificate('Ended', ca, ['only.test'], -1_000))
  t.equal(await shown('only.test'), 'CN=Ended', 'but is shown where there is no other')
  t.match(await shown('x.a.example.com'), /development/)
  await upload(sluice, await certificate('A', ca, ['a.example.com'], 1_000_000))
  t.equal(await shown('a.example.com'), 'CN=A')
  await upload(sluice, await certificate('C', ca, ['c.example.com']))
  const certificate_id = await upload(sluice, await certificate('Chosen', ca, ['c.example.com'], 1_000_000))
  await create(sluice, '/reserved_domains', { domain: 'c.example.com', certificate_id })
  t.equal(await shown('c.example.com'), 'CN=Chosen', 'what the operator has chosen comes before what lives longer')
})

t.test('RSA beside ECDSA for one name: every client gets what it can use', async (t) => {
  const { sluice, port, backend, ca } = await start(t)
  await site(sluice, 'a.example.com', from(backend))
  const names = new SubjectAlternativeNameExtension([{ type: 'dns', value: 'a.example.com' }])
  const life = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) }
  const middle = await issue({
    subject: 'CN=Middle',
    issuer: ca,
    extensions: [new BasicConstraintsExtension(true)],
    ...life
  })
  const rsa = await issue({ subject: 'CN=R', algorithm: 'rsa', issuer: middle, extensions: [names], ...life })
  await upload(sluice, { ...rsa, pem: rsa.pem + middle.pem })
  await upload(sluice, await certificate('E', ca, ['a.example.com']))
  const old = { maxVersion: 'TLSv1.2', ca: ca.pem } as const
  for (const [kind, subject] of [
    ['RSA', 'CN=R'],
    ['ECDSA', 'CN=E']
  ]) {
    const wanted = { ...old, ciphers: `ECDHE-${kind}-AES128-GCM-SHA256` }
    t.match(await askTls(port, 'a.example.com', wanted), { status: 200, certificate: subject }, `${kind}, TLS 1.2`)
  }
  const modern = { minVersion: 'TLSv1.3', ca: ca.pem, sigalgs: 'rsa_pss_rsae_sha256:ecdsa_secp256r1_sha256' } as const
  t.match(await askTls(port, 'a.example.com', modern), { status: 200 })
  t.match(await askTls(port, 'a.example.com', { ...modern, sigalgs: 'rsa_pss_rsae_sha256' }), { certificate: 'CN=R' })
  const client = session(port, 'a.example.com')
  t.equal((await client.ask('a.example.com')).status, 200)
  client.close()
})

t.test('a client that dials an address is shown the certificate for it', async (t) => {
  const { sluice, port, backend, ca } = await start(t)
  await site(sluice, '127.0.0.1', from(backend))
  await upload(sluice, await certificate('A', ca, ['a.example.com']))
  const addressed = (subject: string, value: string) =>
    issue({
      subject: `CN=${subject}`,
      issuer: ca,
      extensions: [new SubjectAlternativeNameExtension([{ type: 'ip', value }])],
      notBefore: new Date(Date.now() - 60_000),
      notAfter: new Date(Date.now() + 3_600_000)
    })
  const asked = { servername: '', ca: ca.pem } as const
  await upload(sluice, await addressed('Public', '203.0.113.5'))
  t.equal(await shownTo(port, { servername: '' }), 'CN=Public', 'behind a translation of addresses: the only one')
  t.match(await askTls(port, '127.0.0.1', { servername: '' }), { status: 200 })
  await upload(sluice, await addressed('Local', '127.0.0.1'))
  t.match(await askTls(port, '127.0.0.1', asked), { status: 200, certificate: 'CN=Local' })
})

t.test('a client certificate is checked against an intermediate authority too', async (t) => {
  const { sluice, port, backend } = await start(t)
  const { edge } = await site(sluice, 'a.example.com', from(backend))
  const root = await authority('Root')
  const life = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) }
  const extensions = [new BasicConstraintsExtension(true, undefined, true)]
  const middle = await issue({ subject: 'CN=Middle', issuer: root, serialNumber: '77', extensions, ...life })
  await mutual(sluice, edge, middle as Authority)
  const [good, bad] = [await certificate('good', middle), await certificate('bad', root)]
  t.match(await askTls(port, 'a.example.com', { cert: good.pem, key: good.key }), { status: 200 })
  await t.rejects(
    askTls(port, 'a.example.com', { cert: bad.pem, key: bad.key }),
    'what only the root has signed is not let in'
  )
})

t.test('without a certificate a self-signed one is shown, and the log says so once for each name', async (t) => {
  const { sluice, port, backend } = await start(t)
  await site(sluice, 'a.example.com', from(backend))
  for (let i = 0; i < 3; i++) t.match(await askTls(port, 'a.example.com'), { status: 200, certificate: /development/ })
  const warnings = sluice.log.filter(({ msg }) => /self-signed/.test(String(msg)))
  t.match(warnings, [{ name: 'a.example.com' }])
  t.equal(warnings.length, 1)
})

t.test('another certificate is shown from the next handshake on, and nobody is dropped', async (t) => {
  const { sluice, port, backend, ca } = await start(t)
  await site(sluice, 'a.example.com', from(backend))
  const first = await upload(sluice, await certificate('One', ca, ['a.example.com'], 1_000_000))
  const open = session(port, 'a.example.com')
  t.equal((await open.ask('a.example.com')).status, 200)
  await upload(sluice, await certificate('Two', ca, ['a.example.com']))
  t.equal((await account(sluice)(`/tls_certificates/${first}`, { method: 'DELETE' })).status, 204)
  t.equal(await shownTo(port, { servername: 'a.example.com' }), 'CN=Two')
  t.equal((await open.ask('a.example.com')).status, 200, 'on the connection that has seen the former one')
  open.close()
})

t.test(
  'HTTP/2 is spoken with those who choose it; hosts of one certificate share a connection, others do not',
  async (t) => {
    const { sluice, port, backend, ca } = await start(t)
    for (const host of ['a.example.com', 'b.example.com', 'c.example.com']) await site(sluice, host, from(backend))
    await upload(sluice, await certificate('AB', ca, ['a.example.com', 'b.example.com']))
    await upload(sluice, await certificate('C', ca, ['c.example.com']))
    const client = session(port, 'a.example.com')
    t.match(await client.ask('a.example.com'), { status: 200, body: 'ok' })
    t.match(await client.ask('b.example.com'), { status: 200 })
    t.match(await client.ask('c.example.com'), { status: 421, code: 'MISDIRECTED_REQUEST' })
    t.match(await client.ask('a.example.com'), { status: 200 }, 'the connection goes on')
    client.close()
    t.match(await askTls(port, 'c.example.com', { servername: 'a.example.com' }), { status: 421 }, 'HTTP/1.1 too')
    t.match(await askTls(port, 'a.example.com', { servername: '' }), { status: 421 }, 'and without a name')
  }
)

t.test('mutual TLS: only a client whose certificate an authority has signed is let in', async (t) => {
  const { sluice, port, backend, ca } = await start(t)
  const { edge } = await site(sluice, 'a.example.com', from(backend))
  const clients = await authority('Clients')
  await mutual(sluice, edge, clients)
  const good = await certificate('client', clients)
  const bad = await certificate('client', ca)
  t.match(await askTls(port, 'a.example.com', { cert: good.pem, key: good.key }), { status: 200 })
  await t.rejects(askTls(port, 'a.example.com'), 'without one')
  await t.rejects(askTls(port, 'a.example.com', { cert: bad.pem, key: bad.key }), 'of another authority')
  const refused = ({ failure }: Record<string, unknown>) => failure === 'certificate-refused'
  t.match(await sluice.line(refused), { msg: 'handshake failed', reason: /ISSUER|VERIFY/ })
  t.match(await sluice.line(({ msg }) => msg === 'handshake failed'), { failure: /certificate/ })
})

t.test(
  'mutual TLS cannot be passed by over a connection of another host, without TLS, or with an old session',
  async (t) => {
    const { sluice, port, backend, ca } = await start(t)
    const { edge } = await site(sluice, 'closed.example.com', from(backend))
    await site(sluice, 'open.example.com', from(backend))
    await upload(sluice, await certificate('Both', ca, ['closed.example.com', 'open.example.com']))
    const before = session(port, 'closed.example.com')
    t.match(await before.ask('closed.example.com'), { status: 200 }, 'nothing is asked yet')
    // A ticket of a time when nothing was asked.
    const early = connect({ host: '127.0.0.1', port, servername: 'closed.example.com', rejectUnauthorized: false })
    const ticket = (await once(early, 'session')) as [Buffer]
    early.destroy()
    const [first, second] = [await authority('First'), await authority('Second')]
    await mutual(sluice, edge, first)
    t.match(await before.ask('closed.example.com'), { status: 421, code: 'MISDIRECTED_REQUEST' })
    before.close()
    const other = session(port, 'open.example.com')
    t.match(await other.ask('open.example.com'), { status: 200 })
    t.match(await other.ask('closed.example.com'), { status: 421 })
    other.close()
    t.match(await askTls(port, 'closed.example.com', { servername: 'open.example.com' }), { status: 421 })
    t.match(await visit(sluice, 'closed.example.com'), {
      status: 421,
      headers: { 'sluice-error-code': 'MISDIRECTED_REQUEST' }
    })
    await t.rejects(askTls(port, 'closed.example.com', { session: ticket[0] }), 'an old ticket opens nothing')
    const client = await certificate('client', first)
    const known = session(port, 'closed.example.com', { cert: client.pem, key: client.key })
    t.match(await known.ask('closed.example.com'), { status: 200 })
    await mutual(sluice, edge, second)
    t.match(await known.ask('closed.example.com'), { status: 421 }, 'another authority is asked for now')
    known.close()
  }
)

t.test('the lowest version of an edge is kept; nothing below 1.2 is spoken', async (t) => {
  const { sluice, port, backend } = await start(t)
  const { edge } = await site(sluice, 'new.example.com', from(backend))
  await site(sluice, 'any.example.com', from(backend))
  const body = { enabled: true, min_version: '1.3' }
  t.match(await account(sluice)(edge, { method: 'PATCH', body: { tls_termination: body } }), { status: 200 })
  await t.rejects(askTls(port, 'new.example.com', { maxVersion: 'TLSv1.2' }))
  t.match(await askTls(port, 'new.example.com'), { status: 200 })
  t.match(await askTls(port, 'any.example.com', { maxVersion: 'TLSv1.2' }), { status: 200 })
  const coalesced = session(port, 'any.example.com', { maxVersion: 'TLSv1.2' })
  t.match(await coalesced.ask('new.example.com'), { status: 421 })
  coalesced.close()
  await t.rejects(
    askTls(port, 'any.example.com', { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT:@SECLEVEL=0' })
  )
})

t.test('sessions are resumed, until the ticket keys are made anew', async (t) => {
  const clock = new ManualClock(Date.now())
  const { sluice, port, backend, ca } = await start(t, clock)
  await site(sluice, 'a.example.com', from(backend))
  await upload(sluice, await certificate('A', ca, ['a.example.com']))
  const shake = async (session?: Buffer) => {
    const options = { host: '127.0.0.1', port, servername: 'a.example.com', rejectUnauthorized: false }
    const socket = connect({ ...options, ...(session === undefined ? {} : { session }) })
    const ticket = session === undefined ? (((await once(socket, 'session')) as [Buffer])[0] as Buffer) : session
    if (session !== undefined) await once(socket, 'secureConnect')
    const reused = socket.isSessionReused()
    socket.destroy()
    return { ticket, reused }
  }
  const { ticket, reused } = await shake()
  t.equal(reused, false)
  t.equal((await shake(ticket)).reused, true)
  clock.advance(13 * 3_600_000)
  t.equal((await shake(ticket)).reused, false)
})

t.test('policies see the handshake and both certificates', async (t) => {
  const { sluice, port, backend, ca } = await start(t)
  const value = `on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 200, body: "\${conn.tls.sni} \${conn.tls.version} \${conn.tls.negotiated_alpn} \${conn.tls.server.subject.common_name} \${conn.tls.server.san.dns_names[0]} \${conn.tls.client.subject.common_name} \${endpoint.protocol}" } }] }]`
  const { edge } = await site(sluice, 'a.example.com', { ...from(backend), traffic_policy: { enabled: true, value } })
  await upload(sluice, await certificate('A', ca, ['a.example.com']))
  await mutual(sluice, edge, ca)
  const { pem, key } = await certificate('alice', ca)
  const client = session(port, 'a.example.com', { cert: pem, key })
  t.equal((await client.ask('a.example.com')).body, 'a.example.com 1.3 h2 A a.example.com alice https')
  client.close()
})

t.test(
  'mutual TLS: a client whose certificate is on a revocation list is refused from its next handshake on',
  async (t) => {
    const { sluice, port, backend } = await start(t)
    const ask = account(sluice)
    const { edge } = await site(sluice, 'a.example.com', from(backend))
    const [clients, others] = [await authority('Clients'), await authority('Others')]
    const middle = await issue({
      subject: 'CN=Middle',
      issuer: clients,
      serialNumber: '77',
      extensions: [new BasicConstraintsExtension(true, undefined, true)],
      notBefore: new Date(Date.now() - 60_000),
      notAfter: new Date(Date.now() + 3_600_000)
    })
    const made = await create(sluice, '/certificate_authorities', { ca_pem: clients.pem })
    const other = await create(sluice, '/certificate_authorities', { ca_pem: others.pem })
    const path = `/certificate_authorities/${made.id}`
    const mutual_tls = { certificate_authority_ids: [made.id, other.id] }
    t.equal((await ask(edge, { method: 'PATCH', body: { mutual_tls } })).status, 200)
    const [bad, good] = [await certificate('bad', clients), await certificate('good', clients)]
    const [third, below] = [await certificate('third', others), await certificate('below', middle)]
    const shown = (one: Authority, chain = '') => ({ cert: one.pem + chain, key: one.key })
    const client = { servername: 'a.example.com', rejectUnauthorized: false, host: '127.0.0.1', port }
    const ticket = async (options: ConnectionOptions): Promise<Buffer> => {
      const socket = connect({ ...client, ...options })
      const [session] = (await once(socket, 'session')) as [Buffer]
      socket.destroy()
      return session
    }
    for (const one of [bad, good, third]) t.match(await askTls(port, 'a.example.com', shown(one)), { status: 200 })
    t.match(await askTls(port, 'a.example.com', shown(below, middle.pem)), { status: 200 })
    const versions = ['TLSv1.2', 'TLSv1.3'] as const
    const before = await Promise.all(versions.map((maxVersion) => ticket({ ...shown(bad), maxVersion })))
    const [open, fine] = [session(port, 'a.example.com', shown(bad)), session(port, 'a.example.com', shown(good))]
    t.match(await open.ask('a.example.com'), { status: 200 })
    t.match(await fine.ask('a.example.com'), { status: 200 })

    const serial = new X509Certificate(bad.pem).serialNumber
    const crl_pem = await revocationList(clients, [serial])
    const told = await ask(path, { method: 'PATCH', body: { crl_pem } })
    t.match(told, { status: 200, json: { crl_pem, revoked_serial_numbers: [serial.toLowerCase().replace(/^0+/, '')] } })
    for (const [index, maxVersion] of versions.entries()) {
      const asked = { ...shown(bad), maxVersion }
      await t.rejects(askTls(port, 'a.example.com', asked), maxVersion)
      await t.rejects(
        askTls(port, 'a.example.com', { ...asked, session: before[index] as Buffer }),
        'nor is a session resumed'
      )
    }
    t.match(await sluice.line(({ msg }) => msg === 'handshake failed'), { failure: 'certificate-revoked' })
    t.match(await open.ask('a.example.com'), { status: 421 }, 'on the open connection too')
    t.match(await open.ask('a.example.com'), { status: 421 })
    t.match(await fine.ask('a.example.com'), { status: 200 }, 'the connections of others go on')
    open.close()
    fine.close()
    for (const one of [good, third]) t.match(await askTls(port, 'a.example.com', shown(one)), { status: 200 })
    t.match(await askTls(port, 'a.example.com', shown(below, middle.pem)), { status: 200 })

    const whole = await ask(path, { method: 'PATCH', body: { crl_pem: await revocationList(clients, ['77']) } })
    t.equal(whole.status, 200)
    for (let i = 0; i < 2; i++)
      await t.rejects(askTls(port, 'a.example.com', shown(below, middle.pem)), 'an authority between them is revoked')
    t.match(await askTls(port, 'a.example.com', shown(bad)), { status: 200 }, 'and this one is on no list any more')
    const wrong = await ask(path, { method: 'PATCH', body: { crl_pem: await revocationList(others, ['77']) } })
    t.match(wrong, { status: 400, json: { details: { field: 'crl_pem', reason: 'CRL_ISSUER' } } })
    await t.rejects(askTls(port, 'a.example.com', shown(below, middle.pem)), 'what was refused has changed nothing')
    t.match(await ask(path, { method: 'PATCH', body: { crl_pem: '' } }), { json: { revoked_serial_numbers: [] } })
    t.match(await askTls(port, 'a.example.com', shown(below, middle.pem)), { status: 200 })
  }
)
