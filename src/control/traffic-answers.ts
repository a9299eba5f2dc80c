import {
  count,
  flag,
  integer,
  listOf,
  mapOf,
  number,
  object,
  orNull,
  ref,
  text,
  time,
  titledObject,
  type ValueOf,
  words
} from '../schema/answer.js'

const milliseconds = orNull({ ...number, minimum: 0 })

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

const NUMBERS_OF = object(NUMBERS)

const SECOND = titledObject('TrafficSecond', {
  at: time,
  ...NUMBERS,
  connections: { ...count, description: 'Open at its end.' },
  in_flight: count
})

/** Traffic by second. */
export const TRAFFIC = titledObject('Traffic', {
  seconds: listOf(SECOND, 'The oldest first.'),
  last_minute: object({
    seconds: { ...count, description: 'How many of them are known.' },
    ...NUMBERS,
    codes: { ...mapOf(count), description: 'What failed or was refused, by code.' }
  })
})

const MINUTES = titledObject('TrafficMinutes', {
  at: { ...time, description: 'When it ended.' },
  minutes: { ...count, description: 'How many minutes it holds.' },
  ...NUMBERS,
  durations: listOf(
    object({ below_ms: { ...number, description: 'Longer than all of them.' }, count }),
    'How many took so long: below this and not below half of it, the shortest first.'
  )
})

/** Traffic of a day. */
export const TRAFFIC_DAY = titledObject('TrafficDay', {
  steps: listOf(MINUTES, 'The oldest first; minutes before the start of the process are missing.'),
  compared: object({
    now: { ...orNull(MINUTES), description: 'The last five minutes.' },
    hour_ago: { ...orNull(MINUTES), description: 'The same an hour before; null: not known.' },
    day_ago: { ...orNull(MINUTES), description: 'The same a day before; null: not known.' }
  })
})

const RATES = object({ requests: count, failed: count, refused: count, client_errors: count })
const SERVER = object({ server: text, status: text, reason: orNull(text), since: orNull(time) })

const NAME = { ...text, description: 'Name for people; the id if it has none.' }

const BACKEND_FIELDS = {
  id: text,
  name: NAME,
  form: words(['address', 'response', 'files', 'tunnels', 'weighted', 'failover', 'missing']),
  to: orNull(text),
  servers: listOf(SERVER, 'As this process knows them.')
} as const
const BACKEND_ALONE = object(BACKEND_FIELDS)

/** A backend with its members. */
export interface MappedBackend extends ValueOf<typeof BACKEND_ALONE> {
  readonly members: readonly { readonly weight: number | null; readonly backend: MappedBackend }[]
}

const BACKEND = titledObject('MappedBackend', {
  ...BACKEND_FIELDS,
  members: listOf(
    object({ weight: orNull(integer), backend: ref<MappedBackend>('MappedBackend') }),
    'Of those that share traffic.'
  )
})

const MODULES = listOf(text, 'In no order of their own.')

const POLICIES = listOf(
  object({
    owner: { ...text, description: 'The route, edge or endpoint; default: the policy that the options name.' },
    source: { ...text, description: 'Where the text is, for people: a file and line, or a URI.' },
    lines: count
  }),
  'Those that run, in their order; GET /explain/policies/{owner} has their texts.'
)

const LISTENER = object({
  key: text,
  name: text,
  host: text,
  port: integer,
  tls: flag,
  public_port: orNull(integer)
})

const ROUTE = object({
  id: text,
  name: NAME,
  match: text,
  path: text,
  modules: MODULES,
  policies: POLICIES,
  rates: RATES,
  backend: orNull(BACKEND)
})

const EDGE = object({
  id: text,
  name: NAME,
  protocol: words(['http', 'https']),
  hosts: listOf(
    object({ host: text, port: integer, certificate: orNull(object({ id: text, not_after: time })) }),
    'Under which it is known.'
  ),
  every_host: { ...flag, description: 'Does it take each host that no other edge has?' },
  on_http: orNull(text),
  rates: RATES,
  routes: listOf(ROUTE)
})

const TCP_EDGE = object({
  id: text,
  name: NAME,
  protocol: {
    ...words(['tcp', 'tls']),
    description: 'tls: TLS listeners hand over its connections by server name, and its ports are theirs.'
  },
  ports: listOf(object({ host: text, port: integer })),
  modules: MODULES,
  policies: POLICIES,
  rates: RATES,
  backend: orNull(BACKEND)
})

/** The running configuration. */
export const TRAFFIC_MAP = titledObject('TrafficMap', {
  listeners: listOf(LISTENER, 'Where HTTP is accepted.'),
  edges: listOf(EDGE, 'What serves HTTP.'),
  tcp_edges: listOf(TCP_EDGE, 'What serves TCP.'),
  omitted: { ...count, description: 'Edges that are left out because there are too many.' }
})

/** Numbers that every span of traffic has. */
export type TrafficNumbersView = ValueOf<typeof NUMBERS_OF>
/** Traffic of one second. */
export type TrafficSecondView = ValueOf<typeof SECOND>
/** Traffic of some minutes. */
export type TrafficMinutesView = ValueOf<typeof MINUTES>
/** Traffic of the last seconds, one by one, and of the last minute. */
export type TrafficView = ValueOf<typeof TRAFFIC>
/** Traffic of the last day in steps. */
export type TrafficDayView = ValueOf<typeof TRAFFIC_DAY>
/** The running configuration, from listeners to backends. */
export type TrafficMap = ValueOf<typeof TRAFFIC_MAP>
