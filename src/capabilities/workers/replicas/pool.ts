import { setImmediate as turnOfLoop } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { Backoff } from '../../../lib/concurrency.js'
import type { PreparedReplicas, Replicas, ReplicatedChange, UnpreparedReplicas } from '../../../runtime/replicas.js'
import type { Snapshot } from '../../../runtime/snapshot.js'
import { ReplicaThread } from './replica-thread.js'

/** Time limits for a preparation, and for a silent worker before it is terminated (ms). */
const PATIENCE = { prepare: 2_000, silence: 5_000 }
/** Between an end and a new beginning of a thread, when one ends after the other. Milliseconds. */
const RESTART = { first: 100, longest: 5_000 }

interface ReplicaPoolParts {
  /** Starts a worker whose `Replica` handles the messages of this pool. */
  readonly start: () => Worker
  readonly size: number
  /** Snapshot served by the main thread when the pool starts. */
  readonly running: Snapshot
  readonly log: { warn(fields: object, message: string): void }
  /** Time limits (ms). @default 2 s for a preparation, 5 s of silence */
  readonly patience?: { readonly prepare: number; readonly silence: number }
}

/**
 * Workers that serve the main thread's plan. A failed worker is replaced by one that loads the current plan; the replacement
 * takes part once it serves the same plan as the others.
 */
export class ReplicaPool implements Replicas {
  readonly #parts: ReplicaPoolParts
  readonly #patience: { readonly prepare: number; readonly silence: number }
  readonly #threads = new Set<ReplicaThread>()
  readonly #restart = new Backoff(RESTART)
  readonly #restarts = new Set<NodeJS.Timeout>()
  /** Workers about to end whose replacements have started. */
  readonly #leaving = new Set<ReplicaThread>()
  readonly #complete: (() => void)[] = []
  #committed: Snapshot
  #orders = 0
  #stopped = false

  constructor(parts: ReplicaPoolParts) {
    this.#parts = parts
    this.#patience = parts.patience ?? PATIENCE
    this.#committed = parts.running
    for (let i = 0; i < parts.size; i++) this.#start()
  }

  /** Number of workers that serve the same plan as this thread. */
  get serving(): number {
    return this.#members().length
  }

  /** Number of the plan that this thread serves. */
  get planNumber(): number {
    return this.#committed.plan.number
  }

  /** Resolves once every worker serves the same plan as this thread. */
  whole(): Promise<void> {
    if (this.serving >= this.#parts.size) return Promise.resolve()
    return new Promise((resolve) => this.#complete.push(resolve))
  }

  async prepare(replicated: ReplicatedChange): Promise<PreparedReplicas | UnpreparedReplicas> {
    const order = ++this.#orders
    const { change, secrets, tolerant } = replicated
    const participants = this.#members()
    const answers = await Promise.all(
      participants.map(async (thread) => {
        const answer = thread.prepared(order, this.#patience)
        thread.post({ kind: 'prepare', order, change, secrets })
        return await answer
      })
    )
    const failed = answers.filter((answer) => answer !== 'prepared' && answer !== 'ended')
    if (failed.length > 0) this.#parts.log.warn({ reasons: failed }, 'a thread could not prepare a change of the plan')
    const abandon = () => {
      for (const thread of participants) thread.post({ kind: 'abandon', order })
    }
    if (failed.length > 0 && !tolerant) {
      abandon()
      return { ok: false }
    }
    return { ok: true, commit: (snapshot) => this.#commit(snapshot, order, replicated, participants), abandon }
  }

  serves(snapshot: Snapshot): void {
    this.#committed = snapshot
    for (const thread of this.#threads) thread.post({ kind: 'revision', revision: snapshot.revision })
  }

  /** Starts a replacement for a worker that is about to end. Until then the worker follows the plan. */
  leaves(worker: Worker): void {
    const thread = [...this.#threads].find((one) => one.is(worker))
    if (thread === undefined || this.#leaving.has(thread) || this.#stopped) return
    this.#leaving.add(thread)
    this.#replace()
  }

  /** Terminates a hung worker with its connections, and starts its replacement immediately. */
  replaces(worker: Worker): void {
    this.leaves(worker)
    for (const thread of this.#threads) if (thread.is(worker)) void thread.end('it hangs')
  }

  /** Terminates all workers; resolves when they have ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    for (const timer of this.#restarts) clearTimeout(timer)
    await Promise.all([...this.#threads].map((thread) => thread.end()))
  }

  /** Everything up to the wait happens in one go: a thread that begins meanwhile has either the plan before or the one after. */
  async #commit(
    snapshot: Snapshot,
    order: number,
    { change, secrets }: ReplicatedChange,
    participants: readonly ReplicaThread[]
  ): Promise<void> {
    const { revision } = snapshot
    const waited = new Set([...participants, ...this.#members()])
    this.#committed = snapshot
    const prepared = new Set(participants)
    for (const thread of this.#threads) {
      if (prepared.has(thread)) thread.post({ kind: 'commit', order, revision })
      else thread.post({ kind: 'apply', change, secrets, revision })
    }
    const { silence } = this.#patience
    await Promise.all([...waited].map((thread) => thread.reaches(snapshot.plan.number, silence)))
  }

  #members(): ReplicaThread[] {
    const { number } = this.#committed.plan
    return [...this.#threads].filter((thread) => thread.number === number)
  }

  #start(): void {
    const worker = this.#parts.start()
    const thread = new ReplicaThread(worker, {
      changed: () => this.#changed(),
      ended: (why) => this.#ended(thread, why)
    })
    this.#threads.add(thread)
    void thread.begin(this.#committed, () => turnOfLoop())
  }

  #changed(): void {
    if (this.serving < this.#parts.size) return
    this.#restart.reset()
    for (const resolve of this.#complete.splice(0)) resolve()
  }

  #ended(thread: ReplicaThread, why: string): void {
    this.#threads.delete(thread)
    if (this.#stopped) return
    if (this.#leaving.delete(thread)) return
    this.#parts.log.warn({ reason: why }, 'a thread that serves the plan has ended; another one takes its place')
    this.#replace()
  }

  #replace(): void {
    const timer = setTimeout(() => {
      this.#restarts.delete(timer)
      this.#start()
    }, this.#restart.next())
    this.#restarts.add(timer)
  }
}
