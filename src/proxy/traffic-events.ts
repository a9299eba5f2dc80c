import type { Body, Outgoing } from '../exchange/body.js'
import type { HeaderList } from '../exchange/headers.js'
import { type ExchangeRecord, redact, redactQuery } from './access-log.js'
import type { ConnectionRecord } from './connection-log.js'

const EXCHANGE = 'http_request_complete.v0'
const CONNECTION = 'tcp_connection_closed.v0'

/** Takes the events of traffic: values by the dotted paths of their fields. Must not throw or block. */
export interface EventSink {
  /** Does anybody subscribe to this type? */
  wants(type: string): boolean
  put(type: string, values: Readonly<Record<string, unknown>>): void
}

/** Says what went through, to whom subscribes to it. While nobody does, it gathers nothing. */
export class TrafficEvents {
  readonly #sink: EventSink

  constructor(sink: EventSink) {
    this.#sink = sink
  }

  exchange(record: ExchangeRecord): void {
    if (this.#sink.wants(EXCHANGE)) this.#sink.put(EXCHANGE, exchangeValues(record))
  }

  connection(record: ConnectionRecord): void {
    if (this.#sink.wants(CONNECTION)) this.#sink.put(CONNECTION, connectionValues(record))
  }
}

function exchangeValues({ connection, request, flow, status }: ExchangeRecord): Record<string, unknown> {
  const target = flow?.request?.target
  const query = target?.query === undefined ? '' : redactQuery(target.query)
  const path = target?.path ?? ''
  const headers = fieldsOf(request.headers)
  return {
    ...connectionFields({ connection, flow }),
    'http.request.body_length': lengthOf(flow?.request?.body),
    'http.request.headers': headers,
    'http.request.method': request.method,
    'http.request.url.host': target?.host ?? request.authority,
    'http.request.url.path': path,
    'http.request.url.query': query,
    'http.request.url.raw': `${request.scheme}://${request.authority}${path}${query === '' ? '' : `?${query}`}`,
    'http.request.url.scheme': request.scheme,
    'http.request.user_agent': headers['user-agent']?.[0] ?? '',
    'http.response.body_length': lengthOf(flow?.response?.body),
    'http.response.headers': flow?.response === undefined ? {} : fieldsOf(flow.response.headers.list),
    'http.response.status_code': status
  }
}

function connectionValues({ connection, flow, duration }: ConnectionRecord): Record<string, unknown> {
  return {
    ...connectionFields({ connection, flow }),
    'conn.bytes_in': connection.bytesIn,
    'conn.bytes_out': connection.bytesOut,
    'conn.end_ts': new Date(connection.startedAt + duration).toISOString()
  }
}

function connectionFields({ connection, flow }: Pick<ExchangeRecord, 'connection' | 'flow'>): Record<string, unknown> {
  const { local, startedAt, tls, peer } = connection
  return {
    'conn.client_ip': flow?.clientAddress ?? peer.address,
    'conn.server_ip': local.address,
    'conn.server_name': tls?.sni ?? '',
    'conn.server_port': local.port,
    'conn.start_ts': new Date(startedAt).toISOString(),
    'tls.cipher_suite': tls?.cipher,
    'tls.version': tls?.version,
    'traffic_policy.logs': (flow?.logs ?? []).map((entry) => redact(entry, 0))
  }
}

/** Bytes that went through, as far as they were counted. */
function lengthOf(body: Body | Outgoing | undefined): number | null {
  if (body === undefined) return 0
  if (body instanceof Uint8Array) return body.length
  return 'bytes' in body ? body.bytes : null
}

/** By lower-case name; the values of fields that sound like secrets are replaced. */
function fieldsOf(list: HeaderList): Record<string, string[]> {
  const fields = new Map<string, string[]>()
  for (let i = 0; i < list.length; i += 2) {
    const name = (list[i] as string).toLowerCase()
    const values = fields.get(name)
    if (values === undefined) fields.set(name, [list[i + 1] as string])
    else values.push(list[i + 1] as string)
  }
  return redact(Object.fromEntries(fields), 0) as Record<string, string[]>
}
