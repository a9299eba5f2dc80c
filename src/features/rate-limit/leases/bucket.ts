import type { LedgerGrant, StoreLoss } from '../../../lib/limit-ledger.js'

/** How a request is decided: `lost` when the ledger does not answer in time. */
export type Outcome = 'admitted' | 'refused' | 'lost'

/** A request that waits for permits. */
export interface Waiter {
  readonly bucket: LeasedBucket
  readonly cost: number
  readonly capacity: number
  /** Monotonic milliseconds. */
  readonly until: number
  readonly settle: (outcome: Outcome) => void
  settled: boolean
}

/** Demand is an average over about so long; permits are held for so much of it, and for less where less than this part of the capacity is free. Milliseconds. */
const AVERAGE = 500
const HORIZON = { ample: 250, scarce: 60, part: 8 }
/** One process has this part of the capacity in stock at most. A bucket that is asked at least once a second has so many, where there are enough. */
const STOCK = { part: 16, few: 8, ofFew: 64, demand: 0.4 }
/** What is spent within so long is declared together, and so many such spans at most are kept apart. Milliseconds. */
const SPAN = 50
const MOST_SPANS = 16
/** Of what is recalled, permits for so long stay. Where they are scarce, none are asked for in stock for so long. Milliseconds. */
const SCARCE = { kept: 20, rests: 60 }

/** What this member knows of one bucket, and holds of it. Times are monotonic milliseconds of the member. */
export class LeasedBucket {
  readonly id: string
  /** Length of the window. */
  readonly rate: number
  loss: StoreLoss
  /** Called when the member knows nothing of the bucket any more. */
  readonly dropped: () => void
  /** Of the last request, and of the last one who only looks. */
  capacity = 0
  lookCapacity = 0
  /** See `LedgerEntry`. */
  account = 0
  used = 0
  held = 0
  /** What was spent and not answered: totals of the account, and when the last permit of each was spent. */
  readonly #spent: { total: number; readonly since: number; last: number }[] = []
  /** Until when what is held may be spent. */
  ends = Number.NEGATIVE_INFINITY
  /** The capacity within which what is held was granted: a request that brings a smaller one does not spend it. */
  heldWithin = 0
  /** Requests of this cost and more, with this capacity and less, are refused until then without a question. */
  deniedUntil = Number.NEGATIVE_INFINITY
  deniedCost = Number.POSITIVE_INFINITY
  deniedCapacity = 0
  /** As the ledger said last: what it could still grant, when the next permits become free, and when all do. */
  free = 0
  nextAt = 0
  resetAt = 0
  /** It stands in the call that is under way. */
  underWay = false
  /** It is not asked for before, and how often it was asked for again after a recall. */
  askAt = Number.NEGATIVE_INFINITY
  asked = 0
  waiters: Waiter[] = []
  readonly looks: ((grant: LedgerGrant | undefined) => void)[] = []
  #demand = 0
  #demandAt = 0
  #restsUntil = Number.NEGATIVE_INFINITY

  constructor(id: string, rate: number, loss: StoreLoss, dropped: () => void) {
    this.id = id
    this.rate = rate
    this.loss = loss
    this.dropped = dropped
  }

  /** A request of this cost has come. */
  demands(cost: number, now: number): void {
    this.#demand = this.#demandNow(now) + cost
    this.#demandAt = now
  }

  /** Permits that are worth asking for beyond those for requests that wait. */
  wanted(now: number): number {
    return now < this.#restsUntil ? 0 : Math.max(0, this.target(now) - this.held)
  }

  /** Permits that are worth holding. */
  target(now: number): number {
    const demand = this.#demandNow(now)
    const few = demand < STOCK.demand ? 0 : Math.min(STOCK.few, Math.floor(this.capacity / STOCK.ofFew))
    const most = Math.floor(this.capacity / STOCK.part)
    const horizon = this.free * HORIZON.part < this.capacity ? HORIZON.scarce : HORIZON.ample
    return Math.min(most, Math.max(few, Math.round((demand * horizon) / AVERAGE)))
  }

  /** Spends permits if there are enough. */
  spend(cost: number, capacity: number, now: number): boolean {
    if (now >= this.ends) this.held = 0
    if (this.held < cost || capacity < this.heldWithin) return false
    this.held -= cost
    this.used += cost
    const last = this.#spent.at(-1)
    if (last !== undefined && (now - last.since < SPAN || this.#spent.length === MOST_SPANS)) {
      last.total = this.used
      last.last = now
    } else this.#spent.push({ total: this.used, since: now, last: now })
    return true
  }

  /** See `LedgerEntry`. */
  declares(now: number): { readonly totals: readonly number[]; readonly ages: readonly number[] } {
    return {
      totals: this.#spent.map(({ total }) => total),
      ages: this.#spent.map(({ last }) => Math.max(0, Math.floor(now - last)))
    }
  }

  /** The ledger has counted so many of the account; its number from now on. */
  counted(total: number, account: number): void {
    if (account === this.account) {
      while ((this.#spent[0]?.total ?? Number.POSITIVE_INFINITY) <= total) this.#spent.shift()
      return
    }
    this.account = account
    this.used = 0
    this.held = 0
    this.#spent.length = 0
  }

  /** Is it known that such a request gets nothing? */
  denies(cost: number, capacity: number, now: number): boolean {
    return now < this.deniedUntil && cost >= this.deniedCost && capacity <= this.deniedCapacity
  }

  /** Permits beyond these are given back with the next call. */
  keeps(most: number): void {
    if (this.held > most) this.held = most
  }

  /** Others want its permits. */
  recalled(now: number): void {
    this.keeps(Math.floor((this.#demandNow(now) * SCARCE.kept) / AVERAGE))
    this.scarce(now)
  }

  /** There were fewer than were wanted. */
  scarce(now: number): void {
    this.#restsUntil = now + SCARCE.rests
  }

  /** What was known of its use is over. */
  cleared(): void {
    this.deniedUntil = Number.NEGATIVE_INFINITY
  }

  /** Is nothing held or known of it, and does no request wait for it? */
  idle(now: number): boolean {
    return (
      this.account === 0 &&
      !this.underWay &&
      this.waiters.length === 0 &&
      this.looks.length === 0 &&
      now >= this.deniedUntil
    )
  }

  #demandNow(now: number): number {
    return this.#demand === 0 ? 0 : this.#demand * Math.exp((this.#demandAt - now) / AVERAGE)
  }
}
