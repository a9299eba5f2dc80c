import type { Socket } from 'node:net'
import type { Address, Drained } from '../../../proxy/ports.js'
import type { TerminationPlaces } from '../../../proxy/tcp-termination.js'
import type { Place } from '../../../transport/contract.js'
import { ignore } from '../../../transport/pipes.js'
import type { FromServing, ToServing } from './protocol.js'

/** A thread that serves connections, as the one that accepts them sees it. */
export interface ServingThread {
  /** Sends a message, optionally with a socket. Returns false if it could not be sent; nothing has changed then. Does not throw. */
  post(message: ToServing, socket?: Socket): boolean
}

/** A connection on its way to the thread that serves it. */
export interface Accepted {
  readonly id: number
  /** Wall clock, milliseconds. */
  readonly startedAt: number
  /** Does it have its place among those of its address? */
  readonly named: boolean
}

interface Held {
  readonly place: Place
  readonly port: DealtPort
}

/** A worker's share of the limits. */
interface Served {
  readonly places: Map<number, Held>
  readonly terminations: Map<number, () => void>
}

interface Waiting {
  readonly port: DealtPort
  readonly socket: Socket
  readonly accepted: Accepted
  readonly place: Place
}

/**
 * Gives each accepted connection to the worker with the fewest, and holds its place until the worker reports its end, or
 * ends itself. While no worker serves, connections wait unread.
 */
export class SocketDealer {
  readonly #terminations: TerminationPlaces
  readonly #threads = new Map<ServingThread, Served>()
  readonly #ports = new Set<DealtPort>()
  /** Threads that get connections. */
  readonly #ready = new Set<ServingThread>()
  #waiting: Waiting[] = []
  #places = 0
  #portNumber = 0

  /** `terminations`: the handshakes of TCP edges in all threads. */
  constructor(terminations: TerminationPlaces) {
    this.#terminations = terminations
  }

