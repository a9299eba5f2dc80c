import type { Clock } from './clock.js'
import { formatAddress, maskAddress, parseAddress } from './ip.js'

/**
 * Exhausted limit of a connection: of the listener, of one address at it, or of the process's open files. A closed set, usable as a metric
 * label.
 */
export type Crowding =
  | 'connections'
  | 'descriptors'
  | 'pipes'
  | 'handshakes'
  | 'address-connections'
  | 'address-handshakes'

/** Receives connections that are closed because of a limit. */
export interface TurnedAway {
  /** `address`: of the client, or of a peer without a PROXY header. */
  report(listener: string, why: Crowding, address: string): void
  /** Reports that a listener has reached its limit, or has room again. */
  filled(listener: string, full: boolean): void
}

/** Minimum time between two log lines about one limit of one listener (ms). */
const PAUSE = 10_000

const OPTIONS: Readonly<Record<Crowding, string>> = {
  connections: 'limits.connections',
  descriptors: 'open files (ulimit -n, LimitNOFILE)',
  pipes: 'limits.connections',
  handshakes: 'limits.handshakes',
  'address-connections': 'limits.connections_per_address',
  'address-handshakes': 'limits.handshakes_per_address'
}

/** Counts rejected connections and logs one line per pause: a flood of connections must not become a flood of lines. */
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

  /** Names of the listeners at their limit. */
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

/** Prefix length of an IPv6 client, which has its own network (RFC 6177): per address it would have 2^64 shares. */
const CLIENT_BITS = 64

/** Counts concurrent uses per client: an IPv4 address, or the /64 of an IPv6 address. */
export class AddressCounts {
  readonly #most: () => number
  readonly #exempt: (address: string) => boolean
  readonly #counts = new Map<string, number>()

  /** `most`: current maximum per client; 0 for no limit. `exempt`: addresses that represent many clients, such as trusted proxies. */
  constructor(most: () => number, exempt: (address: string) => boolean = () => false) {
    this.#most = most
    this.#exempt = exempt
  }

  /** Counts one use; returns the function that releases it once. Undefined if the client is at its limit. */
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

/** Returns the client under which an address is counted. */
function clientOf(address: string): string {
  const parsed = address.includes(':') ? parseAddress(address.split('%', 1)[0] as string) : undefined
  if (parsed === undefined) return address
  return formatAddress(parsed.length === 1 ? parsed : maskAddress(parsed, CLIENT_BITS))
}

function unlimited(): void {
  // Nothing was counted.
}

/**
 * Shares of a budget by client. A client is an IPv4 address, or an IPv6 /64 network, within which it can choose addresses freely (RFC 4291
 * 2.5.4).
 */
export class ClientShares {
  readonly #most: () => number
  readonly #held = new Map<string, number>()

  /** `most`: current maximum per client. */
  constructor(most: () => number) {
    this.#most = most
  }

  /** Number of clients with a share. */
  get clients(): number {
    return this.#held.size
  }

  /** Returns whether `amount` more would exceed the client's maximum. `client`: a `clientKey`. */
  exceeds(client: string, amount: number): boolean {
    return (this.#held.get(client) ?? 0) + amount > this.#most()
  }

  /** Adds `amount` to a client; a negative amount releases it. */
  count(client: string, amount: number): void {
    const held = (this.#held.get(client) ?? 0) + amount
    if (held > 0) this.#held.set(client, held)
    else this.#held.delete(client)
  }
}

/** Returns the key of an address's client. Text that is not an address is a client of its own. */
export function clientKey(address: string): string {
  if (!address.includes(':')) return address
  const words = parseAddress(address)
  if (words === undefined) return address
  return words.length === 1 ? String(words[0]) : `${words[0]}:${words[1]}`
}
