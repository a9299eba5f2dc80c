import { integer, listOf, object, orNull, ref, text, time } from '../schema/answer.js'
import { answer, operation, type Paths, plain } from './openapi-parts.js'
import { MAP_PATH, TRAFFIC_DAY_PATH, TRAFFIC_PATH, TRAFFIC_STREAM_PATH } from './traffic-routes.js'

const TAG = 'Traffic'

const count = { ...integer, minimum: 0 } as const
const milliseconds = orNull({ type: 'number', minimum: 0 })

const NUMBERS = {
  requests: { ...count, description: 'Exchanges of clients that ended.' },
  statuses: object({
    '2xx': count,
    '3xx': count,
    '4xx': count,
    '5xx': count,
    none: { ...count, description: 'No answer.' }
  }),
  p50_ms: { ...milliseconds, description: 'Half of them took no longer, to within 5 %; null: none ended.' },
  p99_ms: milliseconds,
  refused: { ...count, description: 'What Sluice refused itself, connections among them.' },
  failed: { ...count, description: 'Answers of 500 and above, and what had no answer.' },
  bytes_in: count,
  bytes_out: count
} as const

const SECOND = {
  ...object({ at: time, ...NUMBERS, connections: { ...count, description: 'Open at its end.' }, in_flight: count }),
  title: 'TrafficSecond'
}

const TRAFFIC = {
  ...object({
    seconds: listOf(ref('TrafficSecond'), 'The oldest first.'),
    last_minute: object({
      seconds: { ...count, description: 'How many of them are known.' },
      ...NUMBERS,
      codes: { type: 'object', additionalProperties: count, description: 'What failed or was refused, by code.' }
    })
  }),
  title: 'Traffic'
}

const MINUTES = {
  ...object({
    at: { ...time, description: 'When it ended.' },
    minutes: { ...count, description: 'How many minutes it holds.' },
    ...NUMBERS,
    durations: listOf(
      object({ below_ms: { type: 'number', description: 'Longer than all of them.' }, count }),
      'How many took so long: below this and not below half of it, the shortest first.'
    )
  }),
  title: 'TrafficMinutes'
}

const TRAFFIC_DAY = {
  ...object({
    steps: listOf(ref('TrafficMinutes'), 'The oldest first; minutes before the start of the process are missing.'),
    compared: object({
      now: { ...orNull(ref('TrafficMinutes')), description: 'The last five minutes.' },
      hour_ago: { ...orNull(ref('TrafficMinutes')), description: 'The same an hour before; null: not known.' },
      day_ago: { ...orNull(ref('TrafficMinutes')), description: 'The same a day before; null: not known.' }
    })
  }),
  title: 'TrafficDay'
}

const RATES = object({ requests: count, failed: count, refused: count, client_errors: count })
const SERVER = object({ server: text, status: text, reason: orNull(text), since: orNull(time) })
const BACKEND = {
  ...object({
    id: text,
    form: { ...text, enum: ['address', 'response', 'files', 'tunnels', 'weighted', 'failover', 'missing'] },
    to: orNull(text),
    servers: listOf(SERVER, 'As this process knows them.'),
    members: listOf(object({ weight: orNull(integer), backend: ref('MappedBackend') }), 'Of those that share traffic.')
  }),
  title: 'MappedBackend'
}

const MODULES = listOf(text, 'In no order of their own.')

const POLICIES = listOf(
  object({
    owner: { ...text, description: 'The route, edge or endpoint; default: the policy that the options name.' },
    source: { ...text, description: 'Where the text is, for people: a file and line, or a URI.' },
    lines: count
  }),
  'Those that run, in their order; GET /explain/policies/{owner} has their texts.'
)

const MAP = {
  ...object({
    listeners: listOf(
      object({
        key: text,
        name: text,
        host: text,
        port: integer,
        tls: { type: 'boolean' },
        public_port: orNull(integer)
      }),
      'Where HTTP is accepted.'
    ),
    edges: listOf(
      object({
        id: text,
        protocol: { ...text, enum: ['http', 'https'] },
        hosts: listOf(
          object({ host: text, port: integer, certificate: orNull(object({ id: text, not_after: time })) }),
          'Under which it is known.'
        ),
        every_host: { type: 'boolean', description: 'Does it take each host that no other edge has?' },
        on_http: orNull(text),
        rates: RATES,
        routes: listOf(
          object({
            id: text,
            match: text,
            path: text,
            modules: MODULES,
            policies: POLICIES,
            rates: RATES,
            backend: orNull(ref('MappedBackend'))
          }),
          ''
        )
      }),
      'What serves HTTP.'
    ),
    tcp_edges: listOf(
      object({
        id: text,
        ports: listOf(object({ host: text, port: integer }), ''),
        modules: MODULES,
        policies: POLICIES,
        rates: RATES,
        backend: orNull(ref('MappedBackend'))
      }),
      'What serves TCP.'
    ),
    omitted: { ...count, description: 'Edges that are left out because there are too many.' }
  }),
  title: 'TrafficMap'
}

/** Adds traffic statistics and map; returns its tag. */
export function describeTraffic(paths: Paths, schemas: Record<string, object>): object {
  Object.assign(schemas, {
    TrafficSecond: SECOND,
    Traffic: TRAFFIC,
    TrafficMinutes: MINUTES,
    TrafficDay: TRAFFIC_DAY,
    MappedBackend: BACKEND,
    TrafficMap: MAP
  })
  paths[TRAFFIC_PATH] = {
    get: operation('traffic_get', TAG, 'Traffic of the process that answers, second by second.', {
      parameters: ['seconds'],
      responses: { 200: answer('The numbers.', ref('Traffic')) }
    })
  }
  paths[TRAFFIC_DAY_PATH] = {
    get: operation('traffic_day', TAG, 'Traffic of the last day of the process that answers, in steps of minutes.', {
      parameters: ['minutes', 'step'],
      responses: { 200: answer('The numbers.', ref('TrafficDay')) }
    })
  }
  paths[TRAFFIC_STREAM_PATH] = {
    get: operation(
      'traffic_follow',
      TAG,
      'Each second as it ends, as server-sent events: second (a TrafficSecond), dropped (count: not read in time), over.',
      { responses: { 200: plain('The events.', text, 'text/event-stream') } }
    )
  }
  paths[MAP_PATH] = {
    get: operation(
      'map_get',
      TAG,
      'What serves, from listeners over edges and routes to backends, with the rates of the last minute and the health that this process knows.',
      { responses: { 200: answer('The map.', ref('TrafficMap')) } }
    )
  }
  return { name: TAG, description: 'Traffic in numbers, and what it takes its way through.' }
}
