import { Gauge, type Registry } from 'prom-client'

/** How the process is, at a scrape. */
export interface HealthReadings {
  /** Names of all reasons for which a process may be degraded. */
  readonly reasons: readonly string[]
  /** Those that hold. */
  holding(): readonly string[]
  /** Does the store answer? */
  storeUp(): boolean
  /** By how many revisions of the store the process is late. */
  behind(): number
  /** When a configuration was applied last, milliseconds since the Unix epoch; undefined: never. */
  appliedAt(): number | undefined
  /** Seconds. */
  loop(): { readonly p50: number; readonly p99: number; readonly max: number }
  /** Undefined where the system does not tell. */
  descriptors(): { readonly used: number; readonly allowed: number } | undefined
}

/** Reads at each scrape how the process is. What is not known has no value. */
export function observeHealth(registry: Registry, read: HealthReadings): void {
  const gauge = (name: string, help: string, value: () => number | undefined) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        const now = value()
        if (now === undefined) this.remove()
        else this.set(now)
      }
    })
  new Gauge({
    name: 'sluice_degraded',
    help: 'Is the process degraded for this reason? 1 yes, 0 no; /readyz shows the same.',
    labelNames: ['reason'],
    registers: [registry],
    collect() {
      const holding = read.holding()
      for (const reason of read.reasons) this.set({ reason }, holding.includes(reason) ? 1 : 0)
    }
  })
  gauge('sluice_store_up', 'Does the store answer? 1 yes, 0 no.', () => (read.storeUp() ? 1 : 0))
  gauge('sluice_revisions_behind', 'Revisions of the store that are late in this process.', () => read.behind())
  gauge('sluice_last_apply_timestamp_seconds', 'When a configuration was applied last, Unix time.', () => {
    const at = read.appliedAt()
    return at === undefined ? undefined : at / 1_000
  })
  const loop = 'How late timers of the event loop run, in the last 15 to 30 seconds:'
  gauge('nodejs_eventloop_lag_p50_seconds', `${loop} median.`, () => read.loop().p50)
  gauge('nodejs_eventloop_lag_p99_seconds', `${loop} 99th percentile.`, () => read.loop().p99)
  gauge('nodejs_eventloop_lag_max_seconds', `${loop} longest.`, () => read.loop().max)
  gauge('process_open_fds', 'File descriptors that the process has open.', () => read.descriptors()?.used)
  gauge('process_max_fds', 'File descriptors that the process may have open.', () => read.descriptors()?.allowed)
  gauge('nodejs_heap_size_used_bytes', 'JavaScript heap in use.', () => process.memoryUsage().heapUsed)
  gauge('nodejs_heap_size_total_bytes', 'JavaScript heap that is reserved.', () => process.memoryUsage().heapTotal)
  gauge('nodejs_external_memory_bytes', 'Memory of buffers and other objects outside the heap.', () => {
    return process.memoryUsage().external
  })
}
