import type { Socket } from 'node:net'
import { AddressCounts, type Crowding } from '../lib/client-limits.js'
import type { ListenLimits, ListenOptions, Place } from './contract.js'
import { ignore } from './pipes.js'

interface PlacesParts {
  /** Read as they are at each connection. */
  readonly limits: Pick<ListenLimits, 'connections' | 'handshakes' | 'connectionsPerAddress' | 'handshakesPerAddress'>
  /** Addresses that speak for many. */
  readonly exempt: (address: string) => boolean
  /** Is there a TLS handshake? */
  readonly tls: boolean
  /** Does something come before the first request: a handshake, or a PROXY header? */
  readonly arrives: boolean
}

type PlaceOptions = Pick<ListenOptions, 'limits' | 'exempt' | 'tls' | 'proxyProtocol'>

/** The places of one listener, which hold its limits: of connections and of handshakes, all together and by address. */
export class ListenerPlaces {
  readonly #parts: PlacesParts
  readonly #ofAddress: AddressCounts
  readonly #handshakesOfAddress: AddressCounts
  #open = 0
  #arriving = 0

  constructor(parts: PlacesParts) {
    this.#parts = parts
    const { limits, exempt } = parts
    this.#ofAddress = new AddressCounts(() => limits.connectionsPerAddress ?? 0, exempt)
    this.#handshakesOfAddress = new AddressCounts(() => limits.handshakesPerAddress ?? 0, exempt)
  }

  /** Those of a listener with these options. */
  static of({ limits, exempt, tls, proxyProtocol }: PlaceOptions): ListenerPlaces {
    const arrives = tls !== undefined || proxyProtocol !== undefined
    return new ListenerPlaces({ limits, exempt: exempt ?? (() => false), tls: tls !== undefined, arrives })
  }

  /** A place for a connection that has just been accepted, or what is full. */
  enter(): Place | Crowding {
    const { limits, arrives } = this.#parts
    const { connections, handshakes = 0 } = limits
    if (connections > 0 && this.#open >= connections) return 'connections'
    if (arrives && handshakes > 0 && this.#arriving >= handshakes) return 'handshakes'
    return this.beyond()
  }

  /** A place whatever the limit of connections is. */
  beyond(): Place {
    const { arrives, tls } = this.#parts
    let [here, arriving] = [true, arrives]
    let leave = nothing
    let shaken = nothing
    this.#open++
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
