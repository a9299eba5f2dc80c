/** What the rules of the ledger and of its members have in common. Milliseconds. */
export const TERMS = {
  /** A lease ends for the holder so long after it sent its call, and for the ledger so long after the call came. */
  lease: 2_000,
  ledgerLease: 2_100,
  /** The ledger counts each use for so much longer than `rate`. */
  margin: 100,
  /** From then on the ledger keeps the share of a member that is silent for it, and after so long it forgets the member. */
  silent: 15_000,
  gone: 900_000,
  /** A greater share is believed after it was offered for so long. */
  settled: 60_000,
  /** An answer that comes later is not taken. */
  answer: 1_000
} as const

/** Clocks of members and of the ledger run equally fast but for so much. */
const DRIFT = 0.02
/** After so long without an answer a member begins anew: the ledger may have forgotten it. Milliseconds. */
const STRANGER = TERMS.gone / 2

/**
 * How much a member may admit while the ledger does not answer.
 *
 * Let c be when the last answer came, by the clock of the member. The ledger has stamped that answer before c. From `silent` after this
 * stamp on it grants nothing of the member's share (of limits whose `on_store_loss` is local): the member confirms with each call what
 * it has seen, and a call that comes late confirms nothing new. What the others were granted before is spent after `ledgerLease` and
 * has left the window `rate` later. So from c + silent + ledgerLease + margin + rate on they have at most the capacity less the share in the
 * window, and the member may admit its share of it.
 *
 * All shares together are at most 1: the ledger counts the larger one of the share that a member believes to have and that it is offered. A
 * greater share is believed when it has been offered for `settled`: so a copy of the ledger that takes its place and lags by less than
 * that knows of it, and grants nothing for `rate` besides.
 *
 * The member stops in time for its last use to leave the window before the ledger forgets it. When it comes back it says that it has admitted:
 * the share stays reserved for `rate` more.
 */
export class LocalShare {
  #share = 0
  /** A greater share, as far as it was offered all the time since then. */
  #offer: { share: number; readonly since: number } | undefined
  #answeredAt = Number.NEGATIVE_INFINITY
  #serial = 0
  #seen = 0
  #usedAt = Number.NEGATIVE_INFINITY

  /** Which share the member believes to have, and whether it has admitted by it: as a call declares them. */
  declared(now: number): { share: number; answered: number; seen: number; local: boolean } {
    if (now - this.#answeredAt > STRANGER) {
      if (now - this.#answeredAt > TERMS.gone * (1 - DRIFT)) this.#share = 0
      this.#offer = undefined
      this.#serial = 0
    }
    const local = this.#usedAt > Number.NEGATIVE_INFINITY
    return { share: this.#share, answered: this.#serial, seen: this.#seen, local }
  }

  /** An answer has come to a call that was sent then. */
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

  /** Of a capacity, what this member may admit in the window without the ledger now; 0: nothing. */
  of(capacity: number, rate: number, now: number): number {
    const silence = now - this.#answeredAt
    const from = (TERMS.silent + TERMS.ledgerLease + TERMS.margin + rate) * (1 + DRIFT)
    const until = (TERMS.gone - rate) * (1 - DRIFT) - 2 * TERMS.answer
    return silence >= from && silence <= until ? Math.floor(capacity * this.#share) : 0
  }

  /** The member has admitted without the ledger. */
  used(now: number): void {
    this.#usedAt = now
  }
}
