import { X509Certificate } from 'node:crypto'
import type { EventField, EventFields, EventFieldType } from '../features/contract.js'
import { features } from '../features/registry.js'
import { FAILURES } from '../flow/error-codes.js'
import { type Body, type Outgoing, sniOf } from '../flow/exchange.js'
import { HeaderFields, type HeaderList } from '../flow/headers.js'
import { canonicalAddress } from '../lib/ip.js'
import type { ConnectionRecord, ExchangeRecord } from './access-log.js'
import { isSensitive, REDACTED, redact, redactUrl, shownQuery } from './redaction.js'

function field<R>(type: EventFieldType, description: string, read: (record: R) => unknown): EventField<R> {
  return { type, description, read }
}

/** Fields of both traffic events. */
const FLOW_FIELDS: EventFields = {
  'conn.client_ip': field(
    'string',
    'Address of the client; behind trusted proxies the one that they vouch for.',
    ({ connection, flow }) => flow?.clientAddress ?? canonicalAddress(connection.peer.address)
  ),
  'conn.server_ip': field('string', 'Address that the connection came to.', ({ connection }) =>
    canonicalAddress(connection.local.address)
  ),
  'conn.server_name': field(
    'string',
    'Name that the client gave in its TLS handshake; empty without one.',
    ({ connection }) => sniOf(connection) ?? ''
  ),
  'conn.server_port': field('int', 'Port that the connection came to.', ({ connection }) => connection.local.port),
  'conn.start_ts': field('timestamp', 'When the connection was accepted.', ({ connection }) =>
    timeText(connection.startedAt)
  ),
  ja4_fingerprint: field('string', 'Always null: this version does not compute it.', () => null),
  'configuration.revision': field(
    'int',
    'Revision of the account that served it: the number of /revisions, the log and the metrics.',
    ({ revision }) => revision
  ),
  'traffic_policy.decided_by.action': field(
    'string',
    'Type of the policy action that ended it; null when none did. So are the rule and the phase.',
    ({ flow }) => flow?.decidedBy?.action ?? null
  ),
  'traffic_policy.decided_by.phase': field(
    'string',
    'Phase of that action.',
    ({ flow }) => flow?.decidedBy?.phase ?? null
  ),
  'traffic_policy.decided_by.rule': field(
    'string',
    'Name of its rule, or # and its place.',
    ({ flow }) => flow?.decidedBy?.rule ?? null
  ),
  'traffic_policy.logs': field(
    'list<dyn>',
    'What log actions recorded; values that sound like secrets are replaced.',
    ({ flow }) => (flow?.logs ?? []).map((entry) => redact(entry, 0))
  )
}

/** Formats milliseconds since the Unix epoch by RFC 3339. */
function timeText(at: number): string {
  return new Date(at).toISOString()
}

const HTTP_FIELDS: EventFields<ExchangeRecord> = {
  'backend.connection_reused': field(
    'bool',
    'Had the connection to the upstream carried a request before? null without an ordinary answer of an upstream.',
    ({ reusedConnection }) => reusedConnection ?? null
  ),
  'edge.id': field(
    'string',
    'Id of the edge that served it; null when there was none.',
    ({ route }) => route?.edge ?? null
  ),
  'edge.name': field(
    'string',
    'Name of the site whose host the request has, such as shop.example.com; null when there was none.',
    ({ site }) => site ?? null
  ),
  'edge.route_id': field(
    'string',
    'Id of the route that served it; null when there was none.',
    ({ route }) => route?.id ?? null
  ),
  'edge.route_name': field(
    'string',
    'Name of the route, such as shop.example.com/api/; null when there was none.',
    ({ routeName }) => routeName ?? null
  ),
  'error.code': field(
    'string',
    'Why Sluice refused it or it failed; null when it did not.',
    ({ code, sent }) => code ?? (sent.failure === undefined ? null : FAILURES[sent.failure].code)
  ),
  'http.request.body_length': field(
    'int',
    'Bytes of the body that came; null for a request refused at its head.',
    ({ flow }) => (flow?.request === undefined ? null : lengthOf(flow.request.body))
  ),
  'http.request.headers': field(
    'map<string, list<string>>',
    'Fields as the client sent them, by lower-case name; the values of those that sound like secrets are replaced.',
    ({ request }) => fieldsOf(request.headers)
  ),
  'http.request.id': field(
    'string',
    'x-request-id towards the upstream, in the log and in error answers; null for a request that was not admitted.',
    ({ flow }) => flow?.requestId ?? null
  ),
  'http.request.method': field('string', 'As the client sent it.', ({ request }) => request.method),
  'http.request.url.host': field(
    'string',
    'Host, lower-case, without the port.',
    ({ request, flow }) => flow?.request?.target.host ?? request.authority
  ),
  'http.request.url.path': field('string', 'In its normal form; empty when it has none.', pathOf),
  'http.request.url.query': field('string', 'Without the values of parameters that sound like secrets.', queryOf),
  'http.request.url.raw': field('string', 'The whole URL, with the same query.', (record) => {
    const { scheme, authority } = record.request
    const query = queryOf(record)
    return `${scheme}://${authority}${pathOf(record)}${query === '' ? '' : `?${query}`}`
  }),
  'http.request.url.scheme': field('string', 'http or https.', ({ request }) => request.scheme),
  'http.request.user_agent': field(
    'string',
    'Value of User-Agent; empty without it.',
    ({ request }) => new HeaderFields(request.headers).get('user-agent') ?? ''
  ),
  'http.response.body_length': field(
    'int',
    'Bytes of the body before compression; null when a policy wrote a body whose length nobody counts.',
    ({ flow }) => lengthOf(flow?.response?.body)
  ),
  'http.response.headers': field('map<string, list<string>>', 'As those of the request.', ({ flow }) =>
    flow?.response === undefined ? {} : fieldsOf(flow.response.headers.list)
  ),
  'http.response.status_code': field('int', '0 when the connection ended without an answer.', ({ status }) => status),
  'tls.cipher_suite': field('string', 'Null without TLS.', ({ connection }) => connection.tls?.cipher ?? null),
  'tls.client_cert.serial_number': field(
    'string',
    'Hexadecimal; null when the client showed no certificate.',
    ({ connection }) => certificateOf(connection.tls)?.serialNumber ?? null
  ),
  'tls.client_cert.subject.cn': field(
    'string',
    'Null when the client showed no certificate or it has no common name.',
    ({ connection }) => certificateOf(connection.tls)?.commonName ?? null
  ),
  'tls.version': field(
    'string',
    'Such as TLSv1.3; null without TLS.',
    ({ connection }) => connection.tls?.version ?? null
  )
}

