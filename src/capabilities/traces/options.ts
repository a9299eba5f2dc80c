import type { OptionGroup } from '../../options/group.js'
import * as option from '../../options/values.js'
import { choice, duration, fraction, object, optional, size, text } from '../../schema/values.js'

const SECOND = 1_000
const MIB = 1024 * 1024

/** `otlp`: target of traces and metrics, and the resource. */
const otlp = object(
  {
    enabled: option.switched({
      description: 'Send traces and metrics as set below. off: nothing is traced or sent (OTEL_SDK_DISABLED=true).',
      default: 'on'
    }),
    endpoint: optional(
      option.url({
        description:
          'Base URL of an OTLP/HTTP receiver, such as http://127.0.0.1:4318; traces are sent to v1/traces below it ' +
          '(OTEL_EXPORTER_OTLP_ENDPOINT). Without it and traces_endpoint nothing is traced.'
      })
    ),
    traces_endpoint: optional(
      option.url({
        description: 'Full URL for traces, instead of `endpoint` (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT).'
      })
    ),
    metrics_endpoint: optional(
      option.url({
        description: 'Full URL for metrics, instead of `endpoint` (OTEL_EXPORTER_OTLP_METRICS_ENDPOINT).'
      })
    ),
    traces: option.switched({
      description: 'Send traces (OTEL_TRACES_EXPORTER: otlp or none).',
      default: 'on'
    }),
    metrics: option.switched({
      description: 'Send the metrics of /metrics (OTEL_METRICS_EXPORTER: otlp or none).',
      default: 'off'
    }),
    metrics_interval: duration({
      description: 'How often metrics are sent (OTEL_METRIC_EXPORT_INTERVAL, in milliseconds).',
      default: '60s',
      min: SECOND,
      max: 3_600 * SECOND
    }),
    protocol: choice(['http/protobuf', 'http/json'], {
      description: 'Encoding of the requests (OTEL_EXPORTER_OTLP_PROTOCOL).',
      default: 'http/protobuf'
    }),
    headers: option.pairs({
      description:
        'Headers of the requests, such as an API key: a map, or comma-separated name=value (OTEL_EXPORTER_OTLP_HEADERS).',
      default: {}
    }),
    compression: choice(['none', 'gzip'], {
      description: 'Compression of the requests (OTEL_EXPORTER_OTLP_COMPRESSION).',
      default: 'none'
    }),
    timeout: duration({
      description: 'Timeout of one attempt (OTEL_EXPORTER_OTLP_TIMEOUT, in milliseconds).',
      default: '10s',
      min: 100,
      max: 300 * SECOND
    }),
    ca: optional(
      option.file({
        description:
          'PEM file of CA certificates to verify an https receiver, instead of the public CAs ' +
          '(OTEL_EXPORTER_OTLP_CERTIFICATE).'
      })
    ),
    queue: size({
      description: 'Maximum memory for spans that wait to be sent; further ones are dropped and counted.',
      default: '8MiB',
      min: 64 * 1024,
      max: 1024 * MIB
    }),
    delay: duration({
      description: 'Time between batches of spans (OTEL_BSP_SCHEDULE_DELAY, in milliseconds).',
      default: '1s',
      min: 10,
      max: 60 * SECOND
    }),
    service_name: text({
      description: 'The resource attribute service.name (OTEL_SERVICE_NAME).',
      default: 'sluice',
      min: 1,
      max: 255
    }),
    resource_attributes: option.pairs({
      description: 'Additional resource attributes: a map, or comma-separated name=value (OTEL_RESOURCE_ATTRIBUTES).',
      default: {}
    })
  },
  { description: 'Export of traces and metrics to OpenTelemetry (OTLP over HTTP).' }
)

/** `traces`: sampling, and propagation of trace contexts. */
const traces = object(
  {
    sampler: choice(
      [
        'parentbased_always_on',
        'parentbased_always_off',
        'parentbased_traceidratio',
        'always_on',
        'always_off',
        'traceidratio'
      ],
      {
        description:
          'Sampler (OTEL_TRACES_SAMPLER). parentbased_: follows the decision of the incoming trace; the rest of the name applies to ' +
          'new traces.',
        default: 'parentbased_always_on'
      }
    ),
    ratio: fraction({
      description: 'Sampling ratio of traceidratio, 0 to 1 (OTEL_TRACES_SAMPLER_ARG).',
      default: 1
    }),
    where: optional(
      text({
        description:
          "CEL condition on requests: only matching new traces are sampled, such as req.url.path != '/health'."
      })
    ),
    propagation: choice(['tracecontext', 'none'], {
      description:
        'tracecontext: traceparent and tracestate are read and written (W3C Trace Context). none: the headers pass unchanged ' +
        '(OTEL_PROPAGATORS).',
      default: 'tracecontext'
    }),
    accept_from: choice(['trusted_proxies', 'everyone', 'none'], {
      description:
        'Clients whose traces are continued: those in trusted_proxies, everyone, or none. The headers traceparent and tracestate of ' +
        'other clients are removed.',
      default: 'trusted_proxies'
    })
  },
  { description: 'Traces of requests. They need a receiver in otlp.' }
)

/** Options of traces, and of their export. */
export const traceOptions = { after: 'log', options: { otlp, traces } } satisfies OptionGroup
