import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { create, site, visit } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'

const HOST = 'turns.example.com'
const UPGRADE = `GET / HTTP/1.1\r\nHost: ${HOST}\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'

/** A server that answers its name, and whose WebSockets say it and stay. */
async function named(t: Test, name: string): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((_request, response) => response.end(name))
  server.on('upgrade', (_request, socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).write(`${SWITCHED}${name}`)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.closeAllConnections()
    server.close()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Opens a WebSocket that stays open; resolves with the name of its server. */
async function hold(t: Test, port: number): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined).write(UPGRADE)
  let text = ''
  while (!/\r\n\r\n./s.test(text)) text += String((await once(socket, 'data'))[0])
  return text.slice(-1)
}

for (const balance of ['round_robin', 'least_requests']) {
  t.test(`${balance}: who gets requests while one server has WebSockets`, async (t) => {
    const sluice = await startSluice(t, { options: { API_RATE_LIMIT: 'off' } })
    const backends: Record<string, number> = {}
    for (const name of ['a', 'b', 'c']) {
      const { id } = await create(sluice, '/backends/static', { address: await named(t, name) })
      backends[id] = 1
    }
    const { id } = await create(sluice, '/backends/weighted', { backends, balance })
    await site(sluice, HOST, { backend: { backend_id: id } })
    const counts: Record<string, number> = { a: 0, b: 0, c: 0 }
    const count = async (times: number) => {
      for (let i = 0; i < times; i++) {
        const { body } = await visit(sluice, HOST)
        counts[body] = (counts[body] ?? 0) + 1
      }
    }
    await count(30)
    t.same(counts, { a: 10, b: 10, c: 10 }, 'without any load each has its turn')
    const holder = await hold(t, sluice.port)
    await count(30)
    if (balance === 'round_robin') for (const [name, visits] of Object.entries(counts)) t.equal(visits, 20, name)
    else for (const [name, visits] of Object.entries(counts)) t.equal(visits - 10, name === holder ? 0 : 15, name)
  })
}
