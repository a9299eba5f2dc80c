import type { Registry } from 'prom-client'
import { attributesOf, CUMULATIVE, type HistogramPoint, type Metric, nanoseconds } from './messages.js'

type Labels = Readonly<Record<string, string | number>>

/** A value of the registry. */
interface Sample {
  readonly value: number
  readonly labels: Labels
  /** Name of a distribution's sample: the metric with `_bucket`, `_sum` or `_count`. */
  readonly metricName?: string
}

/** Start of counting, and time of reading (ms since the Unix epoch). */
export interface MetricTimes {
  readonly since: number
  readonly at: number
}

/**
 * Converts the registry's metrics to OTLP, with the names and labels of `/metrics`: counters are cumulative sums,
 * distributions are histograms. Metrics without values are left out.
 */
export async function metricsOf(registry: Registry, { since, at }: MetricTimes): Promise<Metric[]> {
  const metrics: Metric[] = []
  const times = { startTimeUnixNano: nanoseconds(since), timeUnixNano: nanoseconds(at) }
  for (const { name, help, type, values } of await registry.getMetricsAsJSON()) {
    const samples = values as readonly Sample[]
    if (samples.length === 0) continue
    const about = { name, description: help }
    switch (String(type)) {
      case 'counter':
        metrics.push({
          ...about,
          sum: {
            dataPoints: samples.map((sample) => ({ ...times, ...pointOf(sample) })),
            aggregationTemporality: CUMULATIVE,
            isMonotonic: true
          }
        })
        break
      case 'histogram':
        metrics.push({
          ...about,
          ...(name.endsWith('_seconds') ? { unit: 's' } : {}),
          histogram: { dataPoints: histogramsOf(samples, times), aggregationTemporality: CUMULATIVE }
        })
        break
      default:
        metrics.push({
          ...about,
          gauge: { dataPoints: samples.map((sample) => ({ timeUnixNano: times.timeUnixNano, ...pointOf(sample) })) }
        })
    }
  }
  return metrics
}

function pointOf({ value, labels }: Sample) {
  return { asDouble: value, attributes: attributesOf(labels) }
}

interface Distribution {
  readonly labels: Labels
  readonly bounds: number[]
  /** Counts up to each bound, and at the end of all. */
  readonly upTo: number[]
  sum: number
  count: number
}

/** Groups the registry's samples of distributions by their common labels. */
function histogramsOf(
  samples: readonly Sample[],
  times: Pick<HistogramPoint, 'startTimeUnixNano' | 'timeUnixNano'>
): HistogramPoint[] {
  const distributions = new Map<string, Distribution>()
  for (const { value, labels: all, metricName = '' } of samples) {
    const { le, ...labels } = all
    const key = JSON.stringify(Object.entries(labels).sort())
    let one = distributions.get(key)
    if (one === undefined) {
      one = { labels, bounds: [], upTo: [], sum: 0, count: 0 }
      distributions.set(key, one)
    }
    if (metricName.endsWith('_sum')) one.sum = value
    else if (metricName.endsWith('_count')) one.count = value
    else {
      one.upTo.push(value)
      if (le !== '+Inf') one.bounds.push(Number(le))
    }
  }
  return [...distributions.values()].map(({ labels, bounds, upTo, sum, count }) => ({
    ...times,
    attributes: attributesOf(labels),
    count: String(count),
    sum,
    bucketCounts: upTo.map((value, index) => String(value - (upTo[index - 1] ?? 0))),
    explicitBounds: bounds
  }))
}
