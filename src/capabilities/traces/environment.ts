import { didYouMean } from '../../lib/suggest.js'
import type { ForeignOptions } from '../../options/group.js'

interface Reading {
  readonly set?: readonly (readonly [option: string, text: string])[]
  readonly refused?: string
}

type Reader = (text: string) => Reading

const as =
  (option: string): Reader =>
  (text) => ({ set: [[option, text]] })
const milliseconds =
  (option: string): Reader =>
  (text) =>
    /^\d{1,9}$/.test(text) ? { set: [[option, `${text}ms`]] } : { refused: 'a whole number of milliseconds' }

const SAMPLERS = ['always_on', 'always_off', 'traceidratio'].flatMap((name) => [name, `parentbased_${name}`])
/** Baggage passes as any other field. */
const NO_FIELDS = new Set(['baggage'])

const propagators: Reader = (text) => {
  const names = text.split(',').map((name) => name.trim())
  const other = names.find((name) => !['tracecontext', 'baggage', 'none'].includes(name))
  if (other !== undefined)
    return {
      refused: `tracecontext, baggage or none; ${JSON.stringify(other)} is not supported${didYouMean(other, ['tracecontext', 'baggage', 'none'])}`
    }
  const own = names.filter((name) => !NO_FIELDS.has(name))
  return { set: [['traces.propagation', own.includes('tracecontext') ? 'tracecontext' : 'none']] }
}

const exporter =
  (option: string): Reader =>
  (text) => {
    if (text !== 'otlp' && text !== 'none') return { refused: 'otlp or none' }
    return { set: [[option, text === 'otlp' ? 'on' : 'off']] }
  }

const TRUTH = /^(?:true|false)$/i
const disabled: Reader = (text) =>
  TRUTH.test(text)
    ? { set: [['otlp.enabled', text.toLowerCase() === 'true' ? 'off' : 'on']] }
    : { refused: 'true or false' }

const sampler: Reader = (text) =>
  SAMPLERS.includes(text)
    ? { set: [['traces.sampler', text]] }
    : { refused: `one of ${SAMPLERS.join(', ')}${didYouMean(text, SAMPLERS)}` }

/** `name=value,…`: service.name among them is the name of the service, unless OTEL_SERVICE_NAME says it. */
const resource: Reader = (text) => {
  const pairs = text.split(',').filter((pair) => pair.trim() !== '')
  const isName = (pair: string) => pair.slice(0, pair.indexOf('=')).trim() === 'service.name'
  const name = pairs.find(isName)
  const rest = pairs.filter((pair) => !isName(pair)).join(',')
  const named =
    name === undefined ? [] : [['otlp.service_name', percentDecoded(name.slice(name.indexOf('=') + 1).trim())] as const]
  return { set: [['otlp.resource_attributes', rest], ...named] }
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Readers in order; later variables win: those for traces follow those for all signals. */
const VARIABLES: Readonly<Record<string, Reader>> = {
  OTEL_SDK_DISABLED: disabled,
  OTEL_TRACES_EXPORTER: exporter('otlp.traces'),
  OTEL_METRICS_EXPORTER: exporter('otlp.metrics'),
  OTEL_EXPORTER_OTLP_ENDPOINT: as('otlp.endpoint'),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: as('otlp.traces_endpoint'),
  OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: as('otlp.metrics_endpoint'),
  OTEL_EXPORTER_OTLP_PROTOCOL: as('otlp.protocol'),
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: as('otlp.protocol'),
  OTEL_EXPORTER_OTLP_HEADERS: as('otlp.headers'),
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: as('otlp.headers'),
  OTEL_EXPORTER_OTLP_COMPRESSION: as('otlp.compression'),
  OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: as('otlp.compression'),
  OTEL_EXPORTER_OTLP_TIMEOUT: milliseconds('otlp.timeout'),
  OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: milliseconds('otlp.timeout'),
  OTEL_EXPORTER_OTLP_CERTIFICATE: as('otlp.ca'),
  OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: as('otlp.ca'),
  OTEL_METRIC_EXPORT_INTERVAL: milliseconds('otlp.metrics_interval'),
  OTEL_BSP_SCHEDULE_DELAY: milliseconds('otlp.delay'),
  OTEL_RESOURCE_ATTRIBUTES: resource,
  OTEL_SERVICE_NAME: as('otlp.service_name'),
  OTEL_TRACES_SAMPLER: sampler,
  OTEL_TRACES_SAMPLER_ARG: as('traces.ratio'),
  OTEL_PROPAGATORS: propagators
}

/** Variables for unsupported features, which are reported rather than ignored. */
const UNSUPPORTED =
  /^OTEL_(?:EXPORTER_OTLP_(?:TRACES_|METRICS_)?CLIENT_(?:KEY|CERTIFICATE)|EXPORTER_OTLP_METRICS_(?:PROTOCOL|HEADERS|COMPRESSION|TIMEOUT|CERTIFICATE)|CONFIG_FILE|EXPERIMENTAL_CONFIG_FILE)$/
/** The limits of a queue are bytes here. */
const NOT_READ =
  /^OTEL_(?:BSP_(?!SCHEDULE_DELAY)|(?:SPAN_|EVENT_|LINK_)?ATTRIBUTE_|SPAN_(?:EVENT|LINK)_|METRIC_EXPORT_TIMEOUT)/

/**
 * Converts the `OTEL_*` variables into options; an empty variable counts as not set. An unsupported value is a problem;
 * other OpenTelemetry variables, such as those of its SDKs, are ignored.
 */
export function otelEnvironment(environment: Readonly<Record<string, string | undefined>>): ForeignOptions {
  const options: ForeignOptions['options'][number][] = []
  const problems: ForeignOptions['problems'][number][] = []
  for (const [variable, read] of Object.entries(VARIABLES)) {
    const text = environment[variable]?.trim()
    if (text === undefined || text === '') continue
    const { set = [], refused } = read(text)
    for (const [option, value] of set) options.push({ variable, option, text: value })
    if (refused !== undefined) {
      const message = `${JSON.stringify(text)} is not allowed; give ${refused}`
      problems.push({ severity: 'error', variable, option: '', message })
    }
  }
  for (const variable of Object.keys(environment).sort()) {
    if ((environment[variable] ?? '') === '') continue
    if (UNSUPPORTED.test(variable)) {
      const message = 'is not supported: leave it out'
      problems.push({ severity: 'error', variable, option: '', message })
    } else if (NOT_READ.test(variable)) {
      const message = 'is not read: the queue of spans is bounded by otlp.queue, in bytes'
      problems.push({ severity: 'warning', variable, option: '', message })
    }
  }
  return { options, problems }
}
