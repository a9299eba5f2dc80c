import { formatAddress, maskAddress, parseAddress } from './ip.js'

/** A client of IPv6 has a network of its own (RFC 6177); counted by address it would have 2^64 of them. */
const CLIENT_BITS = 64

/** Counts what each client has at a time: an IPv4 address, or the /64 of an IPv6 address. */
export class AddressCounts {
  readonly #most: number
  readonly #exempt: (address: string) => boolean
  readonly #counts = new Map<string, number>()

  /** `most`: of one client; 0: no limit. `exempt`: addresses that speak for many, such as trusted proxies. */
  constructor(most: number, exempt: (address: string) => boolean = () => false) {
    this.#most = most
    this.#exempt = exempt
  }

  /** Takes a place; the way to give it back, which counts once. Undefined: the client has as many as it may. */
  enter(address: string): (() => void) | undefined {
    if (this.#most === 0 || this.#exempt(address)) return unlimited
    const client = clientOf(address)
    const count = this.#counts.get(client) ?? 0
    if (count >= this.#most) return undefined
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

/** Who is counted together under one name. */
function clientOf(address: string): string {
  const parsed = address.includes(':') ? parseAddress(address.split('%', 1)[0] as string) : undefined
  if (parsed === undefined) return address
  return formatAddress(parsed.length === 1 ? parsed : maskAddress(parsed, CLIENT_BITS))
}

function unlimited(): void {
  // Nothing was counted.
}
