import { randomInt } from 'node:crypto'
import type { Worker } from 'node:worker_threads'
import type { ServerHealth } from '../../app/data-plane.js'
import type { WorkerState } from '../../control/calls.js'
import type { ClusterStatistics } from '../../features/rate-limit/leases/cluster-limits.js'
import { THREADS } from '../../features/rate-limit/limiter/layout.js'
import { atMost } from '../../lib/concurrency.js'
import { threadBeside } from '../../lib/files.js'
import { clearHoldings, type HoldingsMemory, holdingsMemory } from '../../lib/shared-holdings.js'
import type { Options } from '../../options/options.js'
import type { Found } from '../../proxy/health.js'
import type { Drained } from '../../proxy/ports.js'
import type { OutageState } from '../../proxy/server.js'
import type { Snapshot } from '../../runtime/snapshot.js'
import { observeWorkers, type UpstreamState, type WorkerCounts } from '../../telemetry/observed-metrics.js'
import { CountedElsewhere } from '../../telemetry/relayed-traffic.js'
import { CarryingThread } from './carrying-thread.js'
import { ReplicaPool } from './replicas/pool.js'
import { TunnelDirectory } from './sockets/tunnel-outlet.js'
import { ThreadAnswers } from './thread-answers.js'
import { workerHeap, YOUNG_GENERATION } from './thread-heap.js'
import { LedgerForThreads } from './thread-ledger.js'
import type { ThreadsParts } from './thread-parts.js'
import type { FromTrafficThread, ToTrafficThread, TrafficThreadData } from './thread-protocol.js'
import { beatMemory, ThreadWatchdog } from './thread-watchdog.js'

/** Interval of rotating ticket keys and forgetting webhook deliveries (ms). */
const UPKEEP_EVERY = 60_000
/** Interval of reading the workers' counters beside scrapes (ms). */
const READ_EVERY = 250
/** Maximum time that a scrape waits for the workers' state (ms). */
const STATE_WITHIN = 50
/** Maximum wait for the counters of limits in the workers (ms). */
const LIMITS_WITHIN = 250
/** Maximum time that a logout waits for a worker (ms). */
const LOGOUT_WITHIN = 1_000
/** Maximum time of a stop beside the drain (ms). */
const DRAIN_BESIDE = 3_000

/** For each thread that serves: those that may be about to end after a failure, and all that may be there. */
const FAILING_EACH = 2
/** Slots for each serving worker, including ended and starting ones. */
const SLOTS_EACH = 5
/** Threads that may serve at a time. */
export const MOST_SERVING = Math.floor((THREADS - 1) / SLOTS_EACH)

/** The threads that carry the traffic of this process, as the one of its control plane sees them. */
export class TrafficThreads implements ServerHealth {
  readonly #parts: ThreadsParts
  readonly #threads = new Map<Worker, CarryingThread>()
  readonly #counted: CountedElsewhere
  readonly #timers: readonly NodeJS.Timeout[]
  readonly pool: ReplicaPool
  #options: Options
  #ticketKeys: Buffer
  #subscribed: ToTrafficThread | undefined
  #challenges: ToTrafficThread | undefined
  readonly #answers: ThreadAnswers
  readonly #tunnels: TunnelDirectory
  /** Results of health checks. */
  readonly #checks = new Map<string, Found>()
  #counts = 0
  /** Threads that have ended. */
  #ended = 0
  readonly #endedServers = new Map<string, UpstreamState>()
  readonly #holdings: HoldingsMemory
  readonly #ledger: LedgerForThreads | undefined
  readonly #watchdog: ThreadWatchdog
  /** MiB. */
  readonly #heap: number
  /** Have all workers served at the same time yet? */
  #wasWhole = false
  /** Numbers that no thread has. */
  readonly #slots: number[]

