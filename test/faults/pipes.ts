import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { broken, comes, type Fault, type Outcome, type Stage, seconds } from './fault.js'
import { Product } from './product.js'
import { Site } from './site.js'

const PLACES = 60
const PIPES = 300
const AT_ONCE = 30
/** Requests beside a WebSocket that stays. */
const VISITS = 200
const UPGRADE =
  'GET / HTTP/1.1\r\nHost: pipes.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n'
const SWITCHED =
  'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'

/** How a client leaves its WebSocket; the first one stays and is silent. */
const ways: readonly ((socket: Socket) => void)[] = [
  () => undefined,
  (socket) => socket.end(),
  (socket) => socket.end(() => setTimeout(() => socket.resetAndDestroy(), 10)),
  (socket) => socket.resetAndDestroy()
]

async function listening(stage: Stage, server: Server): Promise<string> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket.on('error', () => undefined))
    socket.on('close', () => sockets.delete(socket))
  })
  stage.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** A client's socket to the product, which goes with the stage. */
function opened(stage: Stage, { ports }: Product): Socket {
  const socket = connect({ port: ports.traffic, host: '127.0.0.1', allowHalfOpen: true })
  stage.teardown(() => socket.destroy())
  return socket.on('error', () => undefined)
}

/** More WebSockets than there are places end in every way or fall silent, at an upstream that never ends one. */
export const brokenPipes: Fault = {
  name: 'WebSockets that are left idle, half-closed or reset',
  within: 90,
  async run(stage): Promise<Outcome> {
    const holding = createServer({ allowHalfOpen: true }, (socket) => socket.once('data', () => socket.write(SWITCHED)))
    const env = {
      SLUICE_UPSTREAM: await listening(stage, holding),
      SLUICE_LIMITS_CONNECTIONS: String(PLACES),
      SLUICE_TIMEOUTS_IDLE: '1s',
      SLUICE_TIMEOUTS_HALF_CLOSED: '500ms'
    }
    const product = await Product.start(stage, { env })
    const site = await Site.make(product)
    await site.write(product, 'before')
    let [pipes, visits, served] = [0, 0, 0]
    const pipe = async (way: number): Promise<void> => {
      const socket = opened(stage, product).resume()
      let text = ''
      socket.on('data', (chunk) => {
        text += chunk
      })
      socket.write(UPGRADE)
      await comes(2_000, () => text.includes('\r\n\r\n') || socket.destroyed)
      if (!text.startsWith('HTTP/1.1 101')) socket.destroy()
      else if (++pipes <= PIPES) ways[way % ways.length]?.(socket)
    }
    const begun = performance.now()
    for (let way = 0; pipes < PIPES && performance.now() - begun < 60_000; ) {
      await Promise.all(Array.from({ length: AT_ONCE }, () => pipe(way++)))
      visits++
      if ((await site.serves(product)) === 'before') served++
    }
    const free = async () => (await product.metric('sluice_connections')) === 0
    const back = await comes(15_000, free)
    // Connections that send nothing take all places, until they leave.
    const reasons = async () => (await product.ask('/readyz')).json.reasons as string[]
    const idle = Array.from({ length: 2 * PLACES }, () => opened(stage, product))
    const shown = await comes(10_000, async () => (await reasons()).includes('connections_used_up'))
    for (const socket of idle) socket.destroy()
    const ready = await comes(10_000, async () => (await reasons()).length === 0)
    return {
      clients: `${pipes} WebSockets at ${PLACES} places; ${served} of ${visits} other requests beside them were served`,
      operator: `/readyz: ${shown ? 'connections_used_up' : 'nothing'} while silent connections have all places, then ${ready ? 'ready' : 'NOT ready'}`,
      lost: await site.lost(product),
      broken: broken({
        'all of them were opened': pipes >= PIPES,
        'requests are served beside them': served === visits,
        'all places come back': back,
        'the operator is told': shown,
        'it is ready again': ready
      })
    }
  }
}

/** A server that has a WebSocket which stays gets its share of requests, and no more. */
export const balanceBesidePipe: Fault = {
  name: 'a long WebSocket at one of two servers',
  within: 60,
  async run(stage): Promise<Outcome> {
    const counts = { a: 0, b: 0 }
    const server = (name: 'a' | 'b') => {
      const one = createHttpServer((_request, response) => {
        counts[name]++
        response.end(name)
      })
      one.on('upgrade', (_request, socket) => socket.write(SWITCHED))
      return listening(stage, one)
    }
    const product = await Product.start(stage)
    const made = async (path: string, body: unknown) =>
      (await product.ask(path, { method: 'POST', body })).json.id as string
    const backends: Record<string, number> = {}
    for (const url of [await server('a'), await server('b')])
      backends[await made('/backends/static', { address: new URL(url).host })] = 1
    const backend = await made('/backends/weighted', { backends, balance: 'round_robin' })
    const edge = await made('/edges/https', { hostports: ['pipes.test:443'] })
    await made(`/edges/https/${edge}/routes`, { match: '/', backend: { backend_id: backend } })
    const socket = opened(stage, product)
    socket.write(UPGRADE)
    const [head] = (await once(socket, 'data')) as [Buffer]
    const begun = performance.now()
    for (let visit = 0; visit < VISITS; visit++) await product.visit('/', { headers: { host: 'pipes.test' } })
    return {
      clients: `${VISITS} requests beside it within ${seconds(performance.now() - begun)}: ${counts.a} and ${counts.b}`,
      operator: 'nothing',
      lost: [],
      broken: broken({
        'the WebSocket is open': head.toString().startsWith('HTTP/1.1 101') && !socket.destroyed,
        'the servers are in turn': Math.abs(counts.a - counts.b) <= 1 && counts.a + counts.b === VISITS
      })
    }
  }
}