function pathOf({ flow }: ExchangeRecord): string {
  return flow?.request?.target.path ?? ''
}

function queryOf({ flow }: ExchangeRecord): string {
  return shownQuery(flow) ?? ''
}

/** Returns the counted bytes of a body. */
function lengthOf(body: Body | Outgoing | undefined): number | null {
  if (body === undefined) return 0
  if (body instanceof Uint8Array) return body.length
  return 'bytes' in body ? body.bytes : null
}

/** Returns fields by lower-case name, with sensitive values redacted. */
function fieldsOf(list: HeaderList): Readonly<Record<string, readonly string[]>> {
  // An object without a prototype has no special names.
  const fields = Object.create(null) as Record<string, string[]>
  for (let i = 0; i < list.length; i += 2) {
    const name = (list[i] as string).toLowerCase()
    const value = isSensitive(name) ? REDACTED : redactUrl(list[i + 1] as string)
    const values = fields[name]
    if (values === undefined) fields[name] = [value]
    else values.push(value)
  }
  return fields
}

interface ClientCertificate {
  /** Lower-case hexadecimal, as in policies. */
  readonly serialNumber: string
  readonly commonName: string | null
}

function certificateOf(tls: ExchangeRecord['connection']['tls']): ClientCertificate | undefined {
  if (tls?.clientCertificate === undefined) return undefined
  try {
    const certificate = new X509Certificate(tls.clientCertificate)
    // A subject with several common names has a list here, despite the type.
    const names: string | string[] | undefined = certificate.toLegacyObject().subject?.CN
    return {
      serialNumber: certificate.serialNumber.toLowerCase().replace(/^(?:00)+(?=.)/, ''),
      commonName: (Array.isArray(names) ? names[0] : names) ?? null
    }
  } catch {
    // The handshake accepted it unverified; invalid certificates have no fields.
    return undefined
  }
}

/** Upstream fields of both events. */
const UPSTREAM_FIELDS: EventFields<Pick<ExchangeRecord, 'tries'>> = {
  'upstream.backend': field(
    'string',
    'Id of the backend that was tried last; null when none was. So is the server.',
    ({ tries }) => tries?.last?.backend ?? null
  ),
  'upstream.name': field('string', 'Name of that backend.', ({ tries }) => tries?.last?.name ?? null),
  'upstream.server': field(
    'string',
    'Its URL, or the tunnels that it stands for.',
    ({ tries }) => tries?.last?.server ?? null
  ),
  'upstream.tries': field(
    'list<dyn>',
    'The first nine tries and the last one: backend, its name, server, status or failure, and milliseconds from the beginning of the try: connect_ms (of a connection that was opened for it), first_byte_ms.',
    ({ tries }) => tries?.shown ?? []
  ),
  'upstream.try_count': field('int', 'How often a server was tried.', ({ tries }) => tries?.count ?? 0)
}

