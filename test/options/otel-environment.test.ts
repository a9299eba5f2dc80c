import t from 'tap'
import { formatOptionProblem } from '../../src/options/catalogue.js'
import { type LoadInput, loadOptions } from '../../src/options/load.js'

const load = (environment: LoadInput['environment'], more: Partial<LoadInput> = {}) =>
  loadOptions({ flags: [], environment, folder: '/folder', ...more })

async function good(environment: LoadInput['environment'], more: Partial<LoadInput> = {}) {
  const result = await load(environment, more)
  if (!result.ok) throw new Error(result.problems.map(formatOptionProblem).join('\n'))
  return result
}

t.test('the variables of OpenTelemetry set the options of the same meaning', async (t) => {
  const { options, origins, warnings } = await good({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/base/',
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://other/in?x=1',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_EXPORTER_OTLP_HEADERS: 'api-key=a%2Cb, x=1',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    OTEL_EXPORTER_OTLP_TIMEOUT: '2500',
    OTEL_SERVICE_NAME: 'edge',
    OTEL_RESOURCE_ATTRIBUTES: 'service.name=lost,deployment.environment.name=live%20one',
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0.05',
    OTEL_PROPAGATORS: 'tracecontext,baggage',
    OTEL_METRICS_EXPORTER: 'otlp',
    OTEL_METRIC_EXPORT_INTERVAL: '15000',
    OTEL_BSP_SCHEDULE_DELAY: '5000',
    OTEL_LOG_LEVEL: 'debug'
  })
  t.match(options.otlp, {
    enabled: true,
    endpoint: 'http://collector:4318/base/',
    traces_endpoint: 'https://other/in?x=1',
    protocol: 'http/json',
    headers: { 'api-key': 'a,b', x: '1' },
    compression: 'gzip',
    timeout: 2_500,
    service_name: 'edge',
    resource_attributes: { 'deployment.environment.name': 'live one' },
    metrics: true,
    metrics_interval: 15_000,
    delay: 5_000
  })
  t.notOk('service.name' in options.otlp.resource_attributes)
  t.match(options.traces, { sampler: 'parentbased_traceidratio', ratio: 0.05, propagation: 'tracecontext' })
  t.same(origins.get('otlp.protocol'), { kind: 'environment', variable: 'OTEL_EXPORTER_OTLP_PROTOCOL' })
  t.same(warnings, [], 'of other variables nothing is said')
})

t.test('flags and SLUICE_ variables win over them, they over the file', async (t) => {
  const folder = t.testdir({
    'sluice.yaml':
      'otlp:\n  service_name: file\n  protocol: http/json\n  headers: { a: b }\n  timeout: 1s\ntraces: { ratio: 0.1 }\n'
  })
  const { options } = await good(
    {
      OTEL_SERVICE_NAME: 'otel',
      SLUICE_OTLP_SERVICE_NAME: 'sluice',
      OTEL_EXPORTER_OTLP_TIMEOUT: '2000',
      OTEL_PROPAGATORS: ''
    },
    { folder, config: 'sluice.yaml' }
  )
  t.equal(options.otlp.service_name, 'sluice')
  t.equal(options.otlp.timeout, 2_000)
  t.equal(options.otlp.protocol, 'http/json')
  t.same(options.otlp.headers, { a: 'b' }, 'a map of the file')
  t.equal(options.traces.ratio, 0.1)
  t.equal(options.traces.propagation, 'tracecontext', 'an empty variable counts as not set')
})

t.test('of two variables that say the same, the one about traces wins; a disabled SDK switches off', async (t) => {
  const { options } = await good({
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
    OTEL_SDK_DISABLED: 'TRUE',
    OTEL_TRACES_EXPORTER: 'none',
    OTEL_RESOURCE_ATTRIBUTES: 'service.name=of%20it',
    OTEL_PROPAGATORS: 'none'
  })
  t.match(options.otlp, { enabled: false, traces: false, protocol: 'http/json', service_name: 'of it' })
  t.equal(options.traces.propagation, 'none')
})

t.test('what is not supported is refused, and says what is', async (t) => {
  const cases: [variable: string, text: string, said: RegExp][] = [
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc', /"grpc" is not allowed; give one of http\/protobuf, http\/json/],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318', /give http:\/\/host or https:\/\/host/],
    ['OTEL_EXPORTER_OTLP_COMPRESSION', 'zstd', /give one of none, gzip/],
    ['OTEL_EXPORTER_OTLP_TIMEOUT', '10s', /give a whole number of milliseconds/],
    ['OTEL_TRACES_SAMPLER', 'jaeger_remote', /give one of always_on, .*parentbased_traceidratio/],
    ['OTEL_TRACES_SAMPLER_ARG', '2', /give a number from 0 to 1/],
    ['OTEL_TRACES_EXPORTER', 'zipkin', /give otlp or none/],
    ['OTEL_METRICS_EXPORTER', 'prometheus', /give otlp or none/],
    ['OTEL_PROPAGATORS', 'tracecontext,b3', /give tracecontext, baggage or none; "b3" is not supported/],
    ['OTEL_SDK_DISABLED', 'yes', /give true or false/],
    ['OTEL_RESOURCE_ATTRIBUTES', 'a=%E0%A4%A', /give a map of names and texts/],
    ['OTEL_EXPORTER_OTLP_CLIENT_KEY', 'k.pem', /is not supported: leave it out/]
  ]
  for (const [variable, text, said] of cases) {
    const result = await load({ [variable]: text })
    t.equal(result.ok, false, variable)
    const lines = result.ok ? [] : result.problems.map(formatOptionProblem)
    t.equal(lines.length, 1)
    t.ok(lines[0]?.startsWith(`${variable}: error: `), String(lines[0]))
    t.match(lines[0], said)
  }
  const { warnings } = await good({ OTEL_BSP_MAX_QUEUE_SIZE: '10' })
  t.match(warnings.map(formatOptionProblem), [/^OTEL_BSP_MAX_QUEUE_SIZE: warning: is not read/])
})

t.test('values of headers are in no message', async (t) => {
  const result = await load({ OTEL_EXPORTER_OTLP_HEADERS: 'authorization hunter22' })
  const lines = result.ok ? [] : result.problems.map(formatOptionProblem)
  t.match(lines, [/^OTEL_EXPORTER_OTLP_HEADERS: error: otlp.headers: what is given is not allowed; give a map/])
  t.notMatch(lines.join(), /hunter22/)
})

t.test('metrics need a receiver', async (t) => {
  const result = await load({ SLUICE_OTLP_METRICS: 'on' })
  t.match(result.ok ? [] : result.problems.map(formatOptionProblem), [/otlp.metrics: needs otlp.endpoint or/])
})
