import { isDeepStrictEqual } from 'node:util'
import { judge } from '../lib/ip.js'
import type { Snapshot } from './snapshot.js'

/** How often a gate has refused an address, and how often it only would have. */
export interface GateCounts {
  readonly refused: number
  readonly warned: number
}

/** A class of traffic that an IP restriction can be for. */
export type GatedTraffic = 'agent' | 'api' | 'dashboard' | 'endpoints'

export interface AddressGateParts {
  readonly log: { info(fields: object, message: string): void }
  /** Called for each address that the restriction does not allow. */
  readonly told?: (enforced: boolean) => void
}

/**
 * The IP restriction of one class of traffic: who may come in by address. Nothing restricts a class until there is a
 * restriction for it; one that is not enforced is only logged and counted.
 */
export class AddressGate {
  readonly #traffic: GatedTraffic
  readonly #parts: AddressGateParts
  readonly #counts = { refused: 0, warned: 0 }

  constructor(traffic: GatedTraffic, parts: AddressGateParts) {
    this.#traffic = traffic
    this.#parts = parts
  }

  get counts(): GateCounts {
    return this.#counts
  }

  /** Judges one that comes in. `about`: further fields of the log line. */
  admits(snapshot: Snapshot, address: string | undefined, about?: object): boolean {
    const against = refusal(snapshot, this.#traffic, address)
    if (against === undefined) return true
    const { enforced, network } = against
    this.#parts.told?.(enforced)
    this.#counts[enforced ? 'refused' : 'warned']++
    if (enforced) return false
    const fields = { client: address, type: this.#traffic, network, ...about }
    this.#parts.log.info(fields, 'an IP restriction that is not enforced would refuse this address')
    return true
  }
}

/** Would this snapshot keep `address` out? Counts and logs nothing. */
export function refuses(snapshot: Snapshot, traffic: GatedTraffic, address: string | undefined): boolean {
  return refusal(snapshot, traffic, address)?.enforced === true
}

/** What speaks against an address; undefined when it passes. `network`: the one that decided, if any did. */
function refusal(snapshot: Snapshot, traffic: GatedTraffic, address: string | undefined) {
  const restriction = snapshot.tables.restrictions.get(traffic)
  if (restriction === undefined) return undefined
  const policies = restriction.policies.map((id) => snapshot.ipPolicy(id))
  const { passes, network } = judge(policies, address)
  return passes ? undefined : { enforced: restriction.enforced, network }
}

/** Is the restriction of this traffic the same in these two, with what its policies say? */
export function sameRestriction(one: Snapshot, other: Snapshot, traffic: GatedTraffic): boolean {
  if (sameAddressRules(one, other)) return true
  const [now, then] = [one, other].map((snapshot) => snapshot.tables.restrictions.get(traffic))
  if (!isDeepStrictEqual(now, then)) return false
  // Rules are shared as long as no write touches them.
  return now?.policies.every((id) => one.ipPolicy(id) === other.ipPolicy(id)) ?? true
}

/** Do these two keep out the same addresses? false also when they only may differ. */
export function sameAddressRules(one: Snapshot, other: Snapshot): boolean {
  return one.tables.restrictions === other.tables.restrictions && one.tables.ipPolicies === other.tables.ipPolicies
}
