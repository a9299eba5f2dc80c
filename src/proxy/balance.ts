import type { Flow } from '../flow/flow.js'
import { distance, hashOfText } from '../lib/rendezvous.js'
import { compileHashKey, type HashKey } from '../runtime/hash-key.js'
import type { Balance } from '../runtime/plan.js'

/** One of several that share traffic. */
export interface Share {
  /** Place in the list of all, the same at every choice. */
  readonly index: number
  /** Above zero. */
  readonly weight: number
  /** How busy it is now. */
  readonly load: number
}

/**
 * Smooth weighted round robin: over any stretch each gets its share of the choices, evenly spread. Of those with the
 * weight of the one whose turn it is, the least loaded is taken.
 */
export class WeightedChoice {
  readonly #credits: number[] = []

  /** Index of the chosen one; undefined when there is none. */
  take(shares: readonly Share[]): number | undefined {
    let total = 0
    let turn: Share | undefined
    for (const share of shares) {
      total += share.weight
      this.#credits[share.index] = this.#credit(share) + share.weight
      if (turn === undefined || this.#credit(share) > this.#credit(turn)) turn = share
    }
    if (turn === undefined) return undefined
    let chosen = turn
    for (const share of shares) if (share.weight === turn.weight && share.load < chosen.load) chosen = share
    this.#credits[chosen.index] = this.#credit(chosen) - total
    return chosen.index
  }

  /** The one that carries the least for its weight; of several such, the one whose turn it is. */
  least(shares: readonly Share[]): number | undefined {
    const burden = ({ load, weight }: Share) => (load + 1) / weight
    const lightest = Math.min(...shares.map(burden))
    return this.take(shares.filter((share) => burden(share) === lightest))
  }

  #credit({ index }: Share): number {
    return this.#credits[index] ?? 0
  }
}

/** Chooses among the members of one backend as it says. What is compiled or hashed for that is made once. */
export class Balancer {
  readonly #balance: Balance['balance']
  readonly #key: HashKey | undefined
  readonly #seeds: readonly number[]
  readonly #choice = new WeightedChoice()

  /** `names` of the members, in the order of their indices: who has a key follows from names and weights alone. */
  constructor({ balance, hashKey }: Balance, names: readonly string[]) {
    this.#balance = balance
    const compiled = balance === 'hash' && hashKey !== undefined ? compileHashKey(hashKey) : undefined
    this.#key = compiled?.ok === true ? compiled.key : undefined
    this.#seeds = this.#key === undefined ? [] : names.map(hashOfText)
  }

  /** Index of the chosen one; undefined when there is none. A request without a key takes its turn. */
  take(shares: readonly Share[], flow: Flow): number | undefined {
    if (shares.length < 2) return shares[0]?.index
    if (this.#balance === 'least_requests') return this.#choice.least(shares)
    const key = this.#key?.(flow)
    return key === undefined ? this.#choice.take(shares) : this.#nearest(shares, hashOfText(key))
  }

  #nearest(shares: readonly Share[], key: number): number | undefined {
    let nearest: number | undefined
    let least = Number.POSITIVE_INFINITY
    for (const { index, weight } of shares) {
      const far = distance(key, this.#seeds[index] as number, weight)
      if (far >= least) continue
      least = far
      nearest = index
    }
    return nearest
  }
}
