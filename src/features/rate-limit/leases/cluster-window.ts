import type { LedgerGrant, StoreLoss } from '../../../lib/limit-ledger.js'
import { type BucketPeek, type Decision, MAX_CAPACITY, undecided } from '../limiter/decision.js'
import type { LimitWindow, SlidingWindow } from '../limiter/sliding-window.js'
import { LeasedBucket, type Outcome } from './bucket.js'
import type { Member } from './member.js'

/** Common state of the windows of one process. */
interface Shared {
  readonly clock: { monotonic(): number }
  readonly member: Member
  readonly hasRoom: boolean
  refusedAlone: number
  admittedAlone: number
  idOf(bucket: string): string
  ask(): void
  clear(bucket: LeasedBucket): Promise<void>
  alone(loss: StoreLoss, capacity: number, rate: number): number
}

interface ClusterWindowParts {
  readonly identity: string
  readonly rateSeconds: number
  readonly own: Pick<SlidingWindow, 'take' | 'peek' | 'forget'>
}

/** The ledger did not report the state of a bucket. */
export class LedgerAway extends Error {
  override readonly name = 'LedgerAway'
}

/** Query of a bucket (ms): timeout, delay before a repetition while other members hold permits, and maximum repetitions. */
const LOOK = { within: 1_000, again: 60, times: 3 }

/**
 * Limit over the cluster. Decides with the permits of the process and waits for the ledger only without them. Admissions are also counted
 * in the table of the process, which limits its share while the ledger is unreachable.
 */
export class ClusterWindow implements LimitWindow {
  readonly #shared: Shared
  readonly #parts: ClusterWindowParts
  readonly #rate: number
  readonly #buckets = new Map<string, LeasedBucket>()
  readonly #decision: Decision = undecided()

  constructor(shared: Shared, parts: ClusterWindowParts) {
    this.#shared = shared
    this.#parts = parts
    this.#rate = parts.rateSeconds * 1_000
  }

  /**
   * Decides a request as `SlidingWindow.take` does; asynchronous if the ledger must be called. `loss`: behaviour if it does not respond.
   */
  take(
    key: string,
    capacity: number,
    cost = 1,
    loss: StoreLoss = 'local'
  ): Readonly<Decision> | Promise<Readonly<Decision>> {
    const shared = this.#shared
    const { member } = shared
    const now = shared.clock.monotonic()
    if (cost === 0 || cost > capacity) return this.#always(key, capacity, cost, now)
    const bucket = this.#bucket(key, loss)
    if (bucket === undefined) return this.#alone(this.#decision, key, { capacity, cost, loss })
    bucket.loss = loss
    const outcome = member.take(bucket, capacity, cost, now)
    if (outcome !== undefined) {
      shared.ask()
      return this.#decided(this.#decision, key, { capacity, cost, loss }, bucket, outcome)
    }
    const decided = new Promise<Readonly<Decision>>((resolve) => {
      member.wait(bucket, capacity, cost, now, (late) =>
        resolve(this.#decided(undecided(), key, { capacity, cost, loss }, bucket, late))
      )
    })
    shared.ask()
    return decided
  }

  /** Returns what `take` would find in the bucket of all processes. Rejects with `LedgerAway`. */
  async peek(key: string, capacity: number): Promise<BucketPeek> {
    const bucket = this.#bucket(key, 'local')
    if (bucket === undefined) throw new LedgerAway('the ledger of limits has no room')
    const { used, leased, next, reset } = await this.#look(bucket, capacity)
    const own = this.#parts.own.peek(key, MAX_CAPACITY)
    const remaining = Math.max(0, capacity - used - leased)
    return {
      at: own.at,
      before: own.before,
      used,
      folded: 0,
      remaining,
      resetSeconds: used + leased === 0 ? 0 : this.#seconds(reset),
      retryAfterSeconds: remaining > 0 ? 0 : this.#seconds(next)
    }
  }

  /** Clears the bucket of `key` in all processes. Rejects with `LedgerAway`. */
  async forget(key: string): Promise<void> {
    const bucket = this.#bucket(key, 'local')
    if (bucket === undefined) throw new LedgerAway('the ledger of limits has no room')
    // Spent but unreported permits would count again afterwards.
    await this.#look(bucket, MAX_CAPACITY)
    try {
      await this.#shared.clear(bucket)
    } catch (error) {
      throw new LedgerAway('the ledger of limits does not answer', { cause: error })
    }
    this.#parts.own.forget(key)
  }

  async #look(bucket: LeasedBucket, capacity: number): Promise<LedgerGrant> {
    const { member, clock } = this.#shared
    const end = clock.monotonic() + LOOK.within
    let grant: LedgerGrant | undefined
    for (let time = 0; time < LOOK.times; time += 1) {
      if (time > 0) await after(LOOK.again)
      const looked = member.look(bucket, capacity)
      this.#shared.ask()
      grant = (await Promise.race([looked, after(Math.max(0, end - clock.monotonic()))])) ?? undefined
      if (grant === undefined) throw new LedgerAway('the ledger of limits does not answer')
      if (grant.leased === 0) return grant
    }
    return grant as LedgerGrant
  }

