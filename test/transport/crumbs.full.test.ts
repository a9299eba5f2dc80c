import t, { type Test } from 'tap'
import type { Exchange } from '../../src/flow/exchange.js'
import { httpProxyBack } from '../../src/transport/http-proxy/client.js'
import { nodeServerTransport } from '../../src/transport/http-proxy/server.js'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { heldMemory } from '../helpers/memory.js'
import { until } from '../helpers/until.js'
import { bench, type Make } from './suite/harness.js'

const CODEC: Make = (parts) => ({ front: codecServerTransport(parts), back: codecBack(parts) })
const HTTP: Make = (parts) => ({ front: nodeServerTransport(parts), back: httpProxyBack(parts) })

const CLIENTS = 8
/** Fewer than what makes an engine stop reading. */
const CRUMBS = 60_000
/** Far above what the bytes need, far below a hundred bytes for each of them. */
const BOUND = 16_000_000

/** Clients whose bodies come in chunks of one byte, which `use` leaves waiting in memory. Answers what they take. */
async function taken(t: Test, make: Make, use: (exchange: Exchange) => unknown): Promise<number> {
  const running = await bench(t, make, {
    exchange(exchange) {
      use(exchange)
    }
  })
  const clients = await Promise.all(Array.from({ length: CLIENTS }, () => running.client()))
  const crumbs = Buffer.from('1\r\nx\r\n'.repeat(1_000))
  for (const client of clients) client.send('POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n')
  await running.until(() => running.exchanges.length === CLIENTS)
  const before = heldMemory()
  for (const client of clients) for (let sent = 0; sent < CRUMBS; sent += 1_000) client.send(crumbs)
  await until(() => running.exchanges.every((exchange) => arrived(exchange) === CRUMBS))
  return heldMemory() - before
}

function arrived({ request: { body } }: Exchange): number {
  return (body as unknown as { readonly arrived?: number }).arrived ?? body.bytes
}

const buffered = ({ request }: Exchange) => void request.body.buffer(1_000_000).catch(() => undefined)

t.test('bodies in chunks of one byte take memory in proportion, whoever holds them', async (t) => {
  for (const [what, make, use] of [
    ['nobody has asked for it', CODEC, () => undefined],
    ['a stream that is not read', CODEC, ({ request }: Exchange) => void request.body.claim()],
    ['a buffer of the codec', CODEC, buffered],
    ['a buffer of node:http', HTTP, buffered]
  ] as const) {
    const bytes = await taken(t, make, use)
    t.ok(bytes < BOUND, `${what}: ${bytes} bytes for ${CLIENTS * CRUMBS}`)
  }
})

t.test('requests behind the one that is being answered wait in proportion, too', async (t) => {
  for (const make of [CODEC, HTTP]) {
    const running = await bench(t, make, { exchange: () => undefined })
    const clients = await Promise.all(Array.from({ length: CLIENTS }, () => running.client()))
    for (const client of clients) client.send('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n')
    await running.until(() => running.exchanges.length === CLIENTS)
    const before = heldMemory()
    const behind = 8_000
    for (let sent = 0; sent < behind; sent++) {
      // One at a time, so that each is a read of its own.
      for (const client of clients) client.send('x')
      if (sent % 4 === 3) await new Promise(setImmediate)
    }
    const bytes = heldMemory() - before
    t.ok(bytes < BOUND / 4, `${bytes} bytes for ${CLIENTS * behind}`)
  }
})
