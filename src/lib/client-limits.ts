import type { Clock } from './clock.js'
import { formatAddress, maskAddress, parseAddress } from './ip.js'

/** Which limit a connection met: of the listener, of one address at it, or of the files that the system lets the process open. A closed set, fit to be a label of a metric. */
export type Crowding =
  | 'connections'
  | 'descriptors'
  | 'pipes'
  | 'handshakes'
  | 'address-connections'
  | 'address-handshakes'

/** Called for connections that are closed because there are too many. */
export interface TurnedAway {
  /** `address`: of the client, or of a peer that has not said whom it speaks for. */
  report(listener: string, why: Crowding, address: string): void
  /** A listener has no place for another connection, or has some again. */
  filled(listener: string, full: boolean): void
}

/** Time between two lines about one limit of one listener, milliseconds. */
const PAUSE = 10_000

const OPTIONS: Readonly<Record<Crowding, string>> = {
  connections: 'limits.connections',
  descriptors: 'open files (ulimit -n, LimitNOFILE)',
  pipes: 'limits.connections',
  handshakes: 'limits.handshakes',
  'address-connections': 'limits.connections_per_address',
  'address-handshakes': 'limits.handshakes_per_address'
}

/** Counts each of them and writes one line a pause: a flood of connections must not become a flood of lines. */
export class TurnedAwayLog implements TurnedAway {
  readonly #clock: Clock
  readonly #log: { warn(fields: object, message: string): void }
  readonly #counted: (listener: string, why: Crowding) => void
  readonly #full = new Set<string>()
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

  /** Names of the listeners that have no place for another connection. */
  get full(): ReadonlySet<string> {
    return this.#full
  }

  filled(listener: string, full: boolean): void {
    if (full) this.#full.add(listener)
    else this.#full.delete(listener)
  }

  report(listener: string, why: Crowding, address: string): void {
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

/** A client of IPv6 has a network of its own (RFC 6177); counted by address it would have 2^64 of them. */
const CLIENT_BITS = 64

/** Counts what each client has at a time: an IPv4 address, or the /64 of an IPv6 address. */
export class AddressCounts {
  readonly #most: () => number
  readonly #exempt: (address: string) => boolean
  readonly #counts = new Map<string, number>()

  /** `most`: of one client, now; 0: no limit. `exempt`: addresses that speak for many, such as trusted proxies. */
  constructor(most: () => number, exempt: (address: string) => boolean = () => false) {
    this.#most = most
    this.#exempt = exempt
  }

  /** Takes a place; the way to give it back, which counts once. Undefined: the client has as many as it may. */
  enter(address: string): (() => void) | undefined {
    const most = this.#most()
    if (most === 0 || this.#exempt(address)) return unlimited
    const client = clientOf(address)
    const count = this.#counts.get(client) ?? 0
    if (count >= most) return undefined
    this.#counts.set(client, count + 1)
    let here = true
    return () => {
      if (!here) return
      here = false
      const left = (this.#counts.get(client) ?? 0) - 1
      if (left > 0) this.#counts.set(client, left)
      else this.#counts.delete(client)
    }
  }
}

/** The connections that are counted together under one name. */
function clientOf(address: string): string {
  const parsed = address.includes(':') ? parseAddress(address.split('%', 1)[0] as string) : undefined
  if (parsed === undefined) return address
  return formatAddress(parsed.length === 1 ? parsed : maskAddress(parsed, CLIENT_BITS))
}

function unlimited(): void {
  // Nothing was counted.
}

/**
 * How much of a budget each client holds. A client is an IPv4 address, or an IPv6 network of 64 bits: within one, a client chooses
 * its addresses as it likes (RFC 4291 2.5.4).
 */
export class ClientShares {
  readonly #most: () => number
  readonly #held = new Map<string, number>()

  /** `most`: what one client may hold, now. */
  constructor(most: () => number) {
    this.#most = most
  }

  /** Clients that hold something. */
  get clients(): number {
    return this.#held.size
  }

  /** Would a client that takes `amount` more hold too much? `client`: a `clientKey`. */
  exceeds(client: string, amount: number): boolean {
    return (this.#held.get(client) ?? 0) + amount > this.#most()
  }

  /** Counts `amount` for a client; a negative one is given back. */
  count(client: string, amount: number): void {
    const held = (this.#held.get(client) ?? 0) + amount
    if (held > 0) this.#held.set(client, held)
    else this.#held.delete(client)
  }
}

/** What identifies the client of an address. Text that is no address is a client of its own. */
export function clientKey(address: string): string {
  if (!address.includes(':')) return address
  const words = parseAddress(address)
  if (words === undefined) return address
  return words.length === 1 ? String(words[0]) : `${words[0]}:${words[1]}`
}
