import t from 'tap'
import { AddressCounts, TurnedAwayLog } from '../../src/lib/client-limits.js'
import { ManualClock } from '../helpers/clock.js'

t.test('an IPv4 address and a /64 of IPv6 are one client each', async (t) => {
  const counts = new AddressCounts(
    () => 2,
    (address) => address === '192.0.2.9'
  )
  const first = counts.enter('192.0.2.1')
  t.ok(first)
  t.ok(counts.enter('::ffff:192.0.2.1'))
  t.notOk(counts.enter('192.0.2.1'), 'mapped or not')
  t.ok(counts.enter('192.0.2.2'), 'others have places of their own')
  first?.()
  first?.()
  t.ok(counts.enter('192.0.2.1'), 'a place that was given back')
  t.notOk(counts.enter('192.0.2.1'), 'it was given back once')
  t.ok(counts.enter('2001:db8:0:1::1'))
  t.ok(counts.enter('2001:db8:0:1:ffff::2'))
  t.notOk(counts.enter('2001:db8:0:1:a:b:c:d'))
  t.ok(counts.enter('2001:db8:0:2::1'))
  for (let i = 0; i < 10; i++) if (counts.enter('192.0.2.9') === undefined) t.fail('an exempt peer was counted')
  const unlimited = new AddressCounts(() => 0)
  for (let i = 0; i < 10; i++) if (unlimited.enter('192.0.2.1') === undefined) t.fail('0 is no limit')
})

t.test('each is counted, one line a pause is written', async (t) => {
  const clock = new ManualClock()
  const lines: object[] = []
  const counted: string[] = []
  const log = new TurnedAwayLog(clock, { warn: (fields) => lines.push(fields) }, (...what) => counted.push(what.join()))
  for (let i = 0; i < 100; i++) log.report('default', 'address-connections', '192.0.2.1')
  log.report('default', 'connections', '192.0.2.2')
  clock.advance(10_001)
  log.report('default', 'address-connections', '192.0.2.3')
  t.equal(counted.filter((one) => one === 'default,address-connections').length, 101)
  t.same(lines, [
    { listener: 'default', limit: 'limits.connections_per_address', client: '192.0.2.1', count: 1 },
    { listener: 'default', limit: 'limits.connections', client: '192.0.2.2', count: 1 },
    { listener: 'default', limit: 'limits.connections_per_address', client: '192.0.2.3', count: 100 }
  ])
})
