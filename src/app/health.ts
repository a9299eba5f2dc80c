import type { Registry } from 'prom-client'
import type { Degradation, Readiness } from '../api/health-routes.js'
import type { ControlPlane } from '../control/control-plane.js'
import type { Clock } from '../lib/clock.js'
import type { DescriptorShares } from '../lib/descriptor-shares.js'
import type { StoreHealth } from '../store/store-health.js'
import { type DescriptorUse, Health, type HealthParts, type HealthSources, reasons } from '../telemetry/health.js'
import { observeHealth } from '../telemetry/observed-metrics.js'
import { Descriptors, type LoopDelay } from '../telemetry/process-health.js'
import type { Foundation } from './foundation.js'
import type { OpenedParts } from './opened-parts.js'
import { HEALTH } from './ports.js'

interface ProcessHealthParts {
  readonly clock: Clock
  readonly log: HealthParts['log']
  readonly registry: Registry
  /** Learns how the store is since before it was opened. */
  readonly store: StoreHealth
  readonly loop: LoopDelay
  /** Learn how many descriptors the system allows. */
  readonly shares: DescriptorShares
  /** Wall time of the last change of the running configuration; undefined before the first. */
  readonly appliedAt: () => number | undefined
  /** Everything that the process itself does not know. */
  readonly sources: Omit<HealthSources, 'storeTrouble' | 'descriptors'>
}

/** Milliseconds between looks. */
const EVERY = 1_000
/** Share of the descriptors of clients below which they no longer count as exhausted, so that fluctuation around the limit is logged once. */
const FREED = 0.95

/** Health of this process, for /readyz, the metrics and the log. */
export class ProcessHealth {
  readonly #parts: ProcessHealthParts
  readonly #descriptors = new Descriptors()
  readonly #health: Health
  #timer: NodeJS.Timeout | undefined
  /** Have clients all descriptors that they may have? */
  #clientsFull = false

  private constructor(parts: ProcessHealthParts) {
    const { clock, log } = parts
    this.#parts = parts
    const sources: HealthSources = {
      ...parts.sources,
      storeTrouble: () => parts.store.trouble,
      descriptors: () => this.#use()
    }
    this.#health = new Health({ sources, clock, log })
  }

  /** Resolves after the first look; from then on it looks every second until `stop`. */
  static async open(parts: ProcessHealthParts): Promise<ProcessHealth> {
    const health = new ProcessHealth(parts)
    await health.#start()
    return health
  }

  async #start(): Promise<void> {
    const { registry, sources, store, loop, appliedAt } = this.#parts
    observeHealth(registry, {
      reasons: reasons.map(({ name }) => name),
      holding: () => this.#health.look(),
      storeUp: () => store.trouble !== 'unreachable',
      behind: () => sources.revisionsBehind(),
      appliedAt,
      loop: () => loop.delays,
      descriptors: () => this.#descriptors.use
    })
    await this.#descriptors.look()
    this.#look()
    this.#timer = setInterval(() => this.#look(), EVERY).unref()
  }

  /** Returns `phase`, or `degraded` for a ready process with problems. */
  readiness(phase: Readiness): Readiness {
    return phase === 'ready' && this.#health.look().length > 0 ? 'degraded' : phase
  }

  /** Returns the current problems. */
  degradation(): Degradation {
    return { reasons: this.#health.look(), revisionsBehind: this.#parts.sources.revisionsBehind() }
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #use(): DescriptorUse | undefined {
    const { use } = this.#descriptors
    this.#clientsFull = this.#parts.shares.clientsUse >= (this.#clientsFull ? FREED : 1)
    return use === undefined ? undefined : { ...use, short: use.short || this.#clientsFull }
  }

  #look(): void {
    this.#parts.store.look()
    void this.#descriptors.look().then(() => {
      const { use } = this.#descriptors
      if (use !== undefined) this.#parts.shares.allow(use.allowed)
    })
    this.#health.look()
  }
}

interface HealthStage {
  readonly control: ControlPlane
  readonly appliedAt: () => number | undefined
  readonly opened: OpenedParts
}

/** Opens the health of a process whose control plane is open. */
export async function openHealth(foundation: Foundation, stage: HealthStage): Promise<ProcessHealth> {
  const { clock, log, output, metrics, names, storeHealth, loop, lifecycle, turnedAway, live } = foundation
  const { control, appliedAt, opened } = stage
  const health = await ProcessHealth.open({
    clock,
    log,
    registry: metrics.registry,
    store: storeHealth,
    loop,
    shares: live.limits.descriptors,
    appliedAt,
    sources: {
      revisionsBehind: () => control.configuration.revisionsBehind,
      servesCopy: () => typeof control.configuration.degraded === 'string',
      lastError: () => control.configuration.lastError,
      logDropping: () => output?.dropping,
      overdueCertificates: () => 0,
      dnsSilent: () => names.silent(),
      fullListeners: () => turnedAway.full,
      workersMissing: () => 0,
      ...Object.assign({}, ...opened.all(HEALTH))
    }
  })
  lifecycle.opens('health', { begin: () => health.stop() })
  return health
}
