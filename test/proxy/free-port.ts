import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'

/** A port of this machine that nobody listens on just now. */
export async function freePort(): Promise<number> {
  const server = await listening(0)
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
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