  /** Connections that each thread has. */
  get loads(): ReadonlyMap<ServingThread, number> {
    return new Map([...this.#threads].map(([thread, { places }]) => [thread, places.size]))
  }

  /** A thread has begun; it gets no connection before `serves`. */
  begins(thread: ServingThread): void {
    this.#threads.set(thread, { places: new Map(), terminations: new Map() })
    for (const port of this.#ports) thread.post(port.announcement)
  }

  /** The thread gets connections from now on. */
  serves(thread: ServingThread): void {
    if (!this.#threads.has(thread)) return
    this.#ready.add(thread)
    const waiting = this.#waiting
    this.#waiting = []
    for (const { port, socket, accepted, place } of waiting) this.deal(port, socket, accepted, place)
  }

  /** Stops dispatching to the worker; its connections continue. */
  rests(thread: ServingThread): void {
    this.#ready.delete(thread)
  }

  /** Releases the connections of an ended worker. */
  ended(thread: ServingThread): void {
    const served = this.#threads.get(thread)
    this.#threads.delete(thread)
    this.#ready.delete(thread)
    if (served === undefined) return
    for (const held of served.places.values()) this.#left(held)
    for (const leave of served.terminations.values()) leave()
  }

  /** Handles a message if it concerns connections. */
  receive(thread: ServingThread, message: FromServing): void {
    const served = this.#threads.get(thread)
    if (served === undefined) return
    switch (message.kind) {
      case 'places':
        for (const number of message.shaken) served.places.get(number)?.place.shaken()
        for (const number of message.left) {
          const held = served.places.get(number)
          served.places.delete(number)
          if (held !== undefined) this.#left(held)
        }
        for (const serial of message.terminated) {
          served.terminations.get(serial)?.()
          served.terminations.delete(serial)
        }
        return
      case 'place-of':
        this.#placeOf(thread, served, message.place, message.address)
        return
      case 'lasts': {
        const { place } = message
        // Places of this process respond synchronously.
        const admitted = served.places.get(place)?.place.lasts() === true
        thread.post({ kind: 'lasting', place, admitted })
        return
      }
      case 'terminates':
        void this.#terminates(thread, served, message.serial, message.address)
    }
  }

  /** Opens a port whose connections are served under `key`, in the state with this mark. */
  open(key: string, mark: string, address: Address): DealtPort {
    const port = new DealtPort(this, { number: ++this.#portNumber, key, mark, address })
    this.#ports.add(port)
    for (const thread of this.#threads.keys()) thread.post(port.announcement)
    return port
  }

  /** Gives a connection to a worker. Closes it if that fails. */
  deal(port: DealtPort, socket: Socket, accepted: Accepted, place: Place): void {
    const thread = this.#least()
    if (thread === undefined) {
      socket.on('error', ignore)
      this.#waiting.push({ port, socket, accepted, place })
      return
    }
    const number = ++this.#places
    const { id, startedAt, named } = accepted
    const { number: at } = port
    const sent = thread.post({ kind: 'socket', port: at, socket, id, startedAt, place: number, named }, socket)
    if (sent) this.#threads.get(thread)?.places.set(number, { place, port })
    else {
      // The client has disconnected meanwhile.
      socket.on('error', ignore)
      socket.destroy()
      this.#left({ place, port })
    }
  }

  /** Called when a port stops accepting. */
  closed(port: DealtPort): void {
    if (!this.#ports.delete(port)) return
    const mine = this.#waiting.filter((one) => one.port === port)
    this.#waiting = this.#waiting.filter((one) => one.port !== port)
    for (const { socket, place } of mine) {
      socket.destroy()
      this.#left({ place, port })
    }
    for (const thread of this.#threads.keys()) thread.post({ kind: 'closed', port: port.number })
  }

  #left({ place, port }: Held): void {
    place.left()
    port.left()
  }

  #least(): ServingThread | undefined {
    let least: ServingThread | undefined
    let fewest = Number.POSITIVE_INFINITY
    for (const thread of this.#ready) {
      const size = this.#threads.get(thread)?.places.size ?? 0
      if (size >= fewest) continue
      fewest = size
      least = thread
    }
    return least
  }

  #placeOf(thread: ServingThread, { places }: Served, number: number, address: string): void {
    const full = places.get(number)?.place.of(address)
    // Places of this process respond synchronously.
    if (!(full instanceof Promise)) thread.post({ kind: 'placed', place: number, full })
  }

  async #terminates(thread: ServingThread, served: Served, serial: number, address: string): Promise<void> {
    const leave = await this.#terminations.enter(address)
    if (typeof leave === 'string') thread.post({ kind: 'terminating', serial, full: leave })
    else if (this.#threads.get(thread) !== served) leave()
    else {
      served.terminations.set(serial, leave)
      thread.post({ kind: 'terminating', serial, full: undefined })
    }
  }
}

/** Properties of a port. */
interface DealtPortFacts {
  readonly number: number
  readonly key: string
  readonly mark: string
  readonly address: Address
}

/** A port whose connections are dispatched. */
export class DealtPort {
  readonly number: number
  readonly announcement: ToServing
  readonly #dealer: SocketDealer
  readonly #emptied: (() => void)[] = []
  #open = 0

  constructor(dealer: SocketDealer, { number, key, mark, address }: DealtPortFacts) {
    this.#dealer = dealer
    this.number = number
    this.announcement = { kind: 'port', port: number, key, mark, address }
  }

  /** Dispatches a connection; its place is released when it ends. */
  deal(socket: Socket, accepted: Accepted, place: Place): void {
    this.#open++
    this.#dealer.deal(this, socket, accepted, place)
  }

  /** Called by the dealer: a connection is over. */
  left(): void {
    this.#open--
    if (this.#open === 0) for (const resolve of this.#emptied.splice(0)) resolve()
  }

  /** Stops accepting. */
  close(): void {
    this.#dealer.closed(this)
  }

  /** Resolves when all connections have ended, or after this time (ms), when workers have cut the rest. */
  async drained(deadline: number): Promise<Drained> {
    const total = this.#open
    if (total === 0) return { ended: 0, cut: 0 }
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, deadline)
    })
    const emptied = new Promise<void>((resolve) => this.#emptied.push(resolve))
    await Promise.race([emptied, late])
    clearTimeout(timer)
    const cut = this.#open
    if (cut > 0) await Promise.race([emptied, new Promise((resolve) => setTimeout(resolve, CUT_WITHIN))])
    return { ended: total - cut, cut }
  }
}

/** Maximum time for workers to cut remaining connections (ms). */
const CUT_WITHIN = 2_000
