import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** Maximum time for running requests to get a response, and the interval of checking for it (ms). */
const ANSWERS = { longest: 1_500, every: 5 }
/** Connections that may wait; more are closed. */
const MOST = 4_096

/** Connections that wait, unread, until it is known which process serves them. */
export interface HeldConnections {
  /** They, and those that come from now on, are served here. */
  resume(): void
  /** They, and those that come from now on, go to `take`, which gives them to another process. */
  give(take: (socket: Socket) => void): void
}

/** Node knows it, and its types do not: connections come without a byte of theirs being read. */
type Pausing = Server & { pauseOnConnect: boolean }

/** The connections of a server that may be held. Made before it listens. */
export class HoldableConnections {
  readonly #server: Pausing
  readonly #underWay = new Set<ServerResponse>()
  /** Connections without a running request after their first response. */
  readonly #idle = new Set<Socket>()
  #holding = false
  #given = false

  constructor(server: Server) {
    this.#server = server as Pausing
    server.on('connection', (socket: Socket) => {
      socket.once('close', () => this.#idle.delete(socket))
    })
    server.prependListener('request', (request, response: ServerResponse) => this.#begins(request.socket, response))
  }

  /**
   * Queues new connections, closes idle ones, and asks clients with running requests to close their connections after the
   * response. Resolves when all running requests have begun to respond, or after a short time.
   */
  async hold(): Promise<HeldConnections> {
    const server = this.#server
    const usual = server.listeners('connection') as ((socket: Socket) => void)[]
    const held = new Set<Socket>()
    let take = (socket: Socket): void => {
      if (held.size >= MOST) {
        socket.destroy()
        return
      }
      held.add(socket)
      socket.once('close', () => held.delete(socket))
    }
    this.#holding = true
    server.pauseOnConnect = true
    server.removeAllListeners('connection')
    server.on('connection', (socket: Socket) => take(socket))
    for (const socket of this.#idle) socket.destroySoon()
    for (const response of this.#underWay) response.shouldKeepAlive = false
    for (let waited = 0; waited < ANSWERS.longest && this.#isAsked; waited += ANSWERS.every) await sleep(ANSWERS.every)
    return {
      resume: () => {
        this.#holding = false
        server.pauseOnConnect = false
        server.removeAllListeners('connection')
        for (const listener of usual) server.on('connection', listener)
        for (const socket of held) begin(server, socket)
        held.clear()
      },
      give: (taking) => {
        this.#given = true
        take = taking
        for (const socket of held) taking(socket)
        held.clear()
      }
    }
  }

  /** Connections go to another process. Node's server waits at its end for those too. */
  get given(): boolean {
    return this.#given
  }

  /** Does a request wait for the start of its response? Streams have started theirs. */
  get #isAsked(): boolean {
    for (const response of this.#underWay) if (!response.headersSent) return true
    return false
  }

  #begins(socket: Socket, response: ServerResponse): void {
    if (this.#holding) response.shouldKeepAlive = false
    this.#underWay.add(response)
    this.#idle.delete(socket)
    response.once('close', () => {
      this.#underWay.delete(response)
      if (!socket.destroyed) this.#idle.add(socket)
    })
  }
}

/** Serves a connection that came paused, from this process or another one. */
export function begin(server: Server, socket: Socket): void {
  server.emit('connection', socket)
  socket.resume()
}
