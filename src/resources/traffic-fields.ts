/** CEL type of a field of a traffic event. Times are RFC 3339 texts in the event itself. */
export type TrafficFieldType = 'string' | 'int' | 'bool' | 'timestamp' | 'list<dyn>' | 'map<string, list<string>>'

const HTTP = {
  'backend.connection_reused': 'bool',
  'basic_auth.decision': 'string',
  'basic_auth.username': 'string',
  'circuit_breaker.decision': 'string',
  'compression.algorithm': 'string',
  'compression.bytes_saved': 'int',
  'conn.client_ip': 'string',
  'conn.server_ip': 'string',
  'conn.server_name': 'string',
  'conn.server_port': 'int',
  'conn.start_ts': 'timestamp',
  'http.request.body_length': 'int',
  'http.request.headers': 'map<string, list<string>>',
  'http.request.method': 'string',
  'http.request.url.host': 'string',
  'http.request.url.path': 'string',
  'http.request.url.query': 'string',
  'http.request.url.raw': 'string',
  'http.request.url.scheme': 'string',
  'http.request.user_agent': 'string',
  'http.response.body_length': 'int',
  'http.response.headers': 'map<string, list<string>>',
  'http.response.status_code': 'int',
  'ip_policy.decision': 'string',
  ja4_fingerprint: 'string',
  'oauth.app_client_id': 'string',
  'oauth.decision': 'string',
  'oauth.user.id': 'string',
  'oauth.user.name': 'string',
  'tls.cipher_suite': 'string',
  'tls.client_cert.serial_number': 'string',
  'tls.client_cert.subject.cn': 'string',
  'tls.version': 'string',
  'traffic_policy.logs': 'list<dyn>',
  'webhook_verification.decision': 'string'
} as const satisfies Readonly<Record<string, TrafficFieldType>>

const TCP = {
  'conn.bytes_in': 'int',
  'conn.bytes_out': 'int',
  'conn.client_ip': 'string',
  'conn.end_ts': 'timestamp',
  'conn.server_ip': 'string',
  'conn.server_name': 'string',
  'conn.server_port': 'int',
  'conn.start_ts': 'timestamp',
  'ip_policy.decision': 'string',
  ja4_fingerprint: 'string',
  'traffic_policy.logs': 'list<dyn>'
} as const satisfies Readonly<Record<string, TrafficFieldType>>

/** Types of the events whose subscribers choose fields. */
export const HTTP_REQUEST_COMPLETE = 'http_request_complete.v0'
export const TCP_CONNECTION_CLOSED = 'tcp_connection_closed.v0'

export type TrafficEventType = typeof HTTP_REQUEST_COMPLETE | typeof TCP_CONNECTION_CLOSED

/** The fields of each traffic event by their dotted paths. An event shows null for what does not apply to it. */
export const TRAFFIC_FIELDS: ReadonlyMap<string, Readonly<Record<string, TrafficFieldType>>> = new Map<
  TrafficEventType,
  Readonly<Record<string, TrafficFieldType>>
>([
  [HTTP_REQUEST_COMPLETE, HTTP],
  [TCP_CONNECTION_CLOSED, TCP]
])
