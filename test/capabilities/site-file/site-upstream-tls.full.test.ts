import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import t from 'tap'
import { makeAuthority, makeServerCertificate } from '../../../src/lib/self-signed.js'
import { until } from '../../helpers/until.js'
import { call, get, started, stopped } from './site-kit.js'

const DAY = 86_400_000
const SITE = `
vaults:
  upstreams:
    key: { file: client.key }
backends:
  web:
    servers: [https://127.0.0.1:PORT]
    tls:
      ca: ca.pem
      server_name: upstream.test
      client_certificate: { certificate: client.pem, key: KEY }
sites:
  shop.example.com: web
`

/** A client's certificate with its key. OpenSSL signs them with one authority. */
function client(folder: string, name: string): { readonly cert: string; readonly key: string } {
  const at = (file: string) => join(folder, file)
  const run = (...words: string[]) => execFileSync('openssl', words, { stdio: 'ignore' })
  run(
    'req',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-keyout',
    at(`${name}.key`),
    '-subj',
    `/CN=${name}`,
    '-out',
    at('csr')
  )
  run(
    'x509',
    '-req',
    '-in',
    at('csr'),
    '-CA',
    at('clients.pem'),
    '-CAkey',
    at('clients.key'),
    '-CAcreateserial',
    '-days',
    '2',
    '-out',
    at(`${name}.crt`)
  )
  return { cert: readFileSync(at(`${name}.crt`), 'utf8'), key: readFileSync(at(`${name}.key`), 'utf8') }
}

t.test('a site file shows a certificate to its servers, and a renewed one as soon as it is there', async (t) => {
  const now = Date.now()
  const authority = await makeAuthority('CN=Upstreams', { now, life: DAY })
  const signer = { subject: 'CN=Upstreams', key: authority.key }
  const own = await makeServerCertificate('CN=upstream', ['upstream.test'], { now, life: DAY }, signer)
  const made = t.testdir({})
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:P-256',
      '-nodes',
      '-days',
      '2',
      '-subj',
      '/CN=Clients',
      '-keyout',
      join(made, 'clients.key'),
      '-out',
      join(made, 'clients.pem')
    ],
    { stdio: 'ignore' }
  )
  const [first, second] = [client(made, 'first'), client(made, 'second')]
  const server = createServer(
    {
      cert: own.cert,
      key: own.key,
      requestCert: true,
      rejectUnauthorized: true,
      ca: readFileSync(join(made, 'clients.pem'))
    },
    (request, response) => response.end((request.socket as TLSSocket).getPeerX509Certificate()?.subject)
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  for (const key of ['client.key', '{ vault: upstreams/key }', '{ env: CLIENT_KEY }']) {
    const folder = join(made, `site-${key.length}`)
    await mkdir(folder)
    const write = async (name: string, text: string) => {
      await writeFile(join(folder, `${name}.new`), text)
      await rename(join(folder, `${name}.new`), join(folder, name))
    }
    await write('ca.pem', authority.cert)
    await write('client.pem', first.cert)
    await write('client.key', first.key)
    await write('sites.yaml', SITE.replace('PORT', String(port)).replace('KEY', key))
    const { process, traffic, api } = await started(t, folder, { CLIENT_KEY: first.key }, 'sites.yaml')
    const url = traffic
    t.equal(await get(url, 'shop.example.com'), '200 CN=first', key)
    const certificates = await call(api, 'GET', '/tls_certificates')
    t.equal(new X509Certificate(certificates.body.tls_certificates[0].certificate_pem).subject, 'CN=first')
    t.notOk(JSON.stringify(certificates.body).includes('PRIVATE KEY'))
    if (key === 'client.key') {
      await write('client.key', second.key)
      await write('client.pem', second.cert)
      await until(async () => (await get(url, 'shop.example.com')) === '200 CN=second')
    }
    await stopped(process)
  }
})
