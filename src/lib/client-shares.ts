import { parseAddress } from './ip.js'

/**
 * How much of a budget each client holds. A client is an IPv4 address, or an IPv6 network of 64 bits: within one, a client chooses
 * its addresses as it likes (RFC 4291 2.5.4).
 */
export class ClientShares {
  readonly #most: number
  readonly #held = new Map<string, number>()

  /** `most`: what one client may hold. */
  constructor(most: number) {
    this.#most = most
  }

  /** Clients that hold something. */
  get clients(): number {
    return this.#held.size
  }

  /** Would a client that takes `amount` more hold too much? `client`: a `clientKey`. */
  exceeds(client: string, amount: number): boolean {
    return (this.#held.get(client) ?? 0) + amount > this.#most
  }

  /** Counts `amount` for a client; a negative one is given back. */
  count(client: string, amount: number): void {
    const held = (this.#held.get(client) ?? 0) + amount
    if (held > 0) this.#held.set(client, held)
    else this.#held.delete(client)
  }
}

/** What tells the client of an address from others. Text that is no address is a client of its own. */
export function clientKey(address: string): string {
  if (!address.includes(':')) return address
  const words = parseAddress(address)
  if (words === undefined) return address
  return words.length === 1 ? String(words[0]) : `${words[0]}:${words[1]}`
}
