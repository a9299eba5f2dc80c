import type { Socket } from 'node:net'
import type { Crowding } from '../../../lib/client-limits.js'
import type { SocketParts } from '../../../proxy/data-plane.js'
import { httpService } from '../../../proxy/http-listener.js'
import type { Address, OpenTcpPort, PortsParts } from '../../../proxy/ports.js'
import { TcpConnections } from '../../../proxy/tcp-listener.js'
import type { TerminationPlaces } from '../../../proxy/tcp-termination.js'
import type { Place, SocketTransport } from '../../../transport/contract.js'
import { ignore } from '../../../transport/pipes.js'
import { httpKey, markOf, tcpKey } from './accepting.js'
import type { FromServing, ToServing } from './protocol.js'

/** Handler of the connections with one key and mark. */
interface Serving {
  adopt(socket: Socket, about: { readonly id: number; readonly startedAt: number }, place: Place): void
}

type Handed = Extract<ToServing, { kind: 'socket' }>
type Announced = Extract<ToServing, { kind: 'port' }>
type Full = (full: Crowding | undefined) => void

/**
 * Receives connections that another thread has accepted, and passes each to the handler for the key and mark of its port. A
 * connection that arrives before its configuration waits unread, until a handler is registered or its port closes.
 */
export class SocketInlet implements TerminationPlaces {
  readonly #post: (message: FromServing) => void
  readonly #ports = new Map<number, Announced>()
  readonly #servings = new Map<string, Serving>()
  readonly #early = new Map<string, Handed[]>()
  readonly #asked = new Map<number, Full>()
  readonly #becoming = new Map<number, (admitted: boolean) => void>()
  readonly #terminating = new Map<number, Full>()
  #serial = 0
  /** Reports for the end of this turn of the event loop. */
  #left: number[] = []
  #shaken: number[] = []
  #terminated: number[] = []
  #due = false

  constructor(post: (message: FromServing) => void) {
    this.#post = post
  }

  /** Returns the address of the last port that was opened for the key. */
  address(key: string): Address | undefined {
    return [...this.#ports.values()].findLast((port) => port.key === key)?.address
  }

  /** Registers the handler for the key and the mark; waiting connections are passed to it immediately. */
  serves(key: string, mark: string, serving: Serving): void {
    const name = nameOf({ key, mark })
    this.#servings.set(name, serving)
    const early = this.#early.get(name) ?? []
    this.#early.delete(name)
    for (const handed of early) this.#adopt(serving, handed)
  }

  receive(message: ToServing): void {
    switch (message.kind) {
      case 'port':
        this.#ports.set(message.port, message)
        return
      case 'closed':
        this.#closed(message.port)
        return
      case 'socket':
        this.#take(message)
        return
      case 'placed':
        this.#asked.get(message.place)?.(message.full)
        this.#asked.delete(message.place)
        return
      case 'lasting':
        this.#becoming.get(message.place)?.(message.admitted)
        this.#becoming.delete(message.place)
        return
      case 'terminating':
        this.#terminating.get(message.serial)?.(message.full)
        this.#terminating.delete(message.serial)
    }
  }

  async enter(address: string): Promise<(() => void) | Crowding> {
    const serial = ++this.#serial
    const answer = new Promise<Crowding | undefined>((resolve) => this.#terminating.set(serial, resolve))
    this.#post({ kind: 'terminates', serial, address })
    return (
      (await answer) ??
      (() => {
        this.#terminated.push(serial)
        this.#soon()
      })
    )
  }

  #take(handed: Handed): void {
    const port = this.#ports.get(handed.port)
    const name = port === undefined ? '' : nameOf(port)
    const serving = this.#servings.get(name)
    if (serving !== undefined) this.#adopt(serving, handed)
    else {
      handed.socket.on('error', ignore)
      this.#early.set(name, [...(this.#early.get(name) ?? []), handed])
    }
  }

  #adopt(serving: Serving, { socket, id, startedAt, place, named }: Handed): void {
    serving.adopt(socket, { id, startedAt }, this.#place(place, named))
  }

  /** Allows the handler to drain; it was kept for connections in transit. */
  #closed(number: number): void {
    const port = this.#ports.get(number)
    this.#ports.delete(number)
    if (port === undefined) return
    const name = nameOf(port)
    if ([...this.#ports.values()].some((other) => nameOf(other) === name)) return
    this.#servings.delete(name)
    for (const { socket, place } of this.#early.get(name) ?? []) {
      socket.destroy()
      this.#left.push(place)
      this.#soon()
    }
    this.#early.delete(name)
  }

  #place(number: number, named: boolean): Place {
    let [arriving, here] = [true, true]
    const shaken = (): void => {
      if (!arriving) return
      arriving = false
      this.#shaken.push(number)
      this.#soon()
    }
    const left = (): void => {
      if (!here) return
      here = false
      arriving = false
      this.#left.push(number)
      this.#soon()
    }
    return {
      of: (address) => {
        if (named) return undefined
        this.#post({ kind: 'place-of', place: number, address })
        return new Promise((resolve) => this.#asked.set(number, resolve))
      },
      shaken,
      lasts: () => {
        this.#post({ kind: 'lasts', place: number })
        return new Promise((resolve) => this.#becoming.set(number, resolve))
      },
      left,
      handedOn: () => left
    }
  }

  #soon(): void {
    if (this.#due) return
    this.#due = true
    setImmediate(() => {
      const [left, shaken, terminated] = [this.#left, this.#shaken, this.#terminated]
      this.#left = []
      this.#shaken = []
      this.#terminated = []
      this.#due = false
      this.#post({ kind: 'places', left, shaken, terminated })
    })
  }
}

function nameOf({ key, mark }: Pick<Announced, 'key' | 'mark'>): string {
  return `${key} ${mark}`
}

/** Creates ports that bind nothing: their connections arrive through `inlet`. */
export function adoptingSockets(inlet: SocketInlet, transport: SocketTransport) {
  return ({ http, tcp }: SocketParts): Pick<PortsParts, 'openHttp' | 'openTcp'> => ({
    async openHttp(unit) {
      const { options, handler, accept } = httpService(unit, http)
      const { host, port } = unit
      const listening = transport.adopting({ host, port }, options, handler)
      return {
        get address() {
          return inlet.address(httpKey(unit)) ?? { host, port }
        },
        accept() {
          accept()
          inlet.serves(httpKey(unit), markOf(unit), listening)
        },
        drain: (deadline) => listening.drain(deadline)
      }
    },
    async openTcp(edge, at, address): Promise<OpenTcpPort> {
      let owner = edge
      let connections = new TcpConnections(edge, at, tcp)
      const before = new Set<TcpConnections>()
      const key = tcpKey(address)
      return {
        address,
        accept: () => inlet.serves(key, edge, connections),
        hand(next, nextAt) {
          if (next === owner) {
            connections.hand(next, nextAt)
            return
          }
          owner = next
          // Connections of the previous edge may still be in transit, and get the same drain time as open ones.
          const gone = connections
          before.add(gone)
          void gone.drain(tcp.timeouts.drain).then(() => before.delete(gone))
          connections = new TcpConnections(next, nextAt, tcp)
          inlet.serves(key, next, connections)
        },
        async drain(deadline) {
          const drained = await Promise.all([...before, connections].map((one) => one.drain(deadline)))
          const sum = (of: 'ended' | 'cut') => drained.reduce((total, one) => total + one[of], 0)
          return { ended: sum('ended'), cut: sum('cut') }
        }
      }
    }
  })
}
