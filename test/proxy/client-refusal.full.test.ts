import 'reflect-metadata'
import { X509Certificate } from 'node:crypto'
import { type ConnectionOptions, connect } from 'node:tls'
import { BasicConstraintsExtension, ExtendedKeyUsage, ExtendedKeyUsageExtension } from '@peculiar/x509'
import t, { type Test } from 'tap'
import { account, create, site } from '../helpers/account.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { answering, RawUpstream } from '../helpers/upstream.js'
import { issue, revocationList } from '../resources/certificates.js'
import { freePort } from './free-port.js'
import { type Authority, askTls, authority, certificate } from './tls-client.js'

const HOST = 'a.example.com'
const VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const
const DAY = 86_400_000

interface Started {
  readonly sluice: RunningSluice
  readonly port: number
  readonly clients: Authority
  /** Path of the authority of clients. */
  readonly path: string
}

/** An edge that asks clients for certificates. */
async function start(t: Test): Promise<Started> {
  const port = await freePort()
  const sluice = await startSluice(t, { options: { LISTENERS: `https://127.0.0.1:${port}` } })
  const upstream = await RawUpstream.start(t, answering('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'))
  const { id } = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const { edge } = await site(sluice, HOST, { backend: { backend_id: id } })
  const clients = await authority('Clients')
  const made = await create(sluice, '/certificate_authorities', { ca_pem: clients.pem })
  const mutual_tls = { certificate_authority_ids: [made.id] }
  const answer = await account(sluice)(edge, { method: 'PATCH', body: { mutual_tls } })
  if (answer.status !== 200) throw new Error(answer.text)
  return { sluice, port, clients, path: `/certificate_authorities/${made.id}` }
}

/** How a client sees that it is refused. */
function refused(port: number, options: ConnectionOptions): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, servername: HOST, rejectUnauthorized: false, ...options })
  return new Promise((resolve) => {
    let seen = 'closed'
    socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      seen = code ?? ''
    })
    // It is refused before a byte of the application is read.
    socket.on('secureConnect', () => socket.write(`GET / HTTP/1.1\r\nhost: ${HOST}\r\n\r\n`))
    socket.on('data', (bytes: Buffer) => resolve(`answered ${bytes}`))
    socket.on('close', () => resolve(seen))
  })
}

/** The lines about handshakes that have failed, of the last one on. */
const failures = (sluice: RunningSluice) => sluice.log.filter(({ msg }) => msg === 'handshake failed')

async function lineAfter(sluice: RunningSluice, before: number): Promise<Record<string, unknown>> {
  await sluice.line(() => failures(sluice).length > before)
  const lines = failures(sluice).slice(before)
  if (lines.length !== 1) throw new Error(`${lines.length} lines`)
  return lines[0] as Record<string, unknown>
}

const shown = ({ pem, key }: Authority, chain = '') => ({ cert: pem + chain, key })

t.test('a client without a certificate gets an alert that says so', async (t) => {
  const { sluice, port } = await start(t)
  const alerts = {
    'TLSv1.2': /^ERR_SSL_(SSLV3|SSL\/TLS)_ALERT_HANDSHAKE_FAILURE$/,
    'TLSv1.3': /^ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED$/
  }
  for (const version of VERSIONS) {
    const before = failures(sluice).length
    t.match(await refused(port, { minVersion: version, maxVersion: version }), alerts[version])
    t.match(await lineAfter(sluice, before), { failure: 'certificate-missing', sni: HOST, client: '127.0.0.1' })
  }
})

t.test('the line of a refused certificate names it and the cause', async (t) => {
  const { sluice, port, clients } = await start(t)
  const others = await authority('Others')
  const self = await issue({
    subject: 'CN=self',
    notBefore: new Date(Date.now() - DAY),
    notAfter: new Date(Date.now() + DAY)
  })
  const life = { notBefore: new Date(Date.now() - DAY), notAfter: new Date(Date.now() + DAY) }
  const server = await issue({
    subject: 'CN=a server',
    issuer: clients,
    extensions: [new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth])],
    ...life
  })
  const early = await issue({
    subject: 'CN=early',
    issuer: clients,
    notBefore: new Date(Date.now() + DAY),
    notAfter: new Date(Date.now() + 2 * DAY)
  })
  const middle = await issue({
    subject: 'CN=Old middle',
    issuer: clients,
    extensions: [new BasicConstraintsExtension(true, undefined, true)],
    notBefore: new Date(Date.now() - 2 * DAY),
    notAfter: new Date(Date.now() - DAY)
  })
  const cases: readonly (readonly [string, Authority, string, RegExp])[] = [
    [
      'expired',
      await certificate('expired', clients, [], -DAY),
      '',
      /^the certificate of "CN=expired" \(serial number [0-9A-F]+, issued by "CN=Clients"\) was valid until \w+/
    ],
    ['early', early, '', /of "CN=early" .* is not valid before \w+/],
    [
      'of a stranger',
      await certificate('stranger', others),
      '',
      /of "CN=stranger" .*, issued by "CN=Others"\) leads to "CN=Others", which is no authority/
    ],
    ['with its chain', await certificate('below', others), others.pem, /of "CN=below" .* leads to "CN=Others"/],
    ['signed by itself', self, '', /of "CN=self" .* leads to "CN=self"/],
    ['of a server', server, '', /of "CN=a server" .* is not for clients/],
    [
      'below what has expired',
      await certificate('fine', middle),
      middle.pem,
      /of "CN=Old middle" .*, issued by "CN=Clients"\) was valid until/
    ]
  ]
  for (const version of VERSIONS) {
    for (const [name, one, chain, cause] of cases) {
      const before = failures(sluice).length
      const seen = await refused(port, { ...shown(one, chain), minVersion: version, maxVersion: version })
      t.notMatch(seen, /answered/, `${name}: ${seen}`)
      t.match(await lineAfter(sluice, before), { failure: 'certificate-refused', reason: String, cause, sni: HOST })
    }
  }
  t.match(await askTls(port, HOST, shown(await certificate('good', clients))), { status: 200 })
})

t.test('what is revoked, and an issuer that is not shown, have their own words', async (t) => {
  const { sluice, port, clients, path } = await start(t)
  const middle = await issue({
    subject: 'CN=Middle',
    issuer: clients,
    serialNumber: '77',
    extensions: [new BasicConstraintsExtension(true, undefined, true)],
    notBefore: new Date(Date.now() - DAY),
    notAfter: new Date(Date.now() + DAY)
  })
  const bad = await certificate('bad', clients)
  const below = await certificate('below', middle)
  const serial = new X509Certificate(bad.pem).serialNumber
  const crl_pem = await revocationList(clients, [serial, '77'])
  t.equal((await account(sluice)(path, { method: 'PATCH', body: { crl_pem } })).status, 200)
  for (const version of VERSIONS) {
    const only = { minVersion: version, maxVersion: version }
    for (const [one, chain, cause] of [
      [
        bad,
        '',
        new RegExp(`of "CN=bad" \\(serial number ${serial}, issued by "CN=Clients"\\) is revoked by its issuer`)
      ],
      [below, middle.pem, /of "CN=Middle" \(serial number 77, .*\) is revoked by its issuer/]
    ] as const) {
      const before = failures(sluice).length
      t.notMatch(await refused(port, { ...shown(one, chain), ...only }), /answered/)
      t.match(await lineAfter(sluice, before), { failure: 'certificate-revoked', cause })
    }
  }
})
