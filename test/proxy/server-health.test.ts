import t from 'tap'
import { Server } from '../../src/proxy/server.js'
import type { Dialer } from '../../src/transport/contract.js'
import { ManualClock } from '../helpers/clock.js'

const dialer: Dialer = { key: 'k', reusable: true, open: () => Promise.reject(new Error('nobody dials here')) }

t.test('a server that is not reached is avoided for a pause that doubles up to half a minute', async (t) => {
  const clock = new ManualClock()
  const server = new Server(dialer, 'one', clock)
  const pauses: number[] = []
  for (let i = 0; i < 8; i++) {
    server.failed('dial-refused')
    const from = clock.monotonic()
    while (!server.isUp()) clock.advance(500)
    pauses.push(clock.monotonic() - from)
  }
  t.same(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
  server.succeeded()
  server.failed('dial-timeout')
  clock.advance(999)
  t.notOk(server.isUp())
  clock.advance(1)
  t.ok(server.isUp(), 'after a success it starts small again')
})

t.test('connections that break count three in a row, what the client does counts nothing', async (t) => {
  const server = new Server(dialer, 'one', new ManualClock())
  server.failed('upstream-gone')
  server.failed('upstream-timeout')
  t.ok(server.isUp())
  server.succeeded()
  server.failed('upstream-gone')
  server.failed('upstream-gone')
  for (let i = 0; i < 9; i++) server.failed('client-gone')
  t.ok(server.isUp())
  server.failed('upstream-malformed')
  t.notOk(server.isUp())
})

t.test('each that it carries is counted once, however often it ends', async (t) => {
  const server = new Server(dialer, 'one', new ManualClock())
  const [first, second] = [server.begin(), server.begin()]
  t.equal(server.places.active, 2)
  first()
  first()
  t.equal(server.places.active, 1)
  second()
  t.equal(server.places.active, 0)
})
