import type { Flow } from '../flow/flow.js'
import { compileHashKey, type HashKey } from '../runtime/hash-key.js'
import type { Balance } from '../runtime/plan.js'

/** One of several that share traffic. */
export interface Share {
  /** Place in the list of all, the same at every choice. */
  readonly index: number
  /** Above zero. */
  readonly weight: number
  /** Exchanges and connections that it carries now; WebSockets and open streams are some of them. */
  readonly load: number
}

/**
 * Smooth weighted round robin: over any stretch each gets its share of the choices, evenly spread, however busy it is.
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
    this.#credits[turn.index] = this.#credit(turn) - total
    return turn.index
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

const RANGE = 2 ** 32

/** A hash of the text: 32 bits, unsigned. */
function hashOfText(text: string): number {
  // FNV-1a over the units of the text.
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return mixed(hash)
}

/**
 * How far a server is from a key, both by `hashOfText`: above 0. Over all keys, the nearest is each server in proportion to its weight.
 *
 * Rendezvous hashing with weights (Thaler and Ravishankar 1998; weights by the logarithm, as Schindelhauer and Schomaker
 * 2005). Each pair of a key and a server has a distance of its own, and the key belongs to the nearest server. A server that
 * comes takes only the keys that are nearest to it, one that goes leaves each of its keys to the next in the order of that key.
 */
function distance(key: number, server: number, weight: number): number {
  const point = mixed(mixed(key ^ server) + server)
  return -Math.log((point + 0.5) / RANGE) / weight
}

/** The last step of MurmurHash3: each bit of the answer depends on each bit of the number. */
function mixed(number: number): number {
  let bits = number
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}
