import type { LedgerGrant, StoreLoss } from '../../../lib/limit-ledger.js'

/** Result for a request: `lost` if the ledger does not respond in time. */
export type Outcome = 'admitted' | 'refused' | 'lost'

/** Request that waits for permits. */
export interface Waiter {
  readonly bucket: LeasedBucket
  readonly cost: number
  readonly capacity: number
  /** Monotonic milliseconds. */
  readonly until: number
  readonly settle: (outcome: Outcome) => void
  settled: boolean
}

/** Averaging time of the demand (ms). */
const AVERAGE = 500
/** Duration of demand for which permits are held (ms): `ample`, or `scarce` if less than 1 / `part` of the capacity is free. */
const HORIZON = { ample: 250, scarce: 60, part: 8 }
/**
 * Stock limits: at most 1 / `part` of the capacity per process. A bucket requested at least once a second (average `demand`) holds `few`,
 * up to 1 / `ofFew` of the capacity.
 */
const STOCK = { part: 16, few: 8, ofFew: 64, demand: 0.4 }
/** Time in which spent permits are declared together (ms). */
const SPAN = 50
/** Maximum number of spans with unacknowledged permits. */
const MOST_SPANS = 16
/** After a recall, permits for `kept` ms remain. While permits are scarce, no stock is requested for `rests` ms. */
const SCARCE = { kept: 20, rests: 60 }

/** State and permits of one bucket in this member. Times are its monotonic milliseconds. */
export class LeasedBucket {
  readonly id: string
  /** Length of the window (ms). */
  readonly rate: number
  loss: StoreLoss
  /** Called when the bucket has no state any more. */
  readonly dropped: () => void
  /** Capacity of the last request or query. */
  capacity = 0
  lookCapacity = 0
  /** See `LedgerEntry`. */
  account = 0
  used = 0
  held = 0
  /** Spent permits that are not acknowledged: totals of the account, and the time of the last permit of each. */
  readonly #spent: { total: number; readonly since: number; last: number }[] = []
  /** End of the time in which held permits may be spent. */
  ends = Number.NEGATIVE_INFINITY
  /** Capacity for which the held permits were granted: a request with a smaller one does not spend them. */
  heldWithin = 0
  /** Until then requests with this cost or more and this capacity or less are refused without a call. */
  deniedUntil = Number.NEGATIVE_INFINITY
  deniedCost = Number.POSITIVE_INFINITY
  deniedCapacity = 0
  /** Last state from the ledger: grantable permits, when the next become free, and when all do. */
  free = 0
  nextAt = 0
  resetAt = 0
  /** True while the current call contains the bucket. */
  underWay = false
  /** Earliest next call, and number of calls after a recall. */
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

  /** Records a request of this cost. */
  demands(cost: number, now: number): void {
    this.#demand = this.#demandNow(now) + cost
    this.#demandAt = now
  }

  /** Returns the permits to request beyond those for waiting requests. */
  wanted(now: number): number {
    return now < this.#restsUntil ? 0 : Math.max(0, this.target(now) - this.held)
  }

  /** Returns the permits to hold. */
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

  /** Returns the spent permits that are not acknowledged, as totals and ages (ms); see `LedgerEntry`. */
  declares(now: number): { readonly totals: readonly number[]; readonly ages: readonly number[] } {
    return {
      totals: this.#spent.map(({ total }) => total),
      ages: this.#spent.map(({ last }) => Math.max(0, Math.floor(now - last)))
    }
  }

  /** Applies the ledger's count for the account, and its new number. */
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

  /** Returns true if a request of this cost and capacity is known to be refused. */
  denies(cost: number, capacity: number, now: number): boolean {
    return now < this.deniedUntil && cost >= this.deniedCost && capacity <= this.deniedCapacity
  }

  /** Returns permits beyond `most` with the next call. */
  keeps(most: number): void {
    if (this.held > most) this.held = most
  }

  /** Handles a recall by other members. */
  recalled(now: number): void {
    this.keeps(Math.floor((this.#demandNow(now) * SCARCE.kept) / AVERAGE))
    this.scarce(now)
  }

  /** Handles a grant smaller than requested. */
  scarce(now: number): void {
    this.#restsUntil = now + SCARCE.rests
  }

  /** Forgets known refusals after the use was cleared. */
  cleared(): void {
    this.deniedUntil = Number.NEGATIVE_INFINITY
  }

  /** Returns true if nothing is held or known, and no request waits. */
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
