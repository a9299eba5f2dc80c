import t from 'tap'
import { type Cidr, CidrSet, parseCidr, unmapIpv4 } from '../../src/lib/ip.js'
import { trustingProxies } from '../../src/proxy/client-address.js'

const untrusting = trustingProxies(undefined)
const trusting = trustingProxies(new CidrSet(['10.0.0.0/8', 'fd00::/8'].map((text) => parseCidr(text) as Cidr)))

t.test('without trusted proxies the client is the peer', async (t) => {
  const origin = untrusting.origin('192.0.2.1', 5000, ['X-Forwarded-For', '1.2.3.4'])
  t.same(origin, { address: '192.0.2.1', port: 5000, trusted: false })
})

t.test('the client is the right-most untrusted element of the chain', async (t) => {
  const client = (chain: string, name = 'X-Forwarded-For') => trusting.origin('10.0.0.1', 1, [name, chain]).address
  t.equal(client('1.1.1.1'), '1.1.1.1')
  t.equal(client('6.6.6.6, 1.1.1.1'), '1.1.1.1', 'what the client wrote before it does not count')
  t.equal(client('6.6.6.6, 1.1.1.1, 10.2.2.2'), '1.1.1.1')
  t.equal(client('10.3.3.3, 10.2.2.2'), '10.3.3.3', 'a chain of trusted elements ends at its first')
  t.equal(client('1.1.1.1, nonsense, 10.2.2.2'), '10.2.2.2', 'what is no address ends the chain')
  t.equal(client('1.1.1.1:8080'), '1.1.1.1')
  t.equal(client('[2001:db8::1]:443'), '2001:db8::1')
  t.equal(client('::ffff:9.9.9.9'), '9.9.9.9')
  t.equal(client('for=1.1.1.1;proto=https, for="[fd00::1]:80"', 'Forwarded'), '1.1.1.1')
  t.equal(trusting.origin('10.0.0.1', 7, []).address, '10.0.0.1')
  const repeated = ['X-Forwarded-For', '6.6.6.6', 'x-forwarded-for', '1.1.1.1']
  t.equal(trusting.origin('10.0.0.1', 1, repeated).address, '1.1.1.1')
})

t.test('the fields of this hop are written', async (t) => {
  const headers = ['A', '1']
  untrusting.write(headers, '192.0.2.1', false, 'http', 'example.com:80')
  t.same(headers, [
    'A',
    '1',
    'X-Forwarded-For',
    '192.0.2.1',
    'X-Forwarded-Proto',
    'http',
    'X-Forwarded-Host',
    'example.com:80',
    'Forwarded',
    'for=192.0.2.1;host="example.com:80";proto=http'
  ])
})

t.test('a trusted peer is appended to the chain and keeps its scheme and host', async (t) => {
  const headers = [
    'X-Forwarded-For',
    '1.1.1.1',
    'X-Forwarded-Proto',
    'https',
    'X-Forwarded-Host',
    'a.test',
    'Forwarded',
    'for=1.1.1.1'
  ]
  trusting.write(headers, 'fd00::9', true, 'http', 'b.test')
  t.same(headers, [
    'X-Forwarded-For',
    '1.1.1.1, fd00::9',
    'X-Forwarded-Proto',
    'https',
    'X-Forwarded-Host',
    'a.test',
    'Forwarded',
    'for=1.1.1.1, for="[fd00::9]";host=b.test;proto=http'
  ])
})

t.test('a mapped address is its IPv4 address', async (t) => {
  t.equal(unmapIpv4('::ffff:127.0.0.1'), '127.0.0.1')
  t.equal(unmapIpv4('::1'), '::1')
})
