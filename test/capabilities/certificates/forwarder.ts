import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

interface Test {
  teardown(run: () => Promise<void> | void): void
}

/** Leads connections on: to its targets by turns, as a balancer in front of a cluster does; while it holds, to nobody. */
export class Forwarder {
  /** Ports on this machine. */
  targets: readonly number[] = []
  port = 0
  #turn = 0
  #held: Socket[] | undefined
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((client) => {
    this.#sockets.add(client)
    client.on('error', () => client.destroy())
    if (this.#held === undefined) this.#lead(client)
    else this.#held.push(client)
  })

  static async start(t: Test): Promise<Forwarder> {
    const forwarder = new Forwarder()
    forwarder.#server.listen(0, '127.0.0.1')
    await once(forwarder.#server, 'listening')
    forwarder.port = (forwarder.#server.address() as { port: number }).port
    t.teardown(() => {
      for (const socket of forwarder.#sockets) socket.destroy()
      forwarder.#server.close()
    })
    return forwarder
  }

  /** New connections wait. */
  hold(): void {
    this.#held ??= []
  }

  release(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const client of held) this.#lead(client)
  }

  #lead(client: Socket): void {
    const target = connect(this.targets[this.#turn++ % this.targets.length] ?? 0, '127.0.0.1')
    this.#sockets.add(target)
    target.on('error', () => client.destroy())
    client.pipe(target).pipe(client)
  }
}
