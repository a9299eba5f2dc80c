import 'reflect-metadata'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { type ConnectionOptions, connect } from 'node:tls'
import t from 'tap'
import { account, create } from '../helpers/account.js'
import { RawPeer, rawClient } from '../helpers/raw-client.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { RawUpstream } from '../helpers/upstream.js'
import { freePort } from '../proxy/free-port.js'
import { authority, certificate, shownTo } from '../proxy/tls-client.js'
import { revocationList } from '../resources/certificates.js'

async function edge(
  sluice: RunningSluice,
  upstream: RawUpstream,
  config: object,
  more: readonly object[] = []
): Promise<number> {
  const port = await freePort()
  const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const rules = [{ actions: [{ type: 'terminate-tls', config }] }, ...more]
  await create(sluice, '/edges/tcp', {
    hostports: [`db.example.com:${port}`],
    backend: { enabled: true, backend_id: backend.id },
    traffic_policy: { enabled: true, value: JSON.stringify({ on_tcp_connect: rules }) }
  })
  return port
}

async function secure(port: number, options: ConnectionOptions = {}): Promise<RawPeer> {
  const socket = connect({
    host: '127.0.0.1',
    port,
    servername: 'db.example.com',
    rejectUnauthorized: false,
    ...options
  })
  await once(socket, 'secureConnect')
  return new RawPeer(socket)
}

const ended = (sluice: RunningSluice) =>
  sluice.line(({ msg, bytes_in }) => msg === 'connection' && bytes_in !== undefined)

t.test('TLS ends at the edge with the certificate of the policy; the upstream sees plain bytes', async (t) => {
  const sluice = await startSluice(t)
  const upstream = await RawUpstream.start(t)
  const ca = await authority('CA')
  const own = await certificate('Database', ca, ['db.example.com'])
  const port = await edge(sluice, upstream, { server_certificate: own.pem, server_private_key: own.key })
  const client = await secure(port, { ca: ca.pem, rejectUnauthorized: true, ALPNProtocols: ['postgresql'] })
  client.send('SELECT 1')
  const peer = await upstream.next()
  t.equal(await peer.until('SELECT 1'), 'SELECT 1')
  peer.send('1')
  peer.end()
  await client.untilEnd()
  t.equal(client.text, '1')
  client.end()
  t.match(await ended(sluice), { tls: 'TLSv1.3', sni: 'db.example.com', code: undefined })
})

t.test('without one it is the certificate that the name has', async (t) => {
  const sluice = await startSluice(t)
  const upstream = await RawUpstream.start(t)
  const ca = await authority('CA')
  const port = await edge(sluice, upstream, {})
  t.match(await shownTo(port, { servername: 'db.example.com' }), /development/)
  const { pem, key } = await certificate('Named', ca, ['db.example.com'])
  await create(sluice, '/tls_certificates', { certificate_pem: pem, private_key_pem: key })
  t.equal(await shownTo(port, { servername: 'db.example.com' }), 'CN=Named')
})

t.test('clients show what the strategy asks for, and rules that follow see it', async (t) => {
  const sluice = await startSluice(t)
  const upstream = await RawUpstream.start(t, (peer) => peer.send('welcome'))
  const [ca, other] = [await authority('CA'), await authority('Other')]
  const { id } = await create(sluice, '/certificate_authorities', { ca_pem: ca.pem })
  const [good, foreign] = [await certificate('alice', ca), await certificate('mallory', other)]
  const only = {
    expressions: ["actions.service.terminate_tls.client.subject.common_name != 'alice'"],
    actions: [{ type: 'deny' }]
  }
  const passes = async (port: number, options: ConnectionOptions) => {
    try {
      const client = await secure(port, options)
      client.send('x')
      await client.until('welcome')
      client.socket.destroy()
      return true
    } catch {
      // TLS 1.2 would tell of the refusal in the handshake, 1.3 tells behind it.
      return false
    }
  }
  const [alice, mallory] = [good, foreign].map(({ pem, key }) => ({ cert: pem, key }))
  for (const authorities of [[ca.pem], [id]]) {
    const strict = await edge(sluice, upstream, { mutual_tls_certificate_authorities: authorities })
    t.equal(await passes(strict, { ...alice }), true, 'verified')
    t.equal(await passes(strict, { ...mallory }), false, 'of another authority')
    t.equal(await passes(strict, {}), false, 'none')
  }
  const any = { mutual_tls_certificate_authorities: [id], mutual_tls_verification_strategy: 'require-any' }
  const shown = await edge(sluice, upstream, any)
  t.equal(await passes(shown, { ...mallory }), true)
  t.equal(await passes(shown, {}), false)
  const asked = await edge(sluice, upstream, { ...any, mutual_tls_verification_strategy: 'request' })
  t.equal(await passes(asked, {}), true)
  const named = await edge(sluice, upstream, { ...any, mutual_tls_certificate_authorities: [ca.pem] }, [only])
  t.equal(await passes(named, { ...alice }), true)
  t.equal(await passes(named, { ...mallory }), false)
})

