/** CEL type of a field of a traffic event. Times are RFC 3339 texts in the event itself. */
export type TrafficFieldType = 'string' | 'int' | 'bool' | 'timestamp' | 'list<dyn>' | 'map<string, list<string>>'

export interface TrafficField {
  readonly type: TrafficFieldType
  /** For people: what it means, and when it is null. */
  readonly description: string
}

const field = (type: TrafficFieldType, description: string): TrafficField => ({ type, description })

const BOTH = {
  'conn.client_ip': field('string', 'Address of the client; behind trusted proxies the one that they vouch for.'),
  'conn.server_ip': field('string', 'Address that the connection came to.'),
  'conn.server_name': field('string', 'Name that the client gave in its TLS handshake; empty without one.'),
  'conn.server_port': field('int', 'Port that the connection came to.'),
  'conn.start_ts': field('timestamp', 'When the connection was accepted.'),
  'edge.id': field('string', 'Id of the edge that served it; null when there was none.'),
  'error.code': field('string', 'Why Sluice refused it or it failed; null when it did not.'),
  'ip_policy.decision': field(
    'string',
    'allow or block, by the IP restriction of all endpoints when it refused, the module or the action restrict-ips; null when none of them judged.'
  ),
  ja4_fingerprint: field('string', 'Always null: this version does not compute it.'),
  'traffic_policy.decided_by.action': field(
    'string',
    'Type of the policy action that ended it; null when none did. So are the rule and the phase.'
  ),
  'traffic_policy.decided_by.phase': field('string', 'Phase of that action.'),
  'traffic_policy.decided_by.rule': field('string', 'Name of its rule, or # and its place.'),
  'traffic_policy.logs': field('list<dyn>', 'What log actions recorded; values that sound like secrets are replaced.')
} as const

const HTTP = {
  ...BOTH,
  'backend.connection_reused': field(
    'bool',
    'Had the connection to the upstream carried a request before? null without an ordinary answer of an upstream.'
  ),
  'basic_auth.decision': field('string', 'allow or block, by the action basic-auth; null when it did not run.'),
  'basic_auth.username': field('string', 'User name that was presented, right or wrong; null when there was none.'),
  'circuit_breaker.decision': field(
    'string',
    'allow, block or allow_while_open (not enforced), by module or action; null when neither ran.'
  ),
  'compression.algorithm': field(
    'string',
    'Content coding that Sluice applied, or none; null when no compression was configured.'
  ),
  'compression.bytes_saved': field(
    'int',
    'Bytes of the response body before the coding, less those after it; null when no compression was configured.'
  ),
  'edge.route_id': field('string', 'Id of the route that served it; null when there was none.'),
  'http.request.body_length': field('int', 'Bytes of the body that came; null for a request refused at its head.'),
  'http.request.headers': field(
    'map<string, list<string>>',
    'Fields as the client sent them, by lower-case name; the values of those that sound like secrets are replaced.'
  ),
  'http.request.method': field('string', 'As the client sent it.'),
  'http.request.url.host': field('string', 'Host, lower-case, without the port.'),
  'http.request.url.path': field('string', 'In its normal form; empty when it has none.'),
  'http.request.url.query': field('string', 'Without the values of parameters that sound like secrets.'),
  'http.request.url.raw': field('string', 'The whole URL, with the same query.'),
  'http.request.url.scheme': field('string', 'http or https.'),
  'http.request.user_agent': field('string', 'Value of User-Agent; empty without it.'),
  'http.response.body_length': field(
    'int',
    'Bytes of the body before compression; null when a policy wrote a body whose length nobody counts.'
  ),
  'http.response.headers': field('map<string, list<string>>', 'As those of the request.'),
  'http.response.status_code': field('int', '0 when the connection ended without an answer.'),
  'oauth.app_client_id': field('string', 'Client id of the application that users log in with; null without a login.'),
  'oauth.decision': field(
    'string',
    'allow or block (a login in progress too), by OAuth or OpenID Connect; null when neither was asked.'
  ),
  'oauth.user.id': field('string', 'Id that the provider gives to the user; null without a session.'),
  'oauth.user.name': field('string', 'Name of the user at the provider; null without a session.'),
  'rate_limit.decision': field(
    'string',
    'allow or block, by the last action rate-limit that ran, enforced or not; null when none did.'
  ),
  'tls.cipher_suite': field('string', 'Null without TLS.'),
  'tls.client_cert.serial_number': field('string', 'Hexadecimal; null when the client showed no certificate.'),
  'tls.client_cert.subject.cn': field('string', 'Null when the client showed no certificate or it has no common name.'),
  'tls.version': field('string', 'Such as TLSv1.3; null without TLS.'),
  'webhook_verification.decision': field(
    'string',
    'allow when the signature was right, else block, by module or action; null when neither ran.'
  )
} as const

const TCP = {
  ...BOTH,
  'conn.bytes_in': field('int', 'Bytes from the client.'),
  'conn.bytes_out': field('int', 'Bytes to the client.'),
  'conn.end_ts': field('timestamp', 'When the connection ended.')
} as const

/** Types of the events whose subscribers choose fields. */
export const HTTP_REQUEST_COMPLETE = 'http_request_complete.v0'
export const TCP_CONNECTION_CLOSED = 'tcp_connection_closed.v0'

type TrafficEventType = typeof HTTP_REQUEST_COMPLETE | typeof TCP_CONNECTION_CLOSED

/** The fields of each traffic event by their dotted paths. An event shows null for what does not apply to it. */
export const TRAFFIC_FIELDS: ReadonlyMap<string, Readonly<Record<string, TrafficField>>> = new Map<
  TrafficEventType,
  Readonly<Record<string, TrafficField>>
>([
  [HTTP_REQUEST_COMPLETE, HTTP],
  [TCP_CONNECTION_CLOSED, TCP]
])

/** All of it as a list in Markdown. */
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
