import { pauseAfter } from '../../../lib/concurrency.js'
import type { LedgerAnswer, LedgerCall, LedgerEntry, LedgerGrant } from '../../../lib/limit-ledger.js'
import type { LeasedBucket, Outcome, Waiter } from './bucket.js'
import { LocalShare, TERMS } from './local-share.js'

/*
 * Limits over a cluster
 * =====================
 *
 * Promise. In any trailing window of `rate`, by the ledger's clock, all members of one ledger together admit at most `capacity`, whichever
 * calls and responses are late, lost, repeated or out of order, whichever members pause or stop at any moment, and whatever their clocks
 * show, as long as these run at the same speed within 1 % (and except for a limit whose `on_store_loss` is open).
 *
 * Rules. For each bucket the ledger has uses (number, and until when they count) and for each member at most one account with permits.
 *
 *   grant    A member gets permits only while used + leased + reserved, with them, is at most `capacity`.
 *   spend    A member admits by spending a permit that it holds before the end of its lease, which is `lease` after it sent the last
 *            call with a response. It decides by its own memory alone.
 *   declare  A call declares the total of the account's permits spent until some moments, how long ago these are, and how many permits are
 *            held now. The ledger counts new uses until (arrival − age) + rate + margin, and the account then holds the declared and the
 *            granted permits: permits that were granted and never arrived are free again.
 *   end      An account that is not declared again expires `ledgerLease` after the arrival of the last call: all of its permits then count
 *            as spent.
 *   serial   The ledger ignores a call whose serial is not greater than that of every executed call of the member. A member has one call
 *            in progress at a time, and ignores the response to a call that it has given up.
 *
 * Argument. Let T(t) be the admissions in (t − rate, t], U(t) and L(t) the ledger's used and leased permits. U + L is at most the capacity
 * at each grant and does not grow between grants: permits move from L to U, and leave either. So T ≤ U + L suffices.
 *
 *   before the report  A spent permit belongs to an account of the ledger from before the arrival of the response with it until it is
 *            declared as spent, or the account has expired. It is never declared as returned: a member returns permits that it holds, and
 *            stops spending them before the call is sent. A member never holds more than the account: a call that was given up may only
 *            have added to the account, and the serial prevents its execution after a later one.
 *   end      The lease starts for the member when it sends the call, and for the ledger when the call arrives, which is later;
 *            `ledgerLease` exceeds `lease` even if one clock is slow and the other one fast. So no permit is spent after its account has
 *            expired, and uses counted from the end of the account are counted for long enough.
 *   report   arrival − age is not before the use, except for the error of one clock over one lease, which `margin` exceeds. Permits
 *            declared for a moment were spent before it. The rest of `margin` separates requests whose delays to a server that also
 *            counts them differ.
 *   account  Its number is the serial of the call that opened it, so it is unique. A call with another number than the ledger's means that
 *            the member does not know that account: its permits count as spent now, or are free if no response since its opening arrived.
 *   capacity A smaller one grants nothing until used + leased fits again; a greater one grants more. Uses are kept. A request with a
 *            smaller capacity than that of the held grants spends none of them.
 *   away     See local-share.ts. With `closed` nothing is admitted without a permit.
 *   restarts Accounts of a member that stops without notice expire. The ledger is durable: a grant is on its disk before the response.
 *            A ledger that lost responses (after failover to a lagging copy, or an old backup) is detected by another history, or by a
 *            member whose answered serial it lacks; then it grants nothing until everything that it may have lost has left the window.
 *   clear    Deletes uses only; accounts are kept. From then on the argument holds for later admissions.
 */

/** Maximum number of buckets in one call. */
const MOST_ENTRIES = 256
/** Maximum number of waiting requests. */
const MOST_WAITING = 2_000
/** Maximum number of buckets checked by one tick. */
const MOST_DUE = 5_000
/** Maximum wait of a request (ms); a call without a response for this long means that the ledger is unreachable. */
const WAIT = 100
/** Delay before a bucket without a grant is requested again while others return permits (ms), and maximum repetitions. */
const RECALL = { after: 15, times: 2 }
/** Time for which a refusal is cached (ms). */
const DENIED = { least: 50, most: 1_000 }
/** Interval of calls without requests (ms). */
const BEAT = 1_000
/** Delays after failed calls (ms). */
const PAUSES = { first: 50, longest: 1_000 }
/** Time after the end of a lease after which unacknowledged use is dropped (ms). */
const FORGOTTEN = 10_000

/** Call in progress. */
export interface OutgoingCall extends LedgerCall {
  /** Monotonic milliseconds. */
  readonly sent: number
  readonly buckets: readonly LeasedBucket[]
}

