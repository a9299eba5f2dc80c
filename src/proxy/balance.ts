import type { Flow } from '../flow/flow.js'
import { compileHashKey, type HashKey } from '../runtime/hash-key.js'
import type { Balance } from '../runtime/plan.js'

/** Candidate for load balancing. */
export interface Share {
  /** Index in the complete list, the same for every choice. */
  readonly index: number
  /** Above zero. */
  readonly weight: number
  /** Active exchanges and connections, including WebSockets and open streams. */
  readonly load: number
}

/** Smooth weighted round robin: each candidate gets its share of the choices, evenly spread and independent of its load. */
export class WeightedChoice {
  readonly #credits: number[] = []

  /** Returns the index of the chosen candidate; undefined if there is none. */
  take(shares: readonly Share[]): number | undefined {
    let total = 0
    let turn: Share | undefined
    for (const share of shares) {
      total += share.weight
      this.#credits[share.index] = this.#credit(share) + share.weight
      if (turn === undefined || this.#credit(share) > this.#credit(turn)) turn = share
    }
    if (turn === undefined) return undefined
    this.#credits[turn.index] = this.#credit(turn) - total
    return turn.index
  }

  /** Returns the candidate with the least load for its weight; ties are resolved round robin. */
  least(shares: readonly Share[]): number | undefined {
    const burden = ({ load, weight }: Share) => (load + 1) / weight
    const lightest = Math.min(...shares.map(burden))
    return this.take(shares.filter((share) => burden(share) === lightest))
  }

  #credit({ index }: Share): number {
    return this.#credits[index] ?? 0
  }
}

/** Load balancer of one backend. Its hash key and hashes are computed once. */
export class Balancer {
  readonly #balance: Balance['balance']
  readonly #key: HashKey | undefined
  readonly #seeds: readonly number[]
  readonly #choice = new WeightedChoice()

  /** `names` of the members by index: the owner of a key depends on names and weights alone. */
  constructor({ balance, hashKey }: Balance, names: readonly string[]) {
    this.#balance = balance
    const compiled = balance === 'hash' && hashKey !== undefined ? compileHashKey(hashKey) : undefined
    this.#key = compiled?.ok === true ? compiled.key : undefined
    this.#seeds = this.#key === undefined ? [] : names.map(hashOfText)
  }

  /** Returns the index of the chosen candidate; undefined if there is none. A request without a key uses round robin. */
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

const RANGE = 2 ** 32

/** Hashes a text to 32 unsigned bits. */
function hashOfText(text: string): number {
  // FNV-1a over the units of the text.
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return mixed(hash)
}

/**
 * Returns the distance of a server from a key, both hashed by `hashOfText`: above 0. Over all keys, each server is nearest in proportion to
 * its weight.
 *
 * Weighted rendezvous hashing (Thaler and Ravishankar 1998; logarithmic weights by Schindelhauer and Schomaker 2005). Each pair of key and
 * server has its own distance, and the nearest server owns the key. A new server takes only the keys that it is nearest to; a removed one
 * leaves each of its keys to the next nearest.
 */
function distance(key: number, server: number, weight: number): number {
  const point = mixed(mixed(key ^ server) + server)
  return -Math.log((point + 0.5) / RANGE) / weight
}

/** Last step of MurmurHash3: each result bit depends on each input bit. */
function mixed(number: number): number {
  let bits = number
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}
