import type { Registry } from 'prom-client'
import type { Degradation, Readiness } from '../api/service-routes.js'
import type { Clock } from '../lib/clock.js'
import { StoreHealth } from '../store/store-health.js'
import { Health, type HealthParts, type HealthSources, reasons } from '../telemetry/health.js'
import { observeHealth } from '../telemetry/health-metrics.js'
import { Descriptors, LoopDelay } from '../telemetry/process-health.js'

export interface ProcessHealthParts {
  readonly clock: Clock
  readonly log: HealthParts['log']
  readonly registry: Registry
  /** Everything that the process itself does not know. */
  readonly sources: Omit<HealthSources, 'storeTrouble' | 'descriptors'>
}

/** Milliseconds between looks. */
const EVERY = 1_000

/** How this process is: what /readyz, the metrics and the log say of it. */
export class ProcessHealth {
  /** The store reports to it; it exists before the store is opened. */
  readonly store: StoreHealth
  readonly #parts: ProcessHealthParts
  readonly #descriptors = new Descriptors()
  readonly #loop = new LoopDelay()
  readonly #health: Health
  #appliedAt: number | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(parts: ProcessHealthParts) {
    const { clock, log } = parts
    this.#parts = parts
    this.store = new StoreHealth(clock)
    const sources: HealthSources = {
      ...parts.sources,
      storeTrouble: () => this.store.trouble,
      descriptors: () => this.#descriptors.use
    }
    this.#health = new Health({ sources, clock, log })
  }

  /** From now on it looks every second; resolves after the first look. */
  async start(): Promise<void> {
    const { registry, sources } = this.#parts
    observeHealth(registry, {
      reasons: reasons.map(({ name }) => name),
      holding: () => this.#health.look(),
      storeUp: () => this.store.trouble !== 'unreachable',
      behind: () => sources.revisionsBehind(),
      appliedAt: () => this.#appliedAt,
      loop: () => this.#loop.delays,
      descriptors: () => this.#descriptors.use
    })
    await this.#descriptors.look()
    this.#look()
    this.#timer = setInterval(() => this.#look(), EVERY).unref()
  }

  /** A configuration serves from now on. */
  applied(): void {
    this.#appliedAt = this.#parts.clock.wall()
  }

  /** `phase` while nothing is wrong: a process that serves and is not as it should be is degraded. */
  readiness(phase: Readiness): Readiness {
    return phase === 'ready' && this.#health.look().length > 0 ? 'degraded' : phase
  }

  /** What is wrong now. */
  degradation(): Degradation {
    return { reasons: this.#health.look(), revisionsBehind: this.#parts.sources.revisionsBehind() }
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#loop.stop()
  }

  #look(): void {
    this.store.look()
    void this.#descriptors.look()
    this.#health.look()
  }
}
