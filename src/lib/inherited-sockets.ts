import { closeSync } from 'node:fs'
import { isIP } from 'node:net'

/** Address to listen on. */
interface Place {
  readonly host: string
  readonly port: number
}

/**
 * Listening sockets inherited at the start, each for one address: opening that address uses its descriptor instead of binding. Each is used
 * once; later openings bind as usual. An address with a host name matches by port.
 */
export class InheritedSockets {
  readonly #left: { readonly fd: number; readonly place: Place }[]

  /** `sockets`: descriptors with their addresses. */
  constructor(sockets: Iterable<readonly [fd: number, place: Place]> = []) {
    this.#left = Array.from(sockets, ([fd, place]) => ({ fd, place }))
  }

  /** Returns the address or the inherited descriptor to listen on. */
  at<T extends Place>(place: T): T | { readonly fd: number } {
    const index = this.#indexOf(place)
    if (index === -1) return place
    const [found] = this.#left.splice(index, 1)
    return found === undefined ? place : { fd: found.fd }
  }

  /** Returns whether an unused socket exists for this address. */
  has(place: Place): boolean {
    return this.#indexOf(place) !== -1
  }

  /** Closes unused sockets, because clients would wait in their queues forever. */
  closeUnused(): void {
    for (const { fd } of this.#left.splice(0)) closeSync(fd)
  }

  #indexOf({ host, port }: Place): number {
    const named = isIP(host) === 0
    return this.#left.findIndex(({ place }) => {
      return place.port === port && (place.host === host || (named && isIP(place.host) !== 0))
    })
  }
}
