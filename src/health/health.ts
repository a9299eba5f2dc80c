import type { Clock } from '../lib/clock.js'
import { type HealthSources, type ReasonName, reasons } from './reasons.js'

export interface HealthParts {
  readonly sources: HealthSources
  readonly clock: Clock
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
}

/** What is wrong in this process, and since when. Logs each change of it once. */
export class Health {
  readonly #parts: HealthParts
  /** Monotonic milliseconds. */
  readonly #since = new Map<ReasonName, number>()

  constructor(parts: HealthParts) {
    this.#parts = parts
  }

  /** Looks at every source; returns the names of the reasons that hold, in the order of their list. */
  look(): readonly ReasonName[] {
    const { sources, clock, log } = this.#parts
    const now = clock.monotonic()
    for (const { name, means, holds, about, logged } of reasons) {
      const since = this.#since.get(name)
      const held = since !== undefined
      if (holds(sources) === held) continue
      if (held) this.#since.delete(name)
      else this.#since.set(name, now)
      if (logged === true) continue
      if (held) log.info({ reason: name, seconds: Math.round((now - since) / 100) / 10 }, `no longer degraded: ${name}`)
      else log.warn({ reason: name, ...about?.(sources) }, `degraded: ${means}`)
    }
    return reasons.filter(({ name }) => this.#since.has(name)).map(({ name }) => name)
  }
}
