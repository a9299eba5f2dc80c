import type { Logger } from 'pino'
import type { Readiness } from '../api/health-routes.js'
import { atMost } from '../lib/concurrency.js'

/** Result of a drain: numbers of connections that ended regularly, and that were cut. */
export interface Drained {
  readonly ended: number
  readonly cut: number
}

/**
 * Time limits of a stop (ms): `beside` the drain, of each `step`, for `arrivals` of requests on new connections, and for the step that saves the
 * `counters` of limits.
 */
const STOP = { beside: 3_500, step: 1_500, arrivals: 1_000, counters: 10_000 }
const NOTHING_DRAINED: Drained = { ended: 0, cut: 0 }

/**
 * Moments of the release of what only one process may have, in their order, with what ends at each. A process that takes the place of this one starts
 * after the last of them.
 */
const RELEASE = [
  /** Streams of the API; they last until then. */
  'streams',
  /** The recorder of exchanges. */
  'records',
  /** Listeners of the API and of agents, and all that writes into the store or the data folder; side by side. */
  'shared',
  /** The store. */
  'store'
] as const

/** Moments after the release and the drain, in their order. */
const DRAINED = ['tunnels', 'upstreams', 'events'] as const

/** Moments after the remaining connections are cut, in their order. */
const LAST = ['traffic', 'admissions', 'counters', 'traces', 'outbound', 'names', 'lines'] as const

/**
 * Moments of a stop. `begin`: at once, without waiting. `leave` and `move` come only when another process has taken over: at once, and when the last
 * requests have arrived.
 */
type StopMoment =
  | 'begin'
  | 'leave'
  | 'move'
  | (typeof RELEASE)[number]
  | (typeof DRAINED)[number]
  | (typeof LAST)[number]

/** Steps of a stop by moment. A returned promise is waited for. `within`: time for connections to end (ms). */
export type StopSteps = { readonly [Moment in StopMoment]?: (within: number) => unknown } & {
  /** Ends idle connections, and busy ones when done or after this time (ms). */
  readonly drain?: (within: number) => Promise<Drained>
}

/** Steps by the name of the part that they end, for the log. */
type Parts = ReadonlyMap<string, StopSteps>

/** Phase of an app between start and stop, and its open resources. */
export class Lifecycle {
  readonly #log: Logger
  readonly #timeouts: { readonly drain: number }
  readonly #stopping = new AbortController()
  readonly #parts = new Map<string, StopSteps>()
  #ready = false
  #stopped: Promise<Drained> | undefined
  #handedOver: Promise<void> | undefined
  #succeeded = false

  /** `drain`: time for connections to end (ms). */
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

  /**
   * Adds the steps that end something; they replace those of the same name. If the stop has begun, they run immediately, and its reason is thrown. A
   * stage adds its steps immediately, so that a failed start runs them, too.
   */
  opens(name: string, steps: StopSteps): void {
    if (this.signal.aborted) {
      const part: Parts = new Map([[name, steps]])
      void this.#end(part, () => this.#release(part))
      this.signal.throwIfAborted()
    }
    this.#parts.set(name, steps)
  }

  ready(): void {
    this.#ready = true
  }

  /** Notes that a successor serves: the stop then lets agents connect to it. */
  succeeds(): void {
    this.#succeeded = true
  }

  /** Releases the resources of which only one process may have: its API, its agents' listener, its store. Traffic continues. */
  release(): Promise<void> {
    this.#handedOver ??= this.#release(this.#parts)
    return this.#handedOver
  }

  /**
   * Closes idle connections after a short time for requests in transit, busy ones when done, all after the drain timeout.
   * Resources of which only one process may have (its ports, its store) are released first, so that a successor can start
   * while connections drain. Steps are limited in time: the stop takes the drain time and a few seconds at most.
   */
  stop(): Promise<Drained> {
    this.#stopping.abort()
    this.#stopped ??= this.#end(this.#parts, () => this.release())
    return this.#stopped
  }

  async #end(parts: Parts, release: () => Promise<void>): Promise<Drained> {
    const { drain } = this.#timeouts
    for (const { begin } of parts.values()) begin?.(drain)
    const drains = [...parts.values()].flatMap((steps) => steps.drain ?? [])
    const draining = drains[0]?.(drain) ?? Promise.resolve(NOTHING_DRAINED)
    // Idle connections of agents to this process would keep agents from connecting to the successor.
    if (this.#succeeded) for (const { leave } of parts.values()) leave?.(drain)
    const moving = this.#succeeded ? this.#move(parts, draining) : undefined
    const rest = Promise.all([release(), draining, moving]).then(() => this.#run(parts, DRAINED))
    await atMost(drain + STOP.beside, rest)
    await this.#run(parts, LAST)
    return (await atMost(0, draining)) ?? NOTHING_DRAINED
  }

  /** Lets agents connect to the successor, once requests on the last accepted connections have arrived. */
  async #move(parts: Parts, draining: Promise<unknown>): Promise<void> {
    await atMost(STOP.arrivals, draining)
    const within = Math.max(0, this.#timeouts.drain - STOP.arrivals)
    await Promise.all([...parts.values()].map(({ move }) => move?.(within)))
  }

  /** Releases the resources that a successor needs: the addresses of the API and of agents, and the store. */
  async #release(parts: Parts): Promise<void> {
    await this.#run(parts, RELEASE)
  }

  /** Runs the steps of these moments, one moment after the other. */
  async #run(parts: Parts, moments: readonly StopMoment[]): Promise<void> {
    for (const moment of moments) {
      const within = moment === 'counters' ? STOP.counters : STOP.step
      const begun = [...parts].map(([name, steps]) => [name, steps[moment]?.(this.#timeouts.drain)] as const)
      const waited = begun.flatMap(([name, work]) => (work instanceof Promise ? this.#step(name, work, within) : []))
      if (waited.length > 0) await Promise.all(waited)
    }
  }

  /** Waits for a step of the stop, at most `within` ms, and logs a failure or delay. */
  async #step(step: string, work: Promise<unknown>, within: number): Promise<void> {
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
