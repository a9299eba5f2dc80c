import { pauseAfter } from '../../../lib/concurrency.js'
import type { LedgerAnswer, LedgerCall, LedgerEntry, LedgerGrant } from '../../../lib/limit-ledger.js'
import type { LeasedBucket, Outcome, Waiter } from './bucket.js'
import { LocalShare, TERMS } from './local-share.js'

/*
 * Limits over a cluster
 * =====================
 *
 * Promise. In any trailing window of `rate`, by the clock of the ledger, all members of one ledger together admit at most `capacity`,
 * whatever calls and answers are late, lost, come twice or out of order, whichever members pause or end at any moment, and whatever their
 * clocks show, as long as these run equally fast but for 1 % (and but for a limit whose `on_store_loss` is open).
 *
 * Rules. Of each bucket the ledger has uses (how many, and until when they count) and for each member at most one account with permits.
 *
 *   grant    A member gets permits only while used + leased + reserved, with them, is at most `capacity`.
 *   spend    A member admits by spending a permit that it holds, before the end of its lease, which is `lease` after it sent the last call that
 *            was answered. It decides by its own memory alone.
 *   declare  A call says how many permits of the account were spent in all until some moments, how long ago these are, and how many are held
 *            now. The ledger counts what it did not know until (arrival − age) + rate + margin, and the account then holds
 *            what is declared and what is granted: what was granted and never arrived is free again.
 *   end      An account that is not declared anew is over `ledgerLease` after the last call came: all that it holds counts as spent then.
 *   serial   The ledger ignores a call with a serial that is not greater than that of another one of the member which it has carried out. A
 *            member has one call at a time under way, and takes no answer to a call that it has given up.
 *
 * Argument. Let T(t) be what was admitted in (t − rate, t], U(t) and L(t) what the ledger has as used and leased. U + L is at most the
 * capacity at each grant and does not grow between grants: permits go from L to U, and leave either. So T ≤ U + L is enough.
 *
 *   before the report  A permit that is spent belongs to an account of the ledger from before the answer that brought it came until it
 *            is declared as spent, or the account is over. It is never declared as given back: a member gives back what it holds, and spends it
 *            no more from before the call is sent. What a member holds is at most what the account has: a call that was
 *            given up may only have added to the account, and the serial keeps it from being carried out after a later one.
 *   end      The lease is counted from the sending by the member, and from the arrival by the ledger, which is later; `ledgerLease` is more
 *            than `lease` even where one clock is slow and the other one fast. So no permit is spent after its account is over, and what
 *            is counted from the end of the account is counted for long enough.
 *   report   arrival − age is not before the use but for the error of one clock over one lease, which `margin` exceeds. What is declared for
 *            one moment was used until then. The rest of `margin` keeps requests apart that need unequally long from here to a server
 *            that counts them, too.
 *   account  Its number is the serial of the call that opened it, so it comes once. A call with another one than the ledger has says that the
 *            member knows nothing of that account: what it holds counts as spent now, or is free where no answer from its opening on has come.
 *   capacity A smaller one grants nothing until used + leased fits again; a greater one grants more. What counts stays. A request that
 *            brings a smaller one than its permits were granted within spends none of them.
 *   away     See local-share.ts. With `closed` nothing is admitted but by a permit.
 *   restarts A member that ends without a word is one whose accounts are over in time. The ledger keeps what it has said: a grant is on
 *            its disk before it is answered. A ledger that has lost what it said (a copy that lagged has taken its place, or one of yesterday) is
 *            known by another history, or by a member whose answered serial it has not; then it grants nothing until
 *            all that could be forgotten has left the window.
 *   clear    Forgets uses alone; accounts stay. From then on the argument holds for what is admitted later.
 */

/** Buckets of one call, and requests that wait for permits at a time. */
const MOST_ENTRIES = 256
const MOST_WAITING = 2_000
/** Buckets that one tick looks at. */
const MOST_DUE = 5_000
/** A request waits for so long at most; a call without an answer for so long says that the ledger is away. Milliseconds. */
const WAIT = 100
/** A bucket that got nothing is asked for again after this time while others are to give back, and so often. Milliseconds. */
const RECALL = { after: 15, times: 2 }
/** How long a refusal is remembered. Milliseconds. */
const DENIED = { least: 50, most: 1_000 }
const BEAT = 1_000
const PAUSES = { first: 50, longest: 1_000 }
/** What is not answered for so long after the end of its lease is forgotten. Milliseconds. */
const FORGOTTEN = 10_000

