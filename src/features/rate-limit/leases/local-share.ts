/** Common times of the ledger and its members (ms). */
export const TERMS = {
  /** Lease: for the holder from the sending of its call, for the ledger from the arrival. */
  lease: 2_000,
  ledgerLease: 2_100,
  /** Additional time for which the ledger counts each use, besides `rate`. */
  margin: 100,
  /** Silence after which the ledger reserves a member's share; `gone`: after which it removes the member. */
  silent: 15_000,
  gone: 900_000,
  /** Time for which a greater share must be offered before it is used. */
  settled: 60_000,
  /** Later responses are ignored. */
  answer: 1_000
} as const

/** Maximum difference in speed between clocks of members and the ledger. */
const DRIFT = 0.02
/** Time without a response after which a member starts anew, because the ledger may have removed it (ms). */
const STRANGER = TERMS.gone / 2

/**
 * Share that a member may admit while the ledger does not respond.
 *
 * Let c be the time of the last response by the member's clock. The ledger stamped that response before c. From `silent` after this stamp
 * it grants nothing of the member's share (of limits whose `on_store_loss` is local): the member confirms with each call the response it
 * has seen, and a late call confirms nothing new. Earlier grants to other members are spent within `ledgerLease` and leave the window
 * `rate` later. So from c + silent + ledgerLease + margin + rate on the others have at most the capacity less the share in the window, and
 * the member may admit its share.
 *
 * All shares together are at most 1: the ledger counts the larger of the share that a member uses and the one offered to it. A greater
 * share is used once it has been offered for `settled`: so a lagging copy of the ledger that takes over and lags by less than that knows
 * it, and grants nothing for `rate` besides.
 *
 * The member stops early enough for its last use to leave the window before the ledger removes it. When it returns it reports its own
 * admissions: the share stays reserved for `rate` more.
 */
export class LocalShare {
  #share = 0
  /** Greater share that has been offered continuously since then. */
  #offer: { share: number; readonly since: number } | undefined
  #answeredAt = Number.NEGATIVE_INFINITY
  #serial = 0
  #seen = 0
  #usedAt = Number.NEGATIVE_INFINITY

  /** Returns the share in use, and whether the member has admitted with it, for a call. */
  declared(now: number): { share: number; answered: number; seen: number; local: boolean } {
    if (now - this.#answeredAt > STRANGER) {
      if (now - this.#answeredAt > TERMS.gone * (1 - DRIFT)) this.#share = 0
      this.#offer = undefined
      this.#serial = 0
    }
    const local = this.#usedAt > Number.NEGATIVE_INFINITY
    return { share: this.#share, answered: this.#serial, seen: this.#seen, local }
  }

  /** Applies the response to a call that was sent at a given time. */
  answered(
    call: { readonly serial: number; readonly sent: number },
    seen: number,
    share: number | undefined,
    now: number
  ): void {
    this.#answeredAt = now
    this.#serial = call.serial
    this.#seen = seen
    if (share !== undefined) this.#offered(share, now)
    if (this.#usedAt < call.sent) this.#usedAt = Number.NEGATIVE_INFINITY
  }

  #offered(share: number, now: number): void {
    if (share <= this.#share) {
      this.#share = share
      this.#offer = undefined
      return
    }
    this.#offer ??= { share, since: now }
    this.#offer.share = Math.min(this.#offer.share, share)
    if (now - this.#offer.since < TERMS.settled) return
    this.#share = this.#offer.share
    this.#offer = undefined
  }

  /** Returns the part of a capacity that this member may admit in the window without the ledger; 0: none. */
  of(capacity: number, rate: number, now: number): number {
    const silence = now - this.#answeredAt
    const from = (TERMS.silent + TERMS.ledgerLease + TERMS.margin + rate) * (1 + DRIFT)
    const until = (TERMS.gone - rate) * (1 - DRIFT) - 2 * TERMS.answer
    return silence >= from && silence <= until ? Math.floor(capacity * this.#share) : 0
  }

  /** Records an admission without the ledger. */
  used(now: number): void {
    this.#usedAt = now
  }
}
