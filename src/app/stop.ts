import type { Logger } from 'pino'
import type { Readiness } from '../api/health-routes.js'
import { atMost } from '../lib/concurrency.js'

/** Result of a drain: numbers of connections that ended regularly, and that were cut. */
export interface Drained {
  readonly ended: number
  readonly cut: number
}

/**
 * Maximum times of a stop beside the drain, of one of its steps, of a request's arrival on a new connection, and of the step
 * that may write all counters of limits (ms).
 */
const STOP = { beside: 3_500, step: 1_500, arrivals: 1_000, counters: 10_000 }
const NOTHING_DRAINED: Drained = { ended: 0, cut: 0 }

type Close = () => Promise<unknown>

/** Resources that a stop closes. A stage adds its resources immediately, so that a failed start closes them, too. */
export interface Opened {
  readonly timers: readonly NodeJS.Timeout[]
  readonly health: { stop(): void }
  readonly loop: { stop(): void }
  readonly accessLog: { close(): Promise<void> }
  readonly openTelemetry: { close(): Promise<void> }
  readonly shadows: { close(): void }
  readonly counters: { checkpoint(): Promise<void>; close(): Promise<void> }
  readonly traffic: { readonly ports: { drain(within: number): Promise<Drained> }; stop(): void }
  readonly agents: { shut(): Promise<void>; move(within: number): Promise<void>; close(): Promise<void> }
  readonly clientTransport: { close(): void }
  readonly recorder: { stop: Close }
  readonly history: { stop(): void }
  readonly api: { close: Close }
  readonly certificates: { stop: Close }
  readonly storeCopy: { stop: Close }
  readonly events: { handOver(): Promise<void>; stop(): Promise<void> }
  readonly logins: { pause(): Promise<void> }
  readonly store: { close: Close }
  readonly clusterLimits: { close: Close }
  readonly policyOutbound: readonly { close(): void }[]
  readonly eventsOutbound: { close(): void }
  readonly names: { close(): void }
}

/** Phase of an app between start and stop, and its open resources. */
export class Lifecycle {
  readonly #log: Logger
  readonly #timeouts: { readonly drain: number }
  readonly #stopping = new AbortController()
  #opened: Partial<Opened> = {}
  #ready = false
  #stopped: Promise<Drained> | undefined
  #handedOver: Promise<void> | undefined
  #succeeded = false

  /** `drain`: milliseconds that connections have to end. */
  constructor(log: Logger, timeouts: { readonly drain: number }) {
    this.#log = log
    this.#timeouts = timeouts
  }

  /** Aborted when the stop begins. */
  get signal(): AbortSignal {
    return this.#stopping.signal
  }

  get phase(): Readiness {
    if (this.signal.aborted) return 'draining'
    return this.#ready ? 'ready' : 'starting'
  }

  /** Adds resources to the stop. If it has begun, they are closed immediately, and its reason is thrown. */
  opens(part: Partial<Opened>): void {
    if (this.signal.aborted) {
      void this.#end(part, () => this.#handOver(part))
      this.signal.throwIfAborted()
    }
    this.#opened = { ...this.#opened, ...part }
  }

  ready(): void {
    this.#ready = true
  }

  /** Another process serves in the place of this one: the stop lets agents go there. */
  succeeds(): void {
    this.#succeeded = true
  }

  /** Releases the resources of which only one process may have: its API, its agents' listener, its store. Traffic continues. */
  release(): Promise<void> {
    this.#handedOver ??= this.#handOver(this.#opened)
    return this.#handedOver
  }

  /**
   * Closes idle connections after a short time for requests in transit, busy ones when done, all after the drain timeout.
   * Resources of which only one process may have (its ports, its store) are released first, so that a successor can start
   * while connections drain. Steps are limited in time: the stop takes the drain time and a few seconds at most.
   */
  stop(): Promise<Drained> {
    this.#stopping.abort()
    this.#stopped ??= this.#end(this.#opened, () => this.release())
    return this.#stopped
  }

  async #end(opened: Partial<Opened>, handOver: () => Promise<void>): Promise<Drained> {
    for (const timer of opened.timers ?? []) clearInterval(timer)
    opened.health?.stop()
    opened.loop?.stop()
    opened.shadows?.close()
    const { drain } = this.#timeouts
    const draining = opened.traffic?.ports.drain(drain) ?? Promise.resolve(NOTHING_DRAINED)
    // Connections to agents that wait for another request would keep them here.
    if (this.#succeeded) opened.clientTransport?.close()
    const moving = this.#succeeded ? this.#move(opened, draining) : undefined
    const rest = Promise.all([handOver(), draining, moving]).then(async () => {
      await this.#step('agents', opened.agents?.close())
      opened.clientTransport?.close()
      await this.#step('events', opened.events?.stop())
    })
    await atMost(drain + STOP.beside, rest)
    opened.traffic?.stop()
    await this.#step('limits of the cluster', opened.clusterLimits?.close())
    // No more requests are admitted.
    await this.#step('the counters of limits', opened.counters?.close(), STOP.counters)
    await this.#step('traces', opened.openTelemetry?.close())
    for (const outbound of opened.policyOutbound ?? []) outbound.close()
    opened.eventsOutbound?.close()
    opened.names?.close()
    await this.#step('access log', opened.accessLog?.close())
    return (await atMost(0, draining)) ?? NOTHING_DRAINED
  }

  /** Lets agents go, once requests are here that were on their way to them when the last connection was accepted. */
  async #move({ agents }: Partial<Opened>, draining: Promise<unknown>): Promise<void> {
    await atMost(STOP.arrivals, draining)
    await agents?.move(Math.max(0, this.#timeouts.drain - STOP.arrivals))
  }

  /** Releases the resources that a successor needs: the addresses of the API and of agents, and the store. */
  async #handOver({
    agents,
    counters,
    recorder,
    history,
    api,
    certificates,
    storeCopy,
    events,
    logins,
    store
  }: Partial<Opened>): Promise<void> {
    // Streams of the API last until then.
    history?.stop()
    if (recorder !== undefined) await this.#step('the recorder', recorder.stop())
    await Promise.all([
      // A process that starts meanwhile reads them.
      this.#step('the counters of limits', counters?.checkpoint()),
      this.#step('agents', agents?.shut()),
      this.#step('api', api?.close()),
      this.#step('certificates', certificates?.stop()),
      this.#step('the copy of the configuration', storeCopy?.stop()),
      this.#step('events', events?.handOver()),
      // Providers may have taken the tokens of before back.
      this.#step('renewed sessions', logins?.pause())
    ])
    await this.#step('store', store?.close())
  }

  /** Waits for a step of the stop, but not for ever. */
  async #step(step: string, work: Promise<unknown> | undefined, within = STOP.step): Promise<void> {
    if (work === undefined) return
    let late = true
    const done = work.catch((error: unknown) => this.#log.warn({ err: error, step }, 'a step of the stop failed'))
    await atMost(
      within,
      done.then(() => {
        late = false
      })
    )
    if (late) this.#log.warn({ step }, 'a step of the stop takes too long; going on without it')
  }
}

/** Closes a resource that a stage could not use, with a time limit. */
export async function closeUnused(unused: { close(): Promise<unknown> }): Promise<void> {
  await atMost(STOP.step, unused.close())
}
