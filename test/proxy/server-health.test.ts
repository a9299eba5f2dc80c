import t from 'tap'
import { Server } from '../../src/proxy/server.js'
import type { Dialer } from '../../src/transport/contract.js'

const dialer: Dialer = { key: 'k', reusable: true, open: () => Promise.reject(new Error('nobody dials here')) }

t.test('a server that is not reached is avoided for a pause that doubles up to half a minute', async (t) => {
  const server = new Server(dialer, 'one')
  let now = 0
  const pauses: number[] = []
  for (let i = 0; i < 8; i++) {
    server.failed('dial-refused', now)
    const from = now
    while (!server.isUp(now)) now += 500
    pauses.push(now - from)
  }
  t.same(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
  server.succeeded()
  server.failed('dial-timeout', now)
  t.notOk(server.isUp(now + 999))
  t.ok(server.isUp(now + 1_000), 'after a success it starts small again')
})

t.test('connections that break count three in a row, what the client does counts nothing', async (t) => {
  const server = new Server(dialer, 'one')
  server.failed('upstream-gone', 0)
  server.failed('upstream-timeout', 0)
  t.ok(server.isUp(0))
  server.succeeded()
  server.failed('upstream-gone', 0)
  server.failed('upstream-gone', 0)
  for (let i = 0; i < 9; i++) server.failed('client-gone', 0)
  t.ok(server.isUp(0))
  server.failed('upstream-malformed', 0)
  t.notOk(server.isUp(0))
})

t.test('each that it carries is counted once, however often it ends', async (t) => {
  const server = new Server(dialer, 'one')
  const [first, second] = [server.begin(), server.begin()]
  t.equal(server.active, 2)
  first()
  first()
  t.equal(server.active, 1)
  second()
  t.equal(server.active, 0)
})
