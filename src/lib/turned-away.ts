import type { Clock } from './clock.js'

/** Which limit a connection met: of the listener, or of one address at it. A closed set, fit to be a label of a metric. */
export type Crowding = 'connections' | 'handshakes' | 'address-connections' | 'address-handshakes'

/** Called for connections that are closed because there are too many. */
export interface TurnedAway {
  /** `address`: of the client, or of a peer that has not said whom it speaks for. */
  tell(listener: string, why: Crowding, address: string): void
}

/** Time between two lines about one limit of one listener, milliseconds. */
const PAUSE = 10_000

const OPTIONS: Readonly<Record<Crowding, string>> = {
  connections: 'limits.connections',
  handshakes: 'limits.handshakes',
  'address-connections': 'limits.connections_per_address',
  'address-handshakes': 'limits.handshakes_per_address'
}

/** Counts each of them and writes one line a pause: a flood of connections must not become a flood of lines. */
export class TurnedAwayLog implements TurnedAway {
  readonly #clock: Clock
  readonly #log: { warn(fields: object, message: string): void }
  readonly #counted: (listener: string, why: Crowding) => void
  readonly #lines = new Map<string, { at: number; count: number }>()

  constructor(
    clock: Clock,
    log: { warn(fields: object, message: string): void },
    counted: (listener: string, why: Crowding) => void
  ) {
    this.#clock = clock
    this.#log = log
    this.#counted = counted
  }

  tell(listener: string, why: Crowding, address: string): void {
    this.#counted(listener, why)
    const key = `${why} ${listener}`
    const last = this.#lines.get(key)
    const now = this.#clock.monotonic()
    if (last !== undefined && now - last.at < PAUSE) {
      last.count++
      return
    }
    const count = (last?.count ?? 0) + 1
    this.#lines.set(key, { at: now, count: 0 })
    this.#log.warn(
      { listener, limit: OPTIONS[why], client: address, count },
      'connections are closed because there are too many; count says how many since the last line'
    )
  }
}
