import { judge } from '../lib/address-rules.js'
import type { SnapshotHolder } from '../snapshot/holder.js'

/** The class of traffic that agents belong to. */
const TRAFFIC = 'agent'

/** How often the restriction has refused an address, and how often it only would have. */
export interface AgentGateCounts {
  readonly refused: number
  readonly warned: number
}

export interface AgentGateParts {
  readonly holder: SnapshotHolder
  readonly log: { warn(fields: object, message: string): void }
}

/** The IP restriction of agents. One that is not enforced is only logged and counted. */
export class AgentGate {
  readonly #parts: AgentGateParts
  readonly #counts = { refused: 0, warned: 0 }

  constructor(parts: AgentGateParts) {
    this.#parts = parts
  }

  get counts(): AgentGateCounts {
    return this.#counts
  }

  /** Judges an agent that connects. */
  admits(address: string): boolean {
    if (this.#passes(address)) return true
    if (this.#enforced) {
      this.#counts.refused++
      return false
    }
    this.#counts.warned++
    this.#parts.log.warn({ address }, 'an IP restriction of agents that is not enforced would refuse this address')
    return true
  }

  /** Must an agent that is connected go? Counts nothing. */
  expels(address: string): boolean {
    return this.#enforced && !this.#passes(address)
  }

  get #enforced(): boolean {
    return this.#parts.holder.current().tables.restrictions.get(TRAFFIC)?.enforced === true
  }

  #passes(address: string): boolean {
    const snapshot = this.#parts.holder.current()
    const restriction = snapshot.tables.restrictions.get(TRAFFIC)
    if (restriction === undefined) return true
    return judge(
      restriction.policies.map((id) => snapshot.ipPolicy(id)),
      address
    ).passes
  }
}
