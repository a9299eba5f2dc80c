import { closeSync } from 'node:fs'
import { isIP } from 'node:net'

/** A place to listen on. */
interface Place {
  readonly host: string
  readonly port: number
}

/**
 * Listening sockets that the process was started with, each for one place: who opens that place listens on its descriptor and
 * binds nothing. Each is handed out once: a place that is opened again later is bound as usual. A place that is named by a host
 * name has the socket of its port.
 */
export class InheritedSockets {
  readonly #left: { readonly fd: number; readonly place: Place }[]

  /** `sockets`: descriptors with the places that they stand for. */
  constructor(sockets: Iterable<readonly [fd: number, place: Place]> = []) {
    this.#left = Array.from(sockets, ([fd, place]) => ({ fd, place }))
  }

  /** What to listen on for a place. */
  at<T extends Place>(place: T): T | { readonly fd: number } {
    const index = this.#indexOf(place)
    if (index === -1) return place
    const [found] = this.#left.splice(index, 1)
    return found === undefined ? place : { fd: found.fd }
  }

  /** Is there a socket for this place, which was not handed out yet? */
  has(place: Place): boolean {
    return this.#indexOf(place) !== -1
  }

  /** Closes the sockets that were not handed out: clients would wait in their queues for ever. */
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
