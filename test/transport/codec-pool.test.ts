import { Duplex } from 'node:stream'
import t from 'tap'
import type { Dialer } from '../../src/transport/contract.js'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { answering } from '../helpers/upstream.js'
import { bench, GET, type Make, OK, pass } from './suite/harness.js'

const IDLE_TIME = 30_000
const make: Make = (parts) => ({ front: codecServerTransport(parts), back: codecBack({ ...parts, mostIdle: 2 }) })

t.test('an upstream connection that idles too long ends, and one that was used meanwhile begins anew', async (t) => {
  const { client, clock, upstream } = await bench(t, make, { script: answering(OK) })
  const c = await client()
  const ask = async (): Promise<void> => {
    c.send(GET)
    t.equal((await c.answer()).body, 'ok')
  }
  await ask()
  const first = await upstream.next()
  for (let i = 0; i < 3; i++) {
    await swept()
    clock.advance(IDLE_TIME - 1000)
    await swept()
    await ask()
  }
  t.equal(upstream.peers.length, 1, 'each time before its time was over')
  t.equal(first.requests.length, 4)
  await swept()
  clock.advance(IDLE_TIME + 1)
  await first.untilEnd()
  await ask()
  t.equal(upstream.peers.length, 2)
  const second = await upstream.next()
  t.notOk(second.ended)
})

t.test('no more connections idle than the cap says', async (t) => {
  const { client, upstream } = await bench(t, make)
  const clients = await Promise.all(Array.from({ length: 4 }, client))
  for (const c of clients) c.send(GET)
  const peers = await Promise.all(clients.map(async () => await upstream.next()))
  await Promise.all(peers.map(async (peer) => await peer.request()))
  let ended = 0
  const twoEnded = new Promise<void>((resolve) => {
    for (const peer of peers) {
      peer.untilEnd().then(
        () => {
          if (++ended === 2) resolve()
        },
        () => undefined
      )
    }
  })
  for (const peer of peers) peer.send(OK)
  for (const c of clients) t.equal((await c.answer()).body, 'ok')
  await twoEnded
  await swept()
  t.equal(peers.filter((peer) => peer.ended).length, 2, 'two stay')
  const [again] = clients
  again?.send(GET)
  const [kept] = await Promise.all([
    Promise.any(peers.filter((peer) => !peer.ended).map(async (peer) => peer.request().then(() => peer)))
  ])
  kept?.send(OK)
  t.equal((await again?.answer())?.body, 'ok')
  t.equal(upstream.peers.length, 4, 'the next request uses one of them')
})

t.test('bytes that cross a request on a connection in use are no answer to it, and it may be sent again', async (t) => {
  const { client, upstream, failures } = await bench(t, make, { script: answering(OK) })
  const c = await client()
  c.send(GET)
  t.equal((await c.answer()).body, 'ok')
  const first = await upstream.next()
  // Both are there in one turn of the event loop, the request first.
  c.send(GET)
  first.send('HTTP/1.1 408 Request Timeout\r\ncontent-length: 4\r\n\r\nevil')
  t.equal((await c.answer()).status, 502)
  t.same(failures, [{ failure: 'upstream-gone', retry: 'safe' }])
  await first.untilEnd()
  t.equal(first.requests.length, 1, 'it was not sent there')
  c.send(GET)
  t.equal((await c.answer()).body, 'ok')
  t.equal(upstream.peers.length, 2)
})

t.test('an answer that comes before its carrier says that the request is written is one', async (t) => {
  let written = 0
  const carrier = new Duplex({
    read: () => undefined,
    write(_chunk, _encoding, done) {
      if (++written === 1) {
        done()
        setImmediate(() => this.push(OK))
      } else {
        this.push(OK)
        setImmediate(done)
      }
    }
  })
  const dialer: Dialer = {
    key: 'carrier',
    reusable: true,
    open: () => Promise.resolve({ duplex: carrier, end: () => carrier.end(), destroy: () => carrier.destroy() })
  }
  const { client, failures } = await bench(t, make, {
    exchange: (exchange, bench) => pass(exchange, bench, {}, dialer)
  })
  const c = await client()
  for (const asked of [1, 2]) {
    c.send(GET)
    t.equal((await c.answer()).body, 'ok')
    t.equal(written, asked)
  }
  t.same(failures, [])
})

/** Two passes of a deadlineTimer whose period is 50 ms: nothing else tells that time was looked at. */
function swept(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 120))
}
