import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'

/**
 * A port of this machine that nobody listens on just now: below those that the system gives away by itself (32768 and above on Linux), so
 * that neither a connection nor another test takes it in the meantime.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_000)
    const server = await listening(port).catch(() => undefined)
    if (server === undefined) continue
    server.close()
    await once(server, 'close')
    return port
  }
}

/** A port that somebody else has until the test ends; a free one of the system's choice unless it is named. */
export async function occupied(t: { teardown(run: () => unknown): void }, port = 0): Promise<number> {
  const server = await listening(port)
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

async function listening(port: number): Promise<Server> {
  const server = createServer()
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return server
}
