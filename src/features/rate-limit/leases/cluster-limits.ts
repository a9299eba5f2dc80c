import { createHmac } from 'node:crypto'
import type { Clock } from '../../../lib/clock.js'
import { atMost } from '../../../lib/concurrency.js'
import type { LimitLedger, StoreLoss } from '../../../lib/limit-ledger.js'
import { serviceKey } from '../../../policy/services.js'
import type { SlidingWindow } from '../limiter/sliding-window.js'
import type { LeasedBucket } from './bucket.js'
import { ClusterWindow } from './cluster-window.js'
import { TERMS } from './local-share.js'
import { Member, type OutgoingCall } from './member.js'

/** What limits over the cluster have done in this process. */
export interface ClusterStatistics {
  /** Calls to the ledger that were answered, and that were not. */
  readonly calls: number
  readonly failures: number
  /** Permits that were granted since the start, and that may be spent now. */
  readonly granted: number
  readonly held: number
  /** Requests that were decided without the ledger, because it did not answer: how many were refused, and admitted. */
  readonly refusedAlone: number
  readonly admittedAlone: number
}

/** What the action needs of it. */
export interface ClusterLimiter {
  /** `own`: the window of the same limit in the table of this process, where what it admits is counted, too. */
  window(identity: string, rateSeconds: number, own: SlidingWindowLike): ClusterWindow
  statistics(): ClusterStatistics
}

/** See `SlidingWindow`. */
export type SlidingWindowLike = Pick<SlidingWindow, 'take' | 'peek' | 'forget'>

/** Limits over the cluster; undefined: the process is alone, or only checks documents, and counts by itself. */
export const clusterLimits = serviceKey<ClusterLimiter | undefined>('cluster_limits', () => undefined)

/** Which scope limits have that do not say. */
export const limitScopes = serviceKey<{ readonly otherwise: 'server' | 'cluster' }>('limit_scopes', () => ({
  otherwise: 'server'
}))

interface ClusterLimitsParts {
  readonly ledger: LimitLedger
  readonly clock: Clock
  /** What names of buckets are made with: the same in all processes on the store. */
  readonly secret: Uint8Array
  /** See `LedgerCall.member`. */
  readonly member: string
  /** Does it decide requests, and not only look? Absent: it does. */
  readonly admits?: boolean
  /** Is it certain that the process of this member has ended? Absent: it never is. */
  readonly hasEnded?: (member: string) => boolean
}

/** Buckets of which something is known at a time: about 400 bytes each. */
const MOST_BUCKETS = 100_000
/** How often what is due is looked for, also while a request waits. How long a process that ends waits to give its permits back. Milliseconds. */
const TICK = 100
const TICK_WAITING = 10
const SWEEP_EVERY = 1_000
const END_WITHIN = 1_000

/** The limits over the cluster of one process: one member of the ledger, with its calls and its timers. */
export class ClusterLimits implements ClusterLimiter {
  readonly clock: Clock
  readonly member: Member
  refusedAlone = 0
  admittedAlone = 0
  readonly #ledger: LimitLedger
  readonly #secret: Uint8Array
  readonly #hasEnded: (member: string) => boolean
  #elsewhere: () => Iterable<ClusterStatistics> = () => []
  #ticking: NodeJS.Timeout | undefined
  #hurrying: NodeJS.Timeout | undefined
  #sweeping: NodeJS.Timeout | undefined
  #unlisten: (() => void) | undefined
  #calling: Promise<void> | undefined
  #soon = false
  #closed = false

  constructor({ ledger, clock, secret, member, admits = true, hasEnded = () => false }: ClusterLimitsParts) {
    this.#ledger = ledger
    this.#hasEnded = hasEnded
    this.#secret = secret
    this.clock = clock
    this.member = new Member(member, admits)
  }

  window(identity: string, rateSeconds: number, own: SlidingWindowLike): ClusterWindow {
    this.#begin()
    return new ClusterWindow(this, { identity, rateSeconds, own })
  }

