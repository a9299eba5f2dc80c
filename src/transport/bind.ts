import type { AddressInfo, Server } from 'node:net'
import { ignore } from './copy.js'

/** Binds a server and listens; answers the address it got. Rejects with the system's error. */
export async function bind(
  server: Server,
  at: { fd: number } | { host: string; port: number }
): Promise<{ host: string; port: number }> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(at, () => {
      server.removeListener('error', reject)
      // accept() can fail (descriptors used up); the listener goes on.
      server.on('error', ignore)
      resolve()
    })
  })
  const { address, port } = server.address() as AddressInfo
  return { host: address, port }
}