const TCP_FIELDS: EventFields<ConnectionRecord> = {
  'conn.bytes_in': field('int', 'Bytes from the client.', ({ connection }) => connection.bytesIn),
  'conn.bytes_out': field('int', 'Bytes to the client.', ({ connection }) => connection.bytesOut),
  'conn.end_ts': field('timestamp', 'When the connection ended.', ({ connection, duration }) =>
    timeText(connection.startedAt + duration)
  ),
  'edge.id': field('string', 'Id of the edge that served it; null when there was none.', ({ edge }) => edge),
  'edge.name': field(
    'string',
    'Name of the site, such as db.example.com:5432; null when there was none.',
    ({ site }) => site ?? null
  ),
  'error.code': field('string', 'Why Sluice refused it or it failed; null when it did not.', ({ code }) => code ?? null)
}

/** Joins field tables, sorted by path. Throws if a path is declared twice. */
function joined<R>(...tables: readonly EventFields<R>[]): EventFields<R> {
  const fields = tables.flatMap((table) => Object.entries(table)).sort(([a], [b]) => (a < b ? -1 : 1))
  const twice = fields.find(([path], i) => fields[i + 1]?.[0] === path)
  if (twice !== undefined) throw new Error(`the field ${twice[0]} of events is declared twice`)
  return Object.fromEntries(fields)
}

/** Puts the common fields first, because events are written in the order of their fields. */
function commonFirst<R>(fields: EventFields<R>, other: EventFields<never>): EventFields<R> {
  const entries = Object.entries(fields)
  const [common, own] = [true, false].map((both) => entries.filter(([path]) => path in other === both))
  return Object.fromEntries([...(common ?? []), ...(own ?? [])])
}

const fieldsOfFeatures = features.flatMap(({ eventFields }) => (eventFields === undefined ? [] : [eventFields]))
const ofConnections = fieldsOfFeatures.map(({ connection = {} }) => connection)
const ofExchanges = fieldsOfFeatures.map(({ http = {} }) => http)
const onExchanges = joined<ExchangeRecord>(FLOW_FIELDS, HTTP_FIELDS, UPSTREAM_FIELDS, ...ofConnections, ...ofExchanges)
const onConnections = joined<ConnectionRecord>(FLOW_FIELDS, TCP_FIELDS, UPSTREAM_FIELDS, ...ofConnections)

const EXCHANGE_FIELDS = commonFirst(onExchanges, onConnections)
const CONNECTION_FIELDS = commonFirst(onConnections, onExchanges)

/** Type of the event for a finished HTTP exchange; subscribers choose its fields. */
export const HTTP_REQUEST_COMPLETE = 'http_request_complete.v0'
/** Type of the event for a closed connection to a TCP edge; subscribers choose its fields. */
export const TCP_CONNECTION_CLOSED = 'tcp_connection_closed.v0'

export interface TrafficField {
  readonly type: EventFieldType
  /** Content of the field, and when it is null. */
  readonly description: string
}

/** Fields of each traffic event by their dotted paths. A field that does not apply is null. */
export const TRAFFIC_FIELDS: ReadonlyMap<string, Readonly<Record<string, TrafficField>>> = new Map<
  string,
  Readonly<Record<string, TrafficField>>
>([
  [HTTP_REQUEST_COMPLETE, EXCHANGE_FIELDS],
  [TCP_CONNECTION_CLOSED, CONNECTION_FIELDS]
])

/** Returns all fields as a Markdown list. */
export function trafficFieldsText(): string {
  const lines: string[] = []
  for (const [type, fields] of TRAFFIC_FIELDS) {
    lines.push('', `Fields of ${type}:`, '')
    for (const path of Object.keys(fields).sort()) {
      const { type: of, description } = fields[path] as TrafficField
      lines.push(`- \`${path}\` (${of}): ${description}`)
    }
  }
  return lines.join('\n')
}

/** Receives traffic events. Must not throw or block. */
export interface EventSink {
  /** Returns true if a subscription includes this type. */
  wants(type: string): boolean
  /** `read` returns the value of a field by its dotted path, null or undefined for none; it keeps returning the same values. */
  put(type: string, read: (path: string) => unknown): void
}

/** Reports traffic to subscriptions. Collects nothing without one. */
export class TrafficEventSource {
  readonly #sink: EventSink

  constructor(sink: EventSink) {
    this.#sink = sink
  }

  /** Returns true if a subscription includes HTTP exchanges. */
  get wantsExchanges(): boolean {
    return this.#sink.wants(HTTP_REQUEST_COMPLETE)
  }

  /** Returns true if a subscription includes connections to TCP edges. */
  get wantsConnections(): boolean {
    return this.#sink.wants(TCP_CONNECTION_CLOSED)
  }

  exchange(record: ExchangeRecord): void {
    if (this.#sink.wants(HTTP_REQUEST_COMPLETE))
      this.#sink.put(HTTP_REQUEST_COMPLETE, (path) => EXCHANGE_FIELDS[path]?.read(record))
  }

  connection(record: ConnectionRecord): void {
    if (this.#sink.wants(TCP_CONNECTION_CLOSED))
      this.#sink.put(TCP_CONNECTION_CLOSED, (path) => CONNECTION_FIELDS[path]?.read(record))
  }
}
