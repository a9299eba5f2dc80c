import type { Socket } from 'node:net'
import { AddressCounts, type Crowding } from '../lib/client-limits.js'
import type { ListenLimits, ListenOptions, Place } from './contract.js'
import { ignore } from './pipes.js'

interface PlacesParts {
  /** Limits, read at each connection. */
  readonly limits: Pick<
    ListenLimits,
    'connections' | 'descriptors' | 'handshakes' | 'connectionsPerAddress' | 'handshakesPerAddress'
  >
  /** Addresses that represent many clients. */
  readonly exempt: (address: string) => boolean
  /** True for a TLS listener. */
  readonly tls: boolean
  /** See `ListenOptions`. */
  readonly filled?: ((full: boolean) => void) | undefined
  /** True if a handshake or a PROXY header precedes the first request. */
  readonly arrives: boolean
}

type PlaceOptions = Pick<ListenOptions, 'limits' | 'exempt' | 'tls' | 'proxyProtocol' | 'filled'>

/** Fraction of the places that pipes leave free. */
const KEPT = 0.1
/** Fraction of the places that must be free again before a listener is no longer full, so that one near its limit reports only once. */
const FREE = 0.05

/** A place of this thread, whose methods are synchronous. */
interface OwnPlace extends Place {
  of(address: string): Crowding | undefined
  lasts(): boolean
}

/** Places of one listener, which enforce its limits of connections and handshakes, in total and by address. */
export class ListenerPlaces {
  readonly #parts: PlacesParts
  readonly #ofAddress: AddressCounts
  readonly #handshakesOfAddress: AddressCounts
  #open = 0
  #arriving = 0
  /** Number of connections that have become pipes. */
  #lasting = 0
  #full = false

  constructor(parts: PlacesParts) {
    this.#parts = parts
    const { limits, exempt } = parts
    this.#ofAddress = new AddressCounts(() => limits.connectionsPerAddress ?? 0, exempt)
    this.#handshakesOfAddress = new AddressCounts(() => limits.handshakesPerAddress ?? 0, exempt)
  }

  /** Creates the places of a listener with these options. */
  static of({ limits, exempt, tls, proxyProtocol, filled }: PlaceOptions): ListenerPlaces {
    const arrives = tls !== undefined || proxyProtocol !== undefined
    return new ListenerPlaces({ limits, exempt: exempt ?? (() => false), tls: tls !== undefined, arrives, filled })
  }

  /** Returns a place for an accepted connection, or the exhausted limit. */
  enter(): OwnPlace | Crowding {
    const { limits, arrives } = this.#parts
    const { connections, handshakes = 0, descriptors } = limits
    if (connections > 0 && this.#open >= connections) return 'connections'
    if (descriptors?.admitsClient === false) return 'descriptors'
    if (arrives && handshakes > 0 && this.#arriving >= handshakes) return 'handshakes'
    return this.#place(descriptors)
  }

  /** Returns whether another connection may become a pipe. */
  get hasPipePlace(): boolean {
    const { connections } = this.#parts.limits
    return connections === 0 || this.#lasting < connections - Math.floor(connections * KEPT)
  }

  /** Returns a place beyond the connection limit, for a connection without a descriptor. */
  beyond(): OwnPlace {
    return this.#place(undefined)
  }

  #place(descriptors: ListenLimits['descriptors']): OwnPlace {
    const { arrives, tls } = this.#parts
    let [here, arriving, lasting] = [true, arrives, false]
    let leave = nothing
    let shaken = nothing
    this.#open++
    descriptors?.countClient(1)
    this.#look()
    if (arriving) this.#arriving++
    const shake = (): void => {
      shaken()
      if (!arriving) return
      arriving = false
      this.#arriving--
    }
    const go = (): void => {
      shake()
      if (!here) return
      here = false
      this.#open--
      descriptors?.countClient(-1)
      if (lasting) this.#lasting--
      this.#look()
    }
    return {
      of: (address) => {
        const left = this.#ofAddress.enter(address)
        if (left === undefined) return 'address-connections'
        const over = tls ? this.#handshakesOfAddress.enter(address) : nothing
        if (over === undefined) {
          left()
          return 'address-handshakes'
        }
        leave = left
        shaken = over
        return undefined
      },
      shaken: shake,
      lasts: () => {
        if (lasting || !here) return true
        if (!this.hasPipePlace) return false
        lasting = true
        this.#lasting++
        return true
      },
      left: () => {
        go()
        leave()
      },
      handedOn: () => {
        go()
        return leave
      }
    }
  }

  #look(): void {
    const { limits, filled } = this.#parts
    const { connections } = limits
    const free = connections === 0 ? Number.POSITIVE_INFINITY : connections - this.#open
    const full = free <= (this.#full ? Math.floor(connections * FREE) : 0)
    if (full === this.#full) return
    this.#full = full
    filled?.(full)
  }
}

function nothing(): void {
  // No place was taken.
}

const OVERLOADED = 'HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n'

/** Closes a rejected connection; with `plain` it gets a 503, which is impossible before a handshake. */
export function turnAway(socket: Socket, plain: boolean): void {
  socket.on('error', ignore)
  if (plain) socket.end(OVERLOADED, () => socket.destroy())
  else socket.destroy()
}
