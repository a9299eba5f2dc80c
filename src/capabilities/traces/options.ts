import * as option from '../../options/values.js'
import { choice, duration, fraction, object, optional, size, text } from '../../schema/values.js'

const SECOND = 1_000
const MIB = 1024 * 1024

/** `otlp`: where traces and metrics are sent, and as whom. */
export const otlp = object(
  {
    enabled: option.switched({
      description: 'Send what the options below ask for? off: nothing is traced or sent (OTEL_SDK_DISABLED=true).',
      default: 'on'
    }),
    endpoint: optional(
      option.url({
        description:
          'Base URL of a receiver of OTLP over HTTP, such as http://127.0.0.1:4318: traces go to v1/traces below it ' +
          '(OTEL_EXPORTER_OTLP_ENDPOINT). Without it and traces_endpoint nothing is traced.'
      })
    ),
    traces_endpoint: optional(
      option.url({
        description: 'Whole URL that traces are sent to, in place of that (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT).'
      })
    ),
    metrics_endpoint: optional(
      option.url({
        description: 'Whole URL that metrics are sent to, in place of that (OTEL_EXPORTER_OTLP_METRICS_ENDPOINT).'
      })
    ),
    traces: option.switched({
      description: 'Send traces to the receiver? (OTEL_TRACES_EXPORTER: otlp or none)',
      default: 'on'
    }),
    metrics: option.switched({
      description: 'Send the numbers of /metrics to the receiver? (OTEL_METRICS_EXPORTER: otlp or none)',
      default: 'off'
    }),
    metrics_interval: duration({
      description: 'How often metrics are sent (OTEL_METRIC_EXPORT_INTERVAL, in milliseconds).',
      default: '60s',
      min: SECOND,
      max: 3_600 * SECOND
    }),
    protocol: choice(['http/protobuf', 'http/json'], {
      description: 'Form of the requests (OTEL_EXPORTER_OTLP_PROTOCOL).',
      default: 'http/protobuf'
    }),
    headers: option.pairs({
      description:
        'Fields of the requests, such as those of an API key: a map, or name=value with commas between (OTEL_EXPORTER_OTLP_HEADERS).',
      default: {}
    }),
    compression: choice(['none', 'gzip'], {
      description: 'Compression of the requests (OTEL_EXPORTER_OTLP_COMPRESSION).',
      default: 'none'
    }),
    timeout: duration({
      description: 'For one attempt of a request (OTEL_EXPORTER_OTLP_TIMEOUT, in milliseconds).',
      default: '10s',
      min: 100,
      max: 300 * SECOND
    }),
    ca: optional(
      option.file({
        description:
          'PEM file of the authorities that an https receiver is checked against, instead of the well-known ones ' +
          '(OTEL_EXPORTER_OTLP_CERTIFICATE).'
      })
    ),
    queue: size({
      description: 'Memory for exchanges whose spans wait to be sent; further ones are dropped and counted.',
      default: '8MiB',
      min: 64 * 1024,
      max: 1024 * MIB
    }),
    delay: duration({
      description: 'How long spans wait for others to be sent together (OTEL_BSP_SCHEDULE_DELAY, in milliseconds).',
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
      description:
        'Further attributes of the resource: a map, or name=value with commas between (OTEL_RESOURCE_ATTRIBUTES).',
      default: {}
    })
  },
  { description: 'Traces and metrics that are sent by the OpenTelemetry protocol (OTLP over HTTP).' }
)

/** `traces`: of which exchanges spans are made, and which traces are gone on with. */
export const traces = object(
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
          'Which exchanges are sampled (OTEL_TRACES_SAMPLER). parentbased_: a trace that comes with the request decides for itself; ' +
          'the rest of the name is for traces that begin here.',
        default: 'parentbased_always_on'
      }
    ),
    ratio: fraction({
      description: 'The share of traces that a sampler with traceidratio takes, 0 to 1 (OTEL_TRACES_SAMPLER_ARG).',
      default: 1
    }),
    where: optional(
      text({
        description:
          "CEL over requests: of the traces that begin here only those that it means are sampled, such as req.url.path != '/health'."
      })
    ),
    propagation: choice(['tracecontext', 'none'], {
      description:
        'tracecontext: traceparent and tracestate are read and written (W3C Trace Context). none: the fields pass as they are ' +
        '(OTEL_PROPAGATORS).',
      default: 'tracecontext'
    }),
    accept_from: choice(['trusted_proxies', 'everyone', 'none'], {
      description:
        'Whose traces are gone on with: of the networks in trusted_proxies, of everyone, or none. Of others the fields traceparent ' +
        'and tracestate are removed.',
      default: 'trusted_proxies'
    })
  },
  { description: 'Traces of exchanges. They are made where otlp names a receiver.' }
)
