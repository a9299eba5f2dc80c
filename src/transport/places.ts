import type { Socket } from 'node:net'
import { AddressCounts, type Crowding } from '../lib/client-limits.js'
import type { ListenLimits, ListenOptions, Place } from './contract.js'
import { ignore } from './pipes.js'

interface PlacesParts {
  /** Read as they are at each connection. */
  readonly limits: Pick<
    ListenLimits,
    'connections' | 'descriptors' | 'handshakes' | 'connectionsPerAddress' | 'handshakesPerAddress'
  >
  /** Addresses that speak for many. */
  readonly exempt: (address: string) => boolean
  /** Is there a TLS handshake? */
  readonly tls: boolean
  /** See `ListenOptions`. */
  readonly filled?: ((full: boolean) => void) | undefined
  /** Does something come before the first request: a handshake, or a PROXY header? */
  readonly arrives: boolean
}

type PlaceOptions = Pick<ListenOptions, 'limits' | 'exempt' | 'tls' | 'proxyProtocol' | 'filled'>

/** Part of the places that pipes leave to others. */
const KEPT = 0.1
/** Part of the places that must be free again before a listener is no longer full: one that swings around its limit says so once. */
const FREE = 0.05

/** A place of this thread, which answers at once. */
interface OwnPlace extends Place {
  of(address: string): Crowding | undefined
  lasts(): boolean
}

/** The places of one listener, which hold its limits: of connections and of handshakes, all together and by address. */
export class ListenerPlaces {
  readonly #parts: PlacesParts
  readonly #ofAddress: AddressCounts
  readonly #handshakesOfAddress: AddressCounts
  #open = 0
  #arriving = 0
  /** Connections that have become pipes. */
  #lasting = 0
  #full = false

  constructor(parts: PlacesParts) {
    this.#parts = parts
    const { limits, exempt } = parts
    this.#ofAddress = new AddressCounts(() => limits.connectionsPerAddress ?? 0, exempt)
    this.#handshakesOfAddress = new AddressCounts(() => limits.handshakesPerAddress ?? 0, exempt)
  }

  /** Those of a listener with these options. */
  static of({ limits, exempt, tls, proxyProtocol, filled }: PlaceOptions): ListenerPlaces {
    const arrives = tls !== undefined || proxyProtocol !== undefined
    return new ListenerPlaces({ limits, exempt: exempt ?? (() => false), tls: tls !== undefined, arrives, filled })
  }

  /** A place for a connection that has just been accepted, or what is full. */
  enter(): OwnPlace | Crowding {
    const { limits, arrives } = this.#parts
    const { connections, handshakes = 0, descriptors } = limits
    if (connections > 0 && this.#open >= connections) return 'connections'
    if (descriptors?.admitsClient === false) return 'descriptors'
    if (arrives && handshakes > 0 && this.#arriving >= handshakes) return 'handshakes'
    return this.#place(descriptors)
  }

  /** May another connection become a pipe? */
  get hasPipePlace(): boolean {
    const { connections } = this.#parts.limits
    return connections === 0 || this.#lasting < connections - Math.floor(connections * KEPT)
  }

  /** A place whatever the limit of connections is, for one that needs no descriptor. */
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

/** Closes a connection that has no place; with `plain` it gets a 503, which cannot be sent before a handshake. */
export function turnAway(socket: Socket, plain: boolean): void {
  socket.on('error', ignore)
  if (plain) socket.end(OVERLOADED, () => socket.destroy())
  else socket.destroy()
}
