import t from 'tap'
import { ClientShares, clientKey } from '../../src/lib/client-limits.js'

t.test('an IPv6 network of 64 bits is one client, an IPv4 address is one', async (t) => {
  t.equal(clientKey('2001:db8::1'), clientKey('2001:0db8:0:0:ffff::2'))
  t.not(clientKey('2001:db8::1'), clientKey('2001:db8:0:1::1'))
  t.not(clientKey('192.0.2.1'), clientKey('192.0.2.2'))
  t.equal(clientKey('::ffff:192.0.2.1'), clientKey('::ffff:c000:201'))
  t.equal(clientKey('no address'), 'no address')
})

t.test('what is given back is forgotten', async (t) => {
  const shares = new ClientShares(() => 10)
  t.equal(shares.exceeds('a', 10), false)
  t.equal(shares.exceeds('a', 11), true)
  shares.count('a', 6)
  t.equal(shares.exceeds('a', 5), true)
  t.equal(shares.exceeds('b', 10), false)
  shares.count('a', -6)
  t.equal(shares.clients, 0)
})
