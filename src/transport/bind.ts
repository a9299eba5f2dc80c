import type { AddressInfo, Server, Socket } from 'node:net'
import type { ListenLimits } from './contract.js'
import { ignore } from './pipes.js'

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

/** Sockets that are accepted before a listener is open: they wait, as many as may be open, and are served or closed then. */
export class EarlySockets {
  readonly #limits: Pick<ListenLimits, 'connections'>
  /** Undefined: the listener is open, or will not be. */
  #waiting: Socket[] | undefined = []

  constructor(opened: Promise<boolean>, limits: Pick<ListenLimits, 'connections'>, serve: (socket: Socket) => void) {
    this.#limits = limits
    void opened.then((open) => {
      const waiting = this.#waiting ?? []
      this.#waiting = undefined
      for (const socket of waiting) {
        if (open) serve(socket)
        else socket.destroy()
      }
    })
  }

  /** Does the socket wait here, or is it closed, because too many do? */
  holds(socket: Socket): boolean {
    if (this.#waiting === undefined) return false
    const { connections: most } = this.#limits
    if (most > 0 && this.#waiting.length >= most) socket.destroy()
    else this.#waiting.push(socket)
    return true
  }
}