t.test('an authority that is gone vouches for nobody', async (t) => {
  const sluice = await startSluice(t)
  const upstream = await RawUpstream.start(t)
  const ca = await authority('CA')
  const { id } = await create(sluice, '/certificate_authorities', { ca_pem: ca.pem })
  const { pem, key } = await certificate('alice', ca)
  const port = await edge(sluice, upstream, { mutual_tls_certificate_authorities: [id] })
  t.equal((await account(sluice)(`/certificate_authorities/${id}`, { method: 'DELETE' })).status, 204)
  await t.rejects(async () => {
    const client = await secure(port, { cert: pem, key, maxVersion: 'TLSv1.2' })
    client.send('x')
  })
  t.match(await ended(sluice), { code: 'CONNECTION_REFUSED', action: 'terminate-tls' })
})

t.test('an authority refuses what it has revoked', async (t) => {
  const sluice = await startSluice(t)
  const upstream = await RawUpstream.start(t, (peer) => peer.send('welcome'))
  const ca = await authority('CA')
  const { id } = await create(sluice, '/certificate_authorities', { ca_pem: ca.pem })
  const [bad, good] = [await certificate('bad', ca), await certificate('good', ca)]
  const port = await edge(sluice, upstream, { mutual_tls_certificate_authorities: [id] })
  const crl_pem = await revocationList(ca, [new X509Certificate(bad.pem).serialNumber])
  const body = { crl_pem }
  t.equal((await account(sluice)(`/certificate_authorities/${id}`, { method: 'PATCH', body })).status, 200)
  await t.rejects(async () => {
    const client = await secure(port, { cert: bad.pem, key: bad.key, maxVersion: 'TLSv1.2' })
    client.send('x')
  })
  t.match(await ended(sluice), { code: 'CONNECTION_REFUSED', action: 'terminate-tls' })
  const client = await secure(port, { cert: good.pem, key: good.key })
  client.send('x')
  await client.until('welcome')
  client.socket.destroy()
})

t.test('a client that speaks no TLS, or says nothing, is gone', async (t) => {
  const sluice = await startSluice(t, { options: { TIMEOUTS_HEADERS: '1s' } })
  const upstream = await RawUpstream.start(t)
  const port = await edge(sluice, upstream, {})
  const plain = await rawClient(port)
  plain.send('GET / HTTP/1.1\r\n\r\n')
  const silent = await rawClient(port)
  await Promise.all([plain.untilEnd(), silent.untilEnd()])
  t.equal(upstream.peers.length, 0)
})

t.test(
  'a key that does not belong to the certificate, or text that is none, is refused when it is written',
  async (t) => {
    const sluice = await startSluice(t)
    const ca = await authority('CA')
    const [one, two] = [await certificate('One', ca, ['a']), await certificate('Two', ca, ['b'])]
    const refusal = async (config: object) => {
      const value = JSON.stringify({ on_tcp_connect: [{ actions: [{ type: 'terminate-tls', config }] }] })
      const body = { hostports: [`localhost:${await freePort()}`], traffic_policy: { enabled: true, value } }
      return (await account(sluice)('/edges/tcp', { method: 'POST', body })).json
    }
    const invalid = { error_code: 'ERR_SLUICE_POLICY_CONFIG_INVALID' }
    t.match(await refusal({ server_certificate: one.pem, server_private_key: two.key }), invalid)
    t.match(await refusal({ server_certificate: 'PEM', server_private_key: two.key }), invalid)
    t.match(await refusal({ mutual_tls_certificate_authorities: ['nobody'] }), invalid)
    t.match(await refusal({ mutual_tls_verification_strategy: 'require-and-verify' }), invalid)
    const secret = one.key.split('\n')[1] as string
    t.notMatch(JSON.stringify(await refusal({ server_certificate: two.pem, server_private_key: one.key })), secret)
  }
)
