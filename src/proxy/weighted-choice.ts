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

  #credit({ index }: Share): number {
    return this.#credits[index] ?? 0
  }
}