  statistics(): ClusterStatistics {
    const { calls, failures, granted } = this.member
    const { refusedAlone, admittedAlone } = this
    const held = this.member.held(this.clock.monotonic())
    return [...this.#elsewhere()].reduce(sumOf, { calls, failures, granted, held, refusedAlone, admittedAlone })
  }

  /** `elsewhere` says what other threads of the process have done. */
  countElsewhere(elsewhere: () => Iterable<ClusterStatistics>): void {
    this.#elsewhere = elsewhere
  }

  /** What the ledger calls a bucket; it does not tell the key. */
  idOf(bucket: string): string {
    return createHmac('sha256', this.#secret).update(bucket).digest('base64url').slice(0, 22)
  }

  /** Is there room for one more? */
  get hasRoom(): boolean {
    return this.member.size < MOST_BUCKETS && !this.#closed
  }

  /** Takes what is needed to the ledger, together with what else comes in this turn of the loop. */
  ask(): void {
    if (this.member.waits) this.#hurrying ??= setInterval(() => this.#hurry(), TICK_WAITING)
    if (this.#soon || !this.member.asks(this.clock.monotonic())) return
    this.#soon = true
    setImmediate(() => {
      this.#soon = false
      this.#pump()
    })
  }

  /** Forgets what was used of the bucket, in every process. Rejects when the ledger does not answer. */
  async clear(bucket: LeasedBucket): Promise<void> {
    await this.#ledger.clear(bucket.id)
    this.member.recalled(bucket.id, true, this.clock.monotonic())
    this.ask()
  }

  /** Gives all permits back and leaves; then closes the ledger. Takes a second at most for each. */
  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#ticking)
    clearInterval(this.#hurrying)
    clearInterval(this.#sweeping)
    this.#unlisten?.()
    if (this.#ticking !== undefined)
      await atMost(
        END_WITHIN,
        this.#leave().catch(() => undefined)
      )
    await this.#ledger.close()
  }

  async #leave(): Promise<void> {
    await this.#calling
    this.member.yields()
    for (;;) {
      const now = this.clock.monotonic()
      if (this.member.away(now)) return
      const call = this.member.outgoing(now)
      if (call === undefined || call.entries.length === 0) break
      await this.#exchange(call)
    }
    await this.#ledger.leave(this.member.id)
  }

  /** With the first limit the process takes part. */
  #begin(): void {
    if (this.#ticking !== undefined || this.#closed) return
    this.#ticking = setInterval(() => this.#tick(), TICK)
    this.#ticking.unref()
    // What fails here is tried again, and the next call shows it.
    this.#sweeping = setInterval(() => void this.#ledger.sweep().catch(() => undefined), SWEEP_EVERY)
    this.#sweeping.unref()
    this.#unlisten = this.#ledger.listen((id, cleared) => {
      this.member.recalled(id, cleared, this.clock.monotonic())
      this.ask()
    })
    this.#pump()
  }

  #hurry(): void {
    this.#tick()
    if (this.member.waits) return
    clearInterval(this.#hurrying)
    this.#hurrying = undefined
  }

  #tick(): void {
    this.member.tick(this.clock.monotonic())
    this.#pump()
  }

  #pump(): void {
    if (this.#closed) return
    const call = this.member.outgoing(this.clock.monotonic())
    if (call === undefined) return
    this.#calling = this.#exchange(call)
    void this.#calling.then(() => this.#pump())
  }

  async #exchange(call: OutgoingCall): Promise<void> {
    const { sent: _, buckets: __, ...said } = call
    try {
      const answer = await atMost(TERMS.answer, this.#ledger.exchange(said))
      if (answer === undefined) this.member.failed(call, this.clock.monotonic())
      else {
        this.member.answered(call, answer, this.clock.monotonic())
        for (const silent of answer.silent) if (this.#hasEnded(silent)) await this.#ledger.leave(silent)
      }
    } catch {
      this.member.failed(call, this.clock.monotonic())
    }
  }

  /** What a limit does that got no answer; `local` is what its share of the capacity comes to now. */
  alone(loss: StoreLoss, capacity: number, rate: number): number {
    if (loss === 'open') return Number.POSITIVE_INFINITY
    return loss === 'closed' ? 0 : this.member.share.of(capacity, rate, this.clock.monotonic())
  }
}

function sumOf(one: ClusterStatistics, other: ClusterStatistics): ClusterStatistics {
  return {
    calls: one.calls + other.calls,
    failures: one.failures + other.failures,
    granted: one.granted + other.granted,
    held: one.held + other.held,
    refusedAlone: one.refusedAlone + other.refusedAlone,
    admittedAlone: one.admittedAlone + other.admittedAlone
  }
}
