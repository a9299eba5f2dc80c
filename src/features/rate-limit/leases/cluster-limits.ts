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

/** Statistics of cluster limits in this process. */
export interface ClusterStatistics {
  /** Ledger calls with a response; `failed`: without one. */
  readonly calls: number
  readonly failures: number
  /** Permits granted since the start; `held`: now available. */
  readonly granted: number
  readonly held: number
  /** Requests refused without the ledger, because it did not respond; `admittedAlone`: admitted. */
  readonly refusedAlone: number
  readonly admittedAlone: number
}

/** Cluster limits for the action. */
export interface ClusterLimiter {
  /** Returns the window of a limit. `own`: its window in the table of this process, which also counts admissions. */
  window(identity: string, rateSeconds: number, own: SlidingWindowLike): ClusterWindow
  statistics(): ClusterStatistics
}

/** See `SlidingWindow`. */
export type SlidingWindowLike = Pick<SlidingWindow, 'take' | 'peek' | 'forget'>

/** Cluster limits; undefined: the process is alone, or only checks documents, and counts by itself. */
export const clusterLimits = serviceKey<ClusterLimiter | undefined>('cluster_limits', () => undefined)

/** Rules for limits that the options set. */
export interface LimitRules {
  /** Scope of a limit that does not say. */
  readonly scope: 'server' | 'cluster'
  /** True if windows below a minute are accepted; undefined: the process that will run the policy decides. */
  readonly short_windows: boolean | undefined
}

/** Options about limits of the process that runs the policy. */
export const limitRules = serviceKey<LimitRules>('limit_rules', () => ({ scope: 'server', short_windows: undefined }))

interface ClusterLimitsParts {
  readonly ledger: LimitLedger
  readonly clock: Clock
  /** Secret for bucket names, shared by all processes on the store. */
  readonly secret: Uint8Array
  /** See `LedgerCall.member`. */
  readonly member: string
  /** Decides requests. @default true */
  readonly admits?: boolean
  /** Returns true if the process of this member has certainly ended. @default never */
  readonly hasEnded?: (member: string) => boolean
}

/** Maximum number of buckets with state: about 400 bytes each. */
const MOST_BUCKETS = 100_000
/** Interval of checks (ms). */
const TICK = 100
/** Interval of checks while a request waits (ms). */
const TICK_WAITING = 10
/** Interval of ledger sweeps (ms). */
const SWEEP_EVERY = 1_000
/** Maximum time of a stop for returning permits (ms). */
const END_WITHIN = 1_000

/** Cluster limits of one process: a member of the ledger with its calls and timers. */
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

  /** `elsewhere` returns the statistics of other threads. */
  countElsewhere(elsewhere: () => Iterable<ClusterStatistics>): void {
    this.#elsewhere = elsewhere
  }

  /** Returns the ledger's id of a bucket, which does not reveal the key. */
  idOf(bucket: string): string {
    return createHmac('sha256', this.#secret).update(bucket).digest('base64url').slice(0, 22)
  }

  /** True if another bucket can be added. */
  get hasRoom(): boolean {
    return this.member.size < MOST_BUCKETS && !this.#closed
  }

  /** Calls the ledger, together with other requests of this turn of the event loop. */
  ask(): void {
    if (this.member.waits) this.#hurrying ??= setInterval(() => this.#hurry(), TICK_WAITING)
    if (this.#soon || !this.member.asks(this.clock.monotonic())) return
    this.#soon = true
    setImmediate(() => {
      this.#soon = false
      this.#pump()
    })
  }

  /** Clears the use of the bucket in every process. Rejects if the ledger does not respond. */
  async clear(bucket: LeasedBucket): Promise<void> {
    await this.#ledger.clear(bucket.id)
    this.member.recalled(bucket.id, true, this.clock.monotonic())
    this.ask()
  }

  /** Returns all permits, leaves, and closes the ledger; at most a second each. */
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

  /** Joins the ledger with the first limit. */
  #begin(): void {
    if (this.#ticking !== undefined || this.#closed) return
    this.#ticking = setInterval(() => this.#tick(), TICK)
    this.#ticking.unref()
    // A failure is retried, and visible in the next call.
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

  /** Returns the capacity of a limit without a ledger response; `local`: that of its share. */
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