  #bucket(key: string, loss: StoreLoss): LeasedBucket | undefined {
    const known = this.#buckets.get(key)
    if (known !== undefined) return known
    const { member } = this.#shared
    if (!this.#shared.hasRoom) return undefined
    const id = this.#shared.idOf(`${this.#parts.rateSeconds}:${this.#parts.identity}\n${key}`)
    const bucket = new LeasedBucket(id, this.#rate, loss, () => this.#buckets.delete(key))
    this.#buckets.set(key, bucket)
    member.add(bucket)
    return bucket
  }

  #decided(decision: Decision, key: string, asked: Asked, bucket: LeasedBucket, outcome: Outcome): Readonly<Decision> {
    if (outcome === 'lost') return this.#alone(decision, key, asked)
    const { capacity, cost } = asked
    const left = Math.max(0, Math.min(capacity - (outcome === 'admitted' ? cost : 0), bucket.held + bucket.free))
    if (outcome === 'admitted') {
      const { at, before } = this.#parts.own.take(key, MAX_CAPACITY, cost)
      decision.at = at
      decision.before = before
      decision.admitted = true
      decision.remaining = left
      decision.resetSeconds = this.#parts.rateSeconds
      decision.retryAfterSeconds = 0
      return decision
    }
    const now = this.#shared.clock.monotonic()
    decision.at = now
    decision.before = -1
    decision.admitted = false
    decision.remaining = Math.min(left, cost - 1)
    decision.resetSeconds = this.#seconds(bucket.resetAt - now)
    decision.retryAfterSeconds = this.#seconds(bucket.nextAt - now)
    return decision
  }

  /** Decides a request with no cost, or with more than the bucket can ever have. */
  #always(key: string, capacity: number, cost: number, now: number): Readonly<Decision> {
    const bucket = this.#buckets.get(key)
    const remaining = bucket === undefined ? capacity : Math.min(capacity, bucket.held + bucket.free)
    const seconds = this.#parts.rateSeconds
    const admitted = cost === 0
    const [resetSeconds, retryAfterSeconds] = [seconds, admitted ? 0 : seconds]
    return Object.assign(this.#decision, { at: now, admitted, remaining, resetSeconds, retryAfterSeconds, before: -1 })
  }

  /** Decides without the ledger. */
  #alone(decision: Decision, key: string, { capacity, cost, loss }: Asked): Readonly<Decision> {
    const shared = this.#shared
    const most = shared.alone(loss, capacity, this.#rate)
    if (most > 0) {
      const own = this.#parts.own.take(key, Math.min(most, MAX_CAPACITY), cost)
      if (own.admitted) {
        shared.admittedAlone += 1
        if (loss === 'local') shared.member.share.used(shared.clock.monotonic())
      } else shared.refusedAlone += 1
      Object.assign(decision, own)
      decision.remaining = Math.min(own.remaining, capacity)
      return decision
    }
    shared.refusedAlone += 1
    decision.at = shared.clock.monotonic()
    decision.before = -1
    decision.admitted = false
    decision.remaining = 0
    decision.resetSeconds = this.#parts.rateSeconds
    decision.retryAfterSeconds = 1
    return decision
  }

  /** Converts a wait to whole seconds: rounded up, at least 1. The ledger counts a moment longer than the window. */
  #seconds(milliseconds: number): number {
    return Math.min(this.#parts.rateSeconds + 1, Math.max(1, Math.ceil(milliseconds / 1_000)))
  }
}

interface Asked {
  readonly capacity: number
  readonly cost: number
  readonly loss: StoreLoss
}

function after(milliseconds: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(() => resolve(undefined), milliseconds))
}
