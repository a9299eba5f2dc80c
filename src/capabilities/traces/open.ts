import { hostname } from 'node:os'
import type { Foundation } from '../../app/foundation.js'
import { partKey } from '../../app/opened-parts.js'
import { atMost } from '../../lib/concurrency.js'
import { packageVersion } from '../../lib/files.js'
import { createOutbound } from '../../lib/http-client/outbound.js'
import { newId, unpredictable } from '../../lib/id.js'
import { readAuthorityFile } from '../../lib/x509.js'
import type { Options } from '../../options/options.js'
import { observeSpans } from '../../telemetry/observed-metrics.js'
import { Delivery } from './otlp/delivery.js'
import { type Encoding, encodingOf } from './otlp/encoding.js'
import { attributesOf, METRICS, type Signal, TRACES } from './otlp/messages.js'
import { MetricExporter } from './otlp/metric-exporter.js'
import { SpanExporter } from './span-exporter.js'
import { below, type Tracing, tracesUrl, tracing } from './tracing.js'

/** The telemetry of this process. */
export const TELEMETRY = partKey<OpenTelemetry>('telemetry')

/** Traces and metrics that are sent elsewhere. */
export interface OpenTelemetry extends Tracing {
  /** Exports data of exchanges in workers; undefined if tracing is disabled. */
  readonly spans: Pick<SpanExporter, 'take' | 'lost'> | undefined
  /** Metrics are sent from now on; `count` resolves when the counts of every thread are here. */
  measures(count: () => Promise<unknown>): void
  /** Sends queued data, and closes. */
  close(): Promise<void>
}

/** Maximum time at stop for sending the last spans and metrics (ms). */
const LAST = 1_200

/** Creates the telemetry that the options enable. Fails with `FILE_UNREADABLE`. */
export async function openTelemetry(options: Options, foundation: Foundation): Promise<OpenTelemetry> {
  const { otlp } = options
  const { metrics, lifecycle } = foundation
  const urls = {
    traces: tracesUrl(options),
    metrics: otlp.enabled && otlp.metrics ? (otlp.metrics_endpoint ?? below(otlp.endpoint, 'v1/metrics')) : undefined
  }
  const wanted = urls.traces !== undefined || urls.metrics !== undefined
  const ways = wanted ? await waysOf(options, foundation) : undefined
  const spans = urls.traces === undefined ? undefined : ways?.spans(urls.traces)
  observeSpans(metrics.registry, () => spans?.counts ?? {})
  let measuring: MetricExporter | undefined
  const opened: OpenTelemetry = {
    ...tracing(options, foundation.clock, spans?.take),
    spans,
    measures(count) {
      if (urls.metrics !== undefined) measuring = ways?.measuring(urls.metrics, count)
    },
    async close() {
      await Promise.all([spans?.stop(LAST), measuring?.stop(LAST)])
      ways?.close()
    }
  }
  lifecycle.opens('traces', { traces: () => opened.close() })
  return opened
}

/** Creates the exporters. */
async function waysOf(options: Options, { clock, log, names, metrics }: Foundation) {
  const { otlp } = options
  const { headers, compression, timeout, protocol, queue, delay, metrics_interval: interval } = otlp
  const authorities = otlp.ca === undefined ? undefined : [await readAuthorityFile(otlp.ca, 'otlp.ca')]
  const outbound = createOutbound({
    clock,
    // The operator names the receiver, which mostly runs beside the process.
    allowPrivate: true,
    lookup: names.lookup,
    ...(authorities === undefined ? {} : { authorities })
  })
  const version = packageVersion()
  const attributes = attributesOf({
    'service.name': otlp.service_name,
    'service.version': version,
    'service.instance.id': newId('proc', clock.wall()),
    'host.name': hostname(),
    'process.pid': process.pid,
    ...(options.region === '' ? {} : { 'sluice.region': options.region }),
    ...otlp.resource_attributes
  })
  const sending = (url: string, signal: Signal, what: string): { delivery: Delivery; encoding: Encoding } => {
    const encoding = encodingOf(protocol, signal, { attributes, version })
    const settings = { url, headers, compression, timeout }
    return {
      encoding,
      delivery: new Delivery({ outbound, settings, encoding, clock, random: unpredictable, log, what })
    }
  }
  return {
    spans: (url: string) => new SpanExporter({ ...sending(url, TRACES, 'spans'), queue, delay, log }),
    measuring: (url: string, count: () => Promise<unknown>) =>
      new MetricExporter({
        ...sending(url, METRICS, 'metrics'),
        registry: metrics.registry,
        // A worker that does not respond is left out.
        count: () => atMost(interval, count()),
        interval,
        clock,
        log
      }),
    close: () => outbound.close()
  }
}
