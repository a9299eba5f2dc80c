import { appendTo } from '../lib/lists.js'

/** Share of an edge in the traffic of its pool. */
export interface Pooled {
  /** Number of endpoints behind the edge, which share its URL with other edges. @default the URL belongs to this edge alone */
  readonly pool?: number | undefined
}

/** Edges that share one URL. Each request or connection goes to one of them, drawn at random by their numbers of endpoints. Immutable. */
export class Pool<M> {
  readonly members: readonly M[]
  readonly #shares: readonly number[]
  /** Sum of the shares up to each member, with its own. */
  readonly #ends: readonly number[]
  readonly #total: number

  /** `shares`: numbers of endpoints, one for each member. */
  constructor(members: readonly M[], shares: readonly number[]) {
    this.members = members
    this.#shares = shares
    let total = 0
    this.#ends = shares.map((share) => {
      total += share
      return total
    })
    this.#total = total
  }

  /** Returns a member, one that `serves` unless none does. `random`: from 0 up to, but not including, 1. */
  draw(serves?: (member: M) => boolean, random = Math.random()): M {
    const place = random * this.#total
    let index = 0
    while (index < this.members.length - 1 && place >= (this.#ends[index] as number)) index++
    const drawn = this.members[index] as M
    if (serves === undefined || serves(drawn)) return drawn
    const left = this.members.map((member, place) => [member, this.#shares[place] as number] as const)
    const others = left.filter(([member]) => serves(member))
    if (others.length === 0) return drawn
    return new Pool(
      others.map(([member]) => member),
      others.map(([, share]) => share)
    ).draw()
  }
}

/** Returns the pool of entries of which there are several; undefined for fewer. */
export function makePool<M>(members: readonly M[], shareOf: (member: M) => number | undefined): Pool<M> | undefined {
  const pooled = members.filter((member) => shareOf(member) !== undefined)
  return pooled.length < 2
    ? undefined
    : new Pool(
        pooled,
        pooled.map((member) => shareOf(member) ?? 0)
      )
}

/** Entry for an edge, with its pool. */
interface Member {
  readonly edge: Pooled
  readonly pool?: Pool<unknown> | undefined
}

/** Returns the entries with the pools that they are in. `urlOf`: equal for entries with the same URL. */
export function withPools<M extends Member>(members: readonly M[], urlOf: (member: M) => string): readonly M[] {
  if (!members.some(({ edge, pool }) => edge.pool !== undefined || pool !== undefined)) return members
  const alone = members.map((member) => ({ ...member, pool: undefined }) as M & { pool: Pool<M> | undefined })
  const same = new Map<string, M[]>()
  for (const member of alone) appendTo(same, urlOf(member), member)
  const pools = new Map(Array.from(same, ([url, all]) => [url, makePool(all, ({ edge }) => edge.pool)]))
  // A member that is drawn knows the others.
  for (const member of alone) if (member.edge.pool !== undefined) member.pool = pools.get(urlOf(member))
  return alone
}