/** A call that is under way. */
export interface OutgoingCall extends LedgerCall {
  /** Monotonic milliseconds. */
  readonly sent: number
  readonly buckets: readonly LeasedBucket[]
}

/** One member of a ledger: what it holds, and what it asks. It has no timer and makes no call itself. Times are its monotonic milliseconds. */
export class Member {
  readonly id: string
  readonly share = new LocalShare()
  /** Calls that were answered, that were not, and permits that they have brought. */
  calls = 0
  failures = 0
  granted = 0
  readonly #buckets = new Map<string, LeasedBucket>()
  readonly #asking = new Set<LeasedBucket>()
  /** When to ask for, or forget, buckets that no request asks for: all waits are equally long, so the first one is due first. */
  readonly #due = new Map<LeasedBucket, number>()
  readonly #waiters: Waiter[] = []
  #underWay: OutgoingCall | undefined
  readonly #admits: boolean
  #yielding = false
  #serial = 0
  #failed = 0
  #retryAt = Number.NEGATIVE_INFINITY
  #beatAt = Number.NEGATIVE_INFINITY

  /** `id`: see `LedgerCall.member`. `admits`: it decides requests, and does not only look. */
  constructor(id: string, admits = true) {
    this.id = id
    this.#admits = admits
  }

  /** Buckets of which something is known. */
  get size(): number {
    return this.#buckets.size
  }

