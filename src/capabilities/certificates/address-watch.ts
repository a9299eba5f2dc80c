import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { Clock } from '../../lib/clock.js'
import { isPublicAddress } from '../../lib/http-client/addresses.js'
import type { ManagedCertificate } from './target.js'

export interface AddressWatchParts {
  readonly clock: Clock
  /** Addresses of a host; rejects when it has none. */
  readonly lookup: (host: string) => Promise<readonly string[]>
  /** Addresses of this service that its operator names; those of this machine are added. */
  readonly addresses: readonly string[]
}

/** Interval between address checks of one target (ms). */
const EVERY = 30_000

/** Checks whether names whose certificate request failed now resolve to this service. */
export class AddressWatch {
  readonly #parts: AddressWatchParts
  /** Addresses of each target as the last look found them, and when the next one is due, monotonic milliseconds. */
  readonly #seen = new Map<string, { readonly addresses: string; readonly next: number }>()

  constructor(parts: AddressWatchParts) {
    this.#parts = parts
  }

  /** Is a check due? Only for names that an authority visits: DNS challenges do not depend on addresses. */
  isDue({ id, status, names, challenge }: ManagedCertificate): boolean {
    if (status?.provisioning_job?.error_code == null) {
      this.#seen.delete(id)
      return false
    }
    const next = this.#seen.get(id)?.next ?? 0
    return next <= this.#parts.clock.monotonic() && names.every((name) => challenge(name).type === 'http-01')
  }

  forget(id: string): void {
    this.#seen.delete(id)
  }

  /** True when the addresses of the names have changed since the last look, and now lead here. The first look only remembers. */
  async hasArrived({ id, names }: ManagedCertificate): Promise<boolean> {
    const { clock, lookup } = this.#parts
    const found = await Promise.all(names.map((name) => lookup(name).catch(() => [])))
    const addresses = JSON.stringify(found.map((list) => [...list].sort()))
    const before = this.#seen.get(id)?.addresses
    this.#seen.set(id, { addresses, next: clock.monotonic() + EVERY })
    if (before === undefined || before === addresses) return false
    const own = this.#own()
    return found.every((list) => list.some((address) => isOwn(address, own)))
  }

  #own(): readonly string[] {
    const here = Object.values(networkInterfaces()).flatMap((list = []) => list.map(({ address }) => address))
    return [...this.#parts.addresses, ...here.filter(isPublicAddress)]
  }
}

/** Without a known own address of the family, as behind NAT, every address may lead here. */
function isOwn(address: string, own: readonly string[]): boolean {
  return own.includes(address) || !own.some((one) => isIP(one) === isIP(address))
}
