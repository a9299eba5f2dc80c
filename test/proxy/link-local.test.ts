import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, LookupFunction } from 'node:net'
import t from 'tap'
import type { ConnectionFacts } from '../../src/flow/exchange.js'
import { isLinkLocal } from '../../src/lib/http-client/addresses.js'
import { AbortList } from '../../src/transport/deadlines.js'
import { tcpDialer, tlsDialer } from '../../src/transport/dialers.js'
import { account, create, site, visit } from '../helpers/account.js'
import { startNameServer } from '../helpers/name-server.js'
import { startSluice } from '../helpers/sluice.js'

const METADATA = [
  '169.254.169.254',
  '::ffff:169.254.169.254',
  '64:ff9b::a9fe:a9fe',
  'fe80::1',
  'fe80::1%eth0',
  'fd00:ec2::254'
]

t.test('link-local addresses and those of metadata services are told from others, in every spelling', async (t) => {
  for (const address of [...METADATA, '169.254.0.1', 'FE80::1', 'febf::1', '100.100.100.200', '168.63.129.16']) {
    t.ok(isLinkLocal(address), address)
  }
  for (const address of [
    '',
    'localhost',
    '169.253.255.255',
    '169.255.0.1',
    '127.0.0.1',
    '10.0.0.1',
    'fec0::1',
    'fd00:ec2::253'
  ]) {
    t.notOk(isLinkLocal(address), address)
  }
})

t.test('no connection is opened to an address that is refused, whoever names it', async (t) => {
  const server = createServer((_, response) => response.end('here')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const open = (host: string, found: readonly string[] = [], tls = false) => {
    const lookup: LookupFunction = (_host, { all }, done) => {
      if (all === true)
        done(
          null,
          found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
        )
      else done(null, found[0] ?? '', 4)
    }
    const at = { host, port, lookup, refuses: isLinkLocal }
    const dialer = tls ? tlsDialer({ ...at, servername: host }) : tcpDialer(at)
    return dialer.open({ client: {} as ConnectionFacts, deadline: 2_000, signal: new AbortList() }).then(
      (pipe) => {
        pipe.destroy('client-gone')
        return 'opened'
      },
      ({ failure, message }: { failure: string; message: string }) => `${failure} ${message}`
    )
  }
  for (const address of METADATA) {
    const refused = `dial-refused ${address} is an address that backends may not have`
    t.equal(await open(address), refused)
    t.equal(await open(address, [], true), refused)
    t.match(await open('rebound.test', [address]), /is an address that backends may not have$/)
    t.match(await open('rebound.test', [address], true), /is an address that backends may not have$/)
  }
  t.equal(await open('127.0.0.1'), 'opened')
  t.equal(await open('good.test', ['127.0.0.1']), 'opened')
  t.equal(await open('both.test', ['169.254.169.254', '127.0.0.1']), 'opened', 'the other address of the name is used')
})

t.test('backends have link-local addresses where the operator allows it alone', async (t) => {
  const server = createServer((_, response) => response.end('here')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const names = await startNameServer(t, {
    'rebound.test': ['169.254.169.254'],
    'both.test': ['169.254.169.254', '127.0.0.1']
  })
  const sluice = await startSluice(t, { options: { DNS_SERVERS: names.address } })
  const ask = account(sluice)
  for (const address of ['169.254.169.254:80', '[fe80::1]:80', '[::ffff:169.254.169.254]:80', '[fd00:ec2::254]:80']) {
    const refused = await ask('/backends/static', { method: 'POST', body: { address } })
    t.match(
      refused,
      { status: 400, json: { error_code: 'ERR_SLUICE_FIELD_INVALID', details: { field: 'address' } } },
      address
    )
    t.match(refused.json.msg, 'upstream_link_local')
  }
  const served = async (name: string) => {
    const backend = await create(sluice, '/backends/static', { address: `${name}.test:${port}` })
    await site(sluice, `${name}.example.com`, { backend: { backend_id: backend.id } })
    const { status, headers } = await visit(sluice, `${name}.example.com`)
    return { status, code: headers['sluice-error-code'] }
  }
  t.match(await served('rebound'), { status: 502, code: 'UPSTREAM_REFUSED' })
  await sluice.line(({ detail }) => detail === '169.254.169.254 is an address that backends may not have')
  t.match(await served('both'), { status: 200 })
  const allowing = await startSluice(t, { options: { UPSTREAM_LINK_LOCAL: 'on' } })
  await create(allowing, '/backends/static', { address: '169.254.1.1:80' })
})