  /** Permits that may be spent. */
  held(now: number): number {
    let sum = 0
    for (const { held, ends } of this.#buckets.values()) if (now < ends) sum += held
    return sum
  }

  /** Is there someone who waits? */
  get waits(): boolean {
    return this.#waiters.length > 0
  }

  /** Is there something to ask for that is not asked for yet? */
  asks(now: number): boolean {
    return this.#asking.size > 0 && this.#underWay === undefined && now >= this.#retryAt
  }

  /** Takes part with a bucket whose `dropped` is called when nothing is known of it any more. */
  add(bucket: LeasedBucket): void {
    this.#buckets.set(bucket.id, bucket)
  }

  /** Does the ledger not answer, as far as is known? */
  away(now: number): boolean {
    return this.#failed > 0 || (this.#underWay !== undefined && now - this.#underWay.sent > WAIT)
  }

  /** Decides a request that costs at most `capacity` by what is known; undefined: the ledger has to be asked. */
  take(bucket: LeasedBucket, capacity: number, cost: number, now: number): Exclude<Outcome, 'lost'> | undefined {
    bucket.capacity = capacity
    bucket.demands(cost, now)
    if (bucket.spend(cost, capacity, now)) {
      this.#stock(bucket, now)
      return 'admitted'
    }
    return bucket.denies(cost, capacity, now) ? 'refused' : undefined
  }

  /** Asks the ledger for a request, and calls `settle` once. */
  wait(bucket: LeasedBucket, capacity: number, cost: number, now: number, settle: Waiter['settle']): void {
    if (this.#yielding || this.#waiters.length >= MOST_WAITING || this.away(now)) {
      this.#asking.add(bucket)
      settle('lost')
      return
    }
    const waiter = { bucket, capacity, cost, until: now + WAIT, settle, settled: false }
    bucket.waiters.push(waiter)
    this.#waiters.push(waiter)
    this.#asking.add(bucket)
  }

  /** Asks the ledger how the bucket is, after the others have been asked to report; undefined: it did not answer. */
  look(bucket: LeasedBucket, capacity: number): Promise<LedgerGrant | undefined> {
    bucket.lookCapacity = capacity
    this.#asking.add(bucket)
    return new Promise((resolve) => bucket.looks.push(resolve))
  }

  /** Others want permits of this bucket; `cleared`: what was used of it was forgotten. */
  recalled(id: string, cleared: boolean, now: number): void {
    const bucket = this.#buckets.get(id)
    if (bucket === undefined) return
    if (cleared) bucket.cleared()
    else bucket.recalled(now)
    if (bucket.account !== 0) this.#asking.add(bucket)
  }

  /** The member ends: all permits are given back with the next calls, and none are asked for. */
  yields(): void {
    this.#yielding = true
    for (const bucket of this.#buckets.values()) {
      bucket.keeps(0)
      if (bucket.account !== 0) this.#asking.add(bucket)
    }
  }

  /** The call that is to be made now, if one is; it is under way then. */
  outgoing(now: number): OutgoingCall | undefined {
    if (this.#underWay !== undefined || now < this.#retryAt) return undefined
    const beats = this.#admits && now >= this.#beatAt
    const buckets = this.#next(now)
    if (buckets.length === 0 && !beats) return undefined
    const { share, ...declared } = this.share.declared(now)
    const call = {
      member: this.id,
      serial: ++this.#serial,
      ...declared,
      ...(beats ? { share } : {}),
      entries: buckets.map((bucket) => this.#entry(bucket, now)),
      sent: now,
      buckets
    }
    for (const bucket of buckets) bucket.underWay = true
    this.#underWay = call
    return call
  }

  /** The answer to a call. One that comes late, or for a second time, changes nothing. */
  answered(call: OutgoingCall, answer: LedgerAnswer, now: number): void {
    if (call !== this.#underWay) return
    const { grants } = answer
    if (grants === undefined || now - call.sent > TERMS.answer) {
      this.failed(call, now)
      return
    }
    this.#underWay = undefined
    this.#failed = 0
    this.calls += 1
    this.share.answered(call, answer.now, answer.share, now)
    if (answer.share !== undefined) this.#beatAt = call.sent + BEAT
    for (const [i, bucket] of call.buckets.entries()) {
      bucket.underWay = false
      const [entry, grant] = [call.entries[i], grants[i]]
      if (entry !== undefined && grant !== undefined) this.#take(bucket, entry, grant, call.sent, now)
    }
  }

  /** The call was not answered; it may have been carried out, or may still be. */
  failed(call: OutgoingCall, now: number): void {
    if (call !== this.#underWay) return
    this.#underWay = undefined
    this.#failed += 1
    this.failures += 1
    this.#retryAt = now + pauseAfter(this.#failed, PAUSES)
    this.#beatAt = Number.NEGATIVE_INFINITY
    for (const bucket of call.buckets) {
      bucket.underWay = false
      this.#asking.add(bucket)
      for (const look of bucket.looks.splice(0)) look(undefined)
    }
  }

  /** Call it every 100 ms, and every 10 ms while someone waits. */
  tick(now: number): void {
    if (this.#underWay !== undefined && now - this.#underWay.sent > TERMS.answer) this.failed(this.#underWay, now)
    this.#expire(now)
    let most = MOST_DUE
    for (const [bucket, due] of this.#due) {
      if (due > now || most-- === 0) break
      this.#due.delete(bucket)
      if (bucket.account !== 0) this.#asking.add(bucket)
      else this.#drop(bucket, now)
    }
    if (this.#failed > 0) this.#forget(now)
  }

  /** Requests have waited long enough. All wait equally long, so the first one is due first. */
  #expire(now: number): void {
    const waiting = this.#waiters.findIndex(({ settled, until }) => !settled && until > now)
    const over = this.#waiters.splice(0, waiting === -1 ? this.#waiters.length : waiting)
    const late = over.filter(({ settled }) => !settled)
    for (const waiter of late) settle(waiter, 'lost')
    for (const bucket of new Set(late.map((waiter) => waiter.bucket)))
      bucket.waiters = bucket.waiters.filter(({ settled }) => !settled)
  }

  /** While the ledger is away: what it has ended by itself long ago. */
  #forget(now: number): void {
    for (const bucket of this.#asking) {
      if (bucket.underWay || bucket.waiters.length > 0 || bucket.looks.length > 0 || now < bucket.ends + FORGOTTEN)
        continue
      bucket.account = 0
      this.#asking.delete(bucket)
      this.#drop(bucket, now)
    }
  }

  #drop(bucket: LeasedBucket, now: number): void {
    if (!bucket.idle(now) || this.#asking.has(bucket)) return
    this.#due.delete(bucket)
    this.#buckets.delete(bucket.id)
    bucket.dropped()
  }

  #next(now: number): LeasedBucket[] {
    const buckets: LeasedBucket[] = []
    for (const bucket of this.#asking) {
      if (bucket.askAt > now) continue
      this.#asking.delete(bucket)
      buckets.push(bucket)
      if (buckets.length === MOST_ENTRIES) break
    }
    return buckets.sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  #entry(bucket: LeasedBucket, now: number): LedgerEntry {
    const { id, rate, account, waiters, loss } = bucket
    if (now >= bucket.ends) bucket.held = 0
    const [first] = waiters
    const recall = bucket.looks.length > 0
    const looks = recall && first === undefined
    const capacity = first?.capacity ?? (looks ? bucket.lookCapacity : bucket.capacity)
    // Without demand nothing is held any longer.
    if (this.#yielding) bucket.keeps(0)
    else if (first === undefined && now + TERMS.lease / 2 >= bucket.ends) bucket.keeps(bucket.target(now))
    if (capacity < bucket.heldWithin) bucket.keeps(0)
    const waiting = waiters.reduce((sum, { cost }) => sum + cost, 0)
    const stock = this.#yielding || looks || bucket.denies(1, capacity, now) ? 0 : bucket.wanted(now)
    const want = Math.min(capacity, waiting + stock)
    const least = Math.max(1, (first?.cost ?? 1) - bucket.held)
    return { id, rate, capacity, account, ...bucket.declares(now), held: bucket.held, want, least, loss, recall }
  }

  #take(bucket: LeasedBucket, entry: LedgerEntry, grant: LedgerGrant, sent: number, now: number): void {
    bucket.counted(entry.totals.at(-1) ?? 0, grant.account)
    bucket.held += grant.granted
    this.granted += grant.granted
    if (grant.granted > 0) bucket.heldWithin = entry.capacity
    if (grant.account !== 0) bucket.ends = sent + TERMS.lease
    bucket.free = Math.max(0, bucket.capacity - entry.capacity + grant.free)
    bucket.nextAt = now + grant.next
    bucket.resetAt = now + grant.reset
    this.#due.delete(bucket)
    for (const look of bucket.looks.splice(0)) look(grant)
    if (grant.granted < entry.want) bucket.scarce(now)
    const short = entry.want > 0 && grant.granted < entry.least
    const denied = Math.min(DENIED.most, Math.max(DENIED.least, grant.next))
    bucket.deniedUntil = short ? now + denied : Number.NEGATIVE_INFINITY
    bucket.deniedCost = entry.least + entry.held
    bucket.deniedCapacity = entry.capacity
    if (short && grant.leased > 0 && bucket.asked < RECALL.times && bucket.waiters.length > 0) {
      bucket.asked += 1
      bucket.askAt = now + RECALL.after
      bucket.deniedUntil = Number.NEGATIVE_INFINITY
      this.#asking.add(bucket)
    } else {
      bucket.asked = 0
      bucket.askAt = Number.NEGATIVE_INFINITY
      this.#serve(bucket, now)
    }
    if (this.#asking.has(bucket)) return
    if (bucket.account !== 0) this.#due.set(bucket, sent + TERMS.lease / 2)
    else if (bucket.deniedUntil > now) this.#due.set(bucket, now + DENIED.most)
    else this.#drop(bucket, now)
  }

  /** Decides those who wait, in their order. */
  #serve(bucket: LeasedBucket, now: number): void {
    while (bucket.waiters.length > 0) {
      const first = bucket.waiters[0] as Waiter
      const { cost, capacity } = first
      const spent = bucket.spend(cost, capacity, now)
      const outcome = spent ? 'admitted' : bucket.denies(cost, capacity, now) ? 'refused' : undefined
      if (outcome === undefined) {
        this.#asking.add(bucket)
        return
      }
      bucket.waiters.shift()
      settle(first, outcome)
    }
    this.#stock(bucket, now)
  }

  /** Asks for more before the bucket has run dry. */
  #stock(bucket: LeasedBucket, now: number): void {
    if (
      this.#yielding ||
      bucket.underWay ||
      bucket.wanted(now) <= bucket.held ||
      bucket.denies(1, bucket.capacity, now)
    )
      return
    this.#asking.add(bucket)
  }
}

function settle(waiter: Waiter, outcome: Outcome): void {
  waiter.settled = true
  waiter.settle(outcome)
}
