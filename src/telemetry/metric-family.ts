import { Counter, Gauge, type Registry } from 'prom-client'

/** One series of a family. */
interface Series {
  /** Values of the labels: from the configuration and closed sets, never from a request. */
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** A family of metrics whose series are read from a service `S` at each scrape. */
export interface MetricFamily<S> {
  readonly type: 'counter' | 'gauge'
  readonly name: string
  readonly help: string
  readonly labels: readonly string[]
  /** Returns the series; those of an earlier scrape that are missing now are removed. */
  read(service: S): Iterable<Series>
}

/** Registers a family. `service` is called at each scrape. */
export function registerFamily<S>(registry: Registry, family: MetricFamily<S>, service: () => S): void {
  const { type, name, help, labels } = family
  const about = { name, help, labelNames: [...labels], registers: [registry] }
  if (type === 'counter') {
    new Counter({
      ...about,
      collect() {
        this.reset()
        for (const { labels, value } of family.read(service())) this.inc(labels, value)
      }
    })
    return
  }
  new Gauge({
    ...about,
    collect() {
      this.reset()
      for (const { labels, value } of family.read(service())) this.set(labels, value)
    }
  })
}