  /** `running`: snapshot served when the workers start. */
  constructor(parts: ThreadsParts, running: Snapshot) {
    const { challenges, events, size } = parts
    const { metrics, log, clock } = parts.foundation
    this.#parts = parts
    this.#answers = new ThreadAnswers({ ...parts, clock })
    this.#options = parts.data.options
    this.#watchdog = new ThreadWatchdog(this.#options.worker.silence)
    this.#heap = workerHeap(this.#options.worker.heap, size)
    this.#counted = new CountedElsewhere(metrics)
    this.#ticketKeys = parts.dataPlane.ticketKeys.current()
    // Old and new worker overlap.
    this.#slots = Array.from({ length: SLOTS_EACH * size }, (_, slot) => slot)
    this.#holdings = holdingsMemory(this.#slots.length, randomInt(2 ** 32))
    this.#timers = [
      setInterval(() => this.#upkeep(), UPKEEP_EVERY).unref(),
      setInterval(() => this.#counted.read(), READ_EVERY).unref()
    ]
    challenges?.follow((answers) => {
      this.#challenges = { kind: 'challenges', answers }
      this.#send(this.#challenges)
    })
    parts.rules?.follow((rules) => this.#send({ kind: 'waf-rules', rules }))
    events?.subscribe((account, subscriptions) => {
      this.#subscribed = { kind: 'subscriptions', account, subscriptions }
      this.#send(this.#subscribed)
    })
    const { cluster } = parts
    this.#ledger =
      cluster === undefined ? undefined : new LedgerForThreads(cluster.ledger, (message) => this.#send(message))
    this.#tunnels = new TunnelDirectory(parts.tunnels, (message) => this.#send(message))
    parts.recorder.joins({ send: (message) => this.#send(message), settle: () => this.count() })
    parts.records.follow((memory) => this.#send({ kind: 'records', memory }))
    observeWorkers(
      metrics.registry,
      () => this.#workerCounts(),
      () => this.#ended
    )
    this.pool = new ReplicaPool({ start: () => this.#start(), size, running, log })
    void this.pool.whole().then(() => {
      this.#wasWhole = true
    })
  }

  /** Threads that the process should have and that take no connections; 0 before all have begun. */
  get missing(): number {
    const serving = [...this.#threads.values()].filter(({ serves, failing }) => serves && !failing).length
    return this.#wasWhole ? Math.max(0, this.#parts.size - serving) : 0
  }

  /** These options count from now on, as far as a reload applies them. */
  take(options: Options): void {
    this.#options = options
    this.#send({ kind: 'options', options })
  }

  outage(place: string, state: OutageState): void {
    this.#send({ kind: 'outage', place, state })
  }

  decided(check: string, found: Found | undefined): void {
    if (found === undefined) this.#checks.delete(check)
    else this.#checks.set(check, found)
    this.#send({ kind: 'check', check, found })
  }

  /**
   * Resolves when the workers' counters are read, with those of limits if requested. Busy workers are not awaited for long:
   * their counters are read anyway, and their last reported state is used.
   */
  async count({ limits } = { limits: false }): Promise<void> {
    const serial = ++this.#counts
    const within = limits ? LIMITS_WITHIN : STATE_WITHIN
    await Promise.all([...this.#threads.values()].map((thread) => atMost(within, thread.counts(serial, limits))))
    this.#counted.read()
  }

  /** Returns the state of all workers. */
  async workers(): Promise<WorkerState[]> {
    await this.count()
    const { loads } = this.#parts.dealer
    const shown = [...this.#threads.values()].map((thread) => thread.shown(loads.get(thread) ?? 0))
    return shown.sort((a, b) => a.worker - b.worker)
  }

  /** Yields the statistics of cluster limits of all workers. */
  *cluster(): Iterable<ClusterStatistics> {
    for (const { state } of this.#threads.values()) if (state?.cluster !== undefined) yield state.cluster
  }

  /** Yields the requests of all workers to servers, including ended workers. A server may occur several times. */
  *upstreams(): Iterable<UpstreamState> {
    yield* this.#endedServers.values()
    for (const { state } of this.#threads.values()) yield* state?.servers ?? []
  }

  /** Drains all connections within this time (ms). Returns the result; undefined if a worker did not respond. */
  async drain(deadline: number): Promise<Drained | undefined> {
    const answers = [...this.#threads.values()].map((thread) => thread.drains(deadline))
    const drained = await atMost(deadline + DRAIN_BESIDE, Promise.all(answers))
    return drained?.reduce((sum, { ended, cut }) => ({ ended: sum.ended + ended, cut: sum.cut + cut }))
  }

  /** Terminates all workers. */
  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    this.#watchdog.stop()
    await this.pool.stop()
  }

  *#workerCounts(): Generator<WorkerCounts> {
    const loads = this.#parts.dealer.loads
    for (const thread of this.#threads.values()) {
      const { number, requests, state } = thread
      yield { worker: number, connections: loads.get(thread) ?? 0, requests, ...state }
    }
  }

  /** Keeps the counters of an ended worker. */
  #gone({ state }: CarryingThread): void {
    this.#ended++
    for (const server of state?.servers ?? []) {
      const key = JSON.stringify([server.backend, server.server])
      const before = this.#endedServers.get(key)
      const tries = server.tries + (before?.tries ?? 0)
      const failures = server.failures + (before?.failures ?? 0)
      this.#endedServers.set(key, { ...server, active: 0, tries, failures })
    }
  }

  #start(): Worker {
    const { data, dealer, records } = this.#parts
    const { limiter, clock, limitsElsewhere, live } = this.#parts.foundation
    const slot = Math.min(...this.#slots)
    if (!Number.isFinite(slot)) throw new RangeError('there are more threads than were provided for')
    this.#slots.splice(this.#slots.indexOf(slot), 1)
    const beat = beatMemory()
    const shared = {
      ticketKeys: this.#ticketKeys,
      holdings: this.#holdings,
      slot,
      threads: this.#parts.size,
      limiter: limiter.share(slot + 1),
      beat
    }
    const cluster = this.#parts.cluster?.newMember()
    const rules = this.#parts.rules?.built
    const about: TrafficThreadData = { ...data, ...shared, options: this.#options, cluster, rules }
    const worker = threadBeside(import.meta.url, 'worker', about, {
      maxOldGenerationSizeMb: this.#heap,
      maxYoungGenerationSizeMb: YOUNG_GENERATION
    })
    const thread = new CarryingThread(worker, { number: slot + 1, startedAt: clock.wall(), directory: this.#tunnels })
    this.#threads.set(worker, thread)
    worker.on('message', (message: FromTrafficThread) => this.#receive(worker, thread, message))
    worker.on('exit', () => {
      this.#threads.delete(worker)
      clearHoldings(this.#holdings, slot)
      live.limits.descriptors.clear(slot + 1)
      limiter.repair(slot + 1)
      records.ended(slot + 1)
      limitsElsewhere.ends(thread)
      if (cluster !== undefined) this.#ledger?.ended(cluster.member)
      this.#gone(thread)
      this.#slots.push(slot)
      thread.ended()
      dealer.ended(thread)
      this.#counted.ended(thread)
    })
    thread.send({ kind: 'records', memory: this.#parts.records.all() })
    thread.send(this.#tunnels.all())
    const standing = [this.#subscribed, this.#challenges, ...this.#parts.recorder.standing()]
    for (const message of standing) if (message !== undefined) thread.send(message)
    for (const [check, found] of this.#checks) thread.send({ kind: 'check', check, found })
    for (const [place, state] of this.#parts.dataPlane.upstreams.servers.outages())
      thread.send({ kind: 'outage', place, state })
    const stop = this.#parts.login.ended.onNews((news) => atMost(LOGOUT_WITHIN, thread.endLogins(++this.#counts, news)))
    worker.once('exit', stop)
    const unwatch = this.#watchdog.watch(beat, {
      suspected: () => dealer.rests(thread),
      recovered: () => this.#deals(thread),
      hung: () => this.#replaceHung(worker, thread)
    })
    worker.once('exit', unwatch)
    dealer.begins(thread)
    return worker
  }

  #deals(thread: CarryingThread): void {
    if (thread.serves && !thread.failing) this.#parts.dealer.serves(thread)
  }

  #replaceHung(worker: Worker, thread: CarryingThread): void {
    const { dealer, data } = this.#parts
    const connections = dealer.loads.get(thread) ?? 0
    const about = { worker: thread.number, silence: data.options.worker.silence, connections }
    this.#parts.foundation.log.error(
      about,
      'a thread that carries traffic hangs: it is ended with its connections, and another one takes its place'
    )
    thread.failing = true
    dealer.rests(thread)
    this.pool.replaces(worker)
  }

  #receive(worker: Worker, thread: CarryingThread, message: FromTrafficThread): void {
    const { dealer, output, events, spans, recorder } = this.#parts
    const { lookups, accessLog, log, limitsElsewhere, metrics } = this.#parts.foundation
    switch (message.kind) {
      case 'serving':
        // A worker that starts gets no connection before it serves every acknowledged write.
        if (!thread.serves && message.number < this.pool.planNumber) return
        thread.serves = true
        this.#deals(thread)
        return
      case 'places':
      case 'place-of':
      case 'lasts':
      case 'terminates':
        dealer.receive(thread, message)
        return
      case 'series':
        this.#counted.begins(thread, message.series)
        return
      case 'counted':
        for (const [record, times] of message.rates) metrics.rates.count(record, times)
        if (message.answers !== undefined) thread.counted(message.answers)
        return
      case 'logins-ended':
        thread.answered(message.serial)
        return
      case 'limits':
        limitsElsewhere.take(thread, message.limits)
        return
      case 'lines':
        if (message.text !== '') output.lines(message.text)
        if (message.dropped > 0) output.lost(message.dropped)
        thread.send({ kind: 'taken', what: 'lines', bytes: message.bytes })
        return
      case 'access':
        accessLog.take(message.lines)
        if (message.dropped > 0) output.lost(message.dropped)
        thread.send({ kind: 'taken', what: 'access', bytes: message.bytes })
        return
      case 'events':
        for (const [destination, event] of message.events) events?.written(destination, event)
        if (message.dropped > 0)
          log.warn({ dropped: message.dropped }, 'events of traffic were dropped: a thread had no room for them')
        thread.send({ kind: 'taken', what: 'events', bytes: message.bytes })
        return
      case 'traces':
        for (const traced of message.traced) spans?.take(traced)
        if (message.dropped > 0) spans?.lost(message.dropped)
        thread.send({ kind: 'taken', what: 'traces', bytes: message.bytes })
        return
      case 'exchanges':
      case 'left-out':
        recorder.receive(message)
        if (message.kind === 'exchanges') thread.send({ kind: 'taken', what: 'exchanges', bytes: message.bytes })
        return
      case 'open-tunnel':
      case 'pipe-bytes':
      case 'pipe-read':
      case 'pipe-end':
      case 'pipe-broken':
        thread.tunnels.receive(message)
        return
      case 'ask':
        void this.#answers.answer(message, (answer) => thread.send(answer))
        return
      case 'ledger':
        void this.#ledger?.answer(message, (answer) => thread.send(answer))
        return
      case 'server':
        this.#parts.dataPlane.upstreams.servers.reported(message.place, message.how)
        return
      case 'release':
        this.#answers.release(message)
        return
      case 'looked':
        for (const lookup of message.lookups) lookups(lookup)
        return
      case 'failing':
        thread.failing = true
        dealer.rests(thread)
        this.#limitFailing()
        this.pool.leaves(worker)
        return
      case 'drained':
        thread.drained(message)
    }
  }

  /** Terminates the oldest of many failing workers with their connections. */
  #limitFailing(): void {
    const failing = [...this.#threads].filter(([, thread]) => thread.failing)
    for (const [worker] of failing.slice(0, -FAILING_EACH * this.#parts.size)) void worker.terminate()
  }

  #send(message: ToTrafficThread): void {
    for (const thread of this.#threads.values()) thread.send(message)
  }

  #upkeep(): void {
    this.#answers.sweep()
    const keys = this.#parts.dataPlane.ticketKeys.current()
    if (keys === this.#ticketKeys) return
    this.#ticketKeys = keys
    this.#send({ kind: 'ticket-keys', keys })
  }
}