/** Member of a ledger: its permits and calls. It has no timer and sends no call itself. Times are its monotonic milliseconds. */
export class Member {
  readonly id: string
  readonly share = new LocalShare()
  /** Calls with a response, calls without, and permits granted. */
  calls = 0
  failures = 0
  granted = 0
  readonly #buckets = new Map<string, LeasedBucket>()
  readonly #asking = new Set<LeasedBucket>()
  /** Times to request or remove unused buckets: all waits are equal, so the first one is due first. */
  readonly #due = new Map<LeasedBucket, number>()
  readonly #waiters: Waiter[] = []
  #underWay: OutgoingCall | undefined
  readonly #admits: boolean
  #yielding = false
  #serial = 0
  #failed = 0
  #retryAt = Number.NEGATIVE_INFINITY
  #beatAt = Number.NEGATIVE_INFINITY

  /** `id`: see `LedgerCall.member`. `admits`: decides requests. */
  constructor(id: string, admits = true) {
    this.id = id
    this.#admits = admits
  }

  /** Number of buckets with state. */
  get size(): number {
    return this.#buckets.size
  }

  /** Returns the permits that may be spent. */
  held(now: number): number {
    let sum = 0
    for (const { held, ends } of this.#buckets.values()) if (now < ends) sum += held
    return sum
  }

  /** True if a request waits. */
  get waits(): boolean {
    return this.#waiters.length > 0
  }

  /** Returns true if a call is necessary. */
  asks(now: number): boolean {
    return this.#asking.size > 0 && this.#underWay === undefined && now >= this.#retryAt
  }

  /** Adds a bucket; its `dropped` is called when it has no state any more. */
  add(bucket: LeasedBucket): void {
    this.#buckets.set(bucket.id, bucket)
  }

  /** Returns true if the ledger does not respond. */
  away(now: number): boolean {
    return this.#failed > 0 || (this.#underWay !== undefined && now - this.#underWay.sent > WAIT)
  }

  /** Decides a request with a cost up to `capacity` from local state; undefined: the ledger must be called. */
  take(bucket: LeasedBucket, capacity: number, cost: number, now: number): Exclude<Outcome, 'lost'> | undefined {
    bucket.capacity = capacity
    bucket.demands(cost, now)
    if (bucket.spend(cost, capacity, now)) {
      this.#stock(bucket, now)
      return 'admitted'
    }
    return bucket.denies(cost, capacity, now) ? 'refused' : undefined
  }

  /** Requests permits from the ledger; calls `settle` once. */
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

  /** Queries a bucket after the others have reported; undefined without a response. */
  look(bucket: LeasedBucket, capacity: number): Promise<LedgerGrant | undefined> {
    bucket.lookCapacity = capacity
    this.#asking.add(bucket)
    return new Promise((resolve) => bucket.looks.push(resolve))
  }

  /** Handles a recall of this bucket's permits; `cleared`: its use was cleared. */
  recalled(id: string, cleared: boolean, now: number): void {
    const bucket = this.#buckets.get(id)
    if (bucket === undefined) return
    if (cleared) bucket.cleared()
    else bucket.recalled(now)
    if (bucket.account !== 0) this.#asking.add(bucket)
  }

  /** Stops: returns all permits with the next calls and requests none. */
  yields(): void {
    this.#yielding = true
    for (const bucket of this.#buckets.values()) {
      bucket.keeps(0)
      if (bucket.account !== 0) this.#asking.add(bucket)
    }
  }

  /** Returns the call that is due, which is then in progress, or undefined. */
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

  /** Applies the response to a call. A late or repeated one has no effect. */
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

  /** Handles a call without a response, which may have been or may still be executed. */
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

  /** Must be called every 100 ms, and every 10 ms while a request waits. */
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

  /** Ends waits that took too long. All waits are equal, so the first one is due first. */
  #expire(now: number): void {
    const waiting = this.#waiters.findIndex(({ settled, until }) => !settled && until > now)
    const over = this.#waiters.splice(0, waiting === -1 ? this.#waiters.length : waiting)
    const late = over.filter(({ settled }) => !settled)
    for (const waiter of late) settle(waiter, 'lost')
    for (const bucket of new Set(late.map((waiter) => waiter.bucket)))
      bucket.waiters = bucket.waiters.filter(({ settled }) => !settled)
  }

  /** Drops state that an unreachable ledger has expired long ago. */
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
    // Without demand no permits are held.
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

  /** Decides waiting requests in order. */
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

  /** Requests more permits before the bucket is empty. */
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
