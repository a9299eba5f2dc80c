import type { AddressInfo, Server, Socket } from 'node:net'
import type { ListenLimits } from './contract.js'
import { ignore } from './pipes.js'

/** Binds a server and listens; returns its address. Rejects with the system's error. */
export async function bind(
  server: Server,
  at: { fd: number } | { host: string; port: number }
): Promise<{ host: string; port: number }> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(at, () => {
      server.removeListener('error', reject)
      // accept() can fail for lack of descriptors; the listener continues.
      server.on('error', ignore)
      resolve()
    })
  })
  const { address, port } = server.address() as AddressInfo
  return { host: address, port }
}

/** Holds sockets that are accepted before a listener is open, up to its connection limit; serves or closes them then. */
export class EarlySockets {
  readonly #limits: Pick<ListenLimits, 'connections'>
  /** Sockets accepted before the listener is open; undefined once it is open or has failed. */
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

  /** Holds the socket, or closes it if too many wait; returns false once the listener is open. */
  holds(socket: Socket): boolean {
    if (this.#waiting === undefined) return false
    const { connections: most } = this.#limits
    if (most > 0 && this.#waiting.length >= most) socket.destroy()
    else this.#waiting.push(socket)
    return true
  }
}
