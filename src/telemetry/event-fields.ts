import { X509Certificate } from 'node:crypto'
import { savingOf } from '../features/compression/compressor.js'
import { loginErrors } from '../features/login/answers.js'
import { applicationOf } from '../features/login/gate.js'
import { FAILURES, requestErrors } from '../flow/error-codes.js'
import type { Body, ConnectionFacts, Outgoing } from '../flow/exchange.js'
import type { Flow } from '../flow/flow.js'
import type { HeaderList } from '../flow/headers.js'
import { unmapIpv4 } from '../lib/ip.js'
import type { ExchangeRecord } from './access-log.js'
import type { ConnectionRecord } from './connection-log.js'
import { isSensitive, REDACTED, redact, redactUrl, shownQuery } from './redaction.js'

/** What is known of an exchange and of a connection to a TCP edge alike. */
interface FlowRecord {
  readonly connection: ConnectionFacts
  readonly flow: Flow | undefined
  /** Why Sluice refused it. */
  readonly code: string | undefined
}

/** Values of the fields of one event by their dotted paths; null for what does not apply. */
type FieldReaders<R> = Readonly<Record<string, (record: R) => unknown>>

/** Fields of both events of traffic. */
const FLOW_FIELDS: FieldReaders<FlowRecord> = {
  'conn.client_ip': ({ connection, flow }) => flow?.clientAddress ?? unmapIpv4(connection.peer.address),
  'conn.server_ip': ({ connection }) => unmapIpv4(connection.local.address),
  'conn.server_name': ({ connection }) => connection.tls?.sni ?? '',
  'conn.server_port': ({ connection }) => connection.local.port,
  'conn.start_ts': ({ connection }) => timeText(connection.startedAt),
  'ip_policy.decision': ipDecision,
  ja4_fingerprint: () => null,
  'traffic_policy.decided_by.action': ({ flow }) => flow?.decidedBy?.action ?? null,
  'traffic_policy.decided_by.phase': ({ flow }) => flow?.decidedBy?.phase ?? null,
  'traffic_policy.decided_by.rule': ({ flow }) => flow?.decidedBy?.rule ?? null,
  'traffic_policy.logs': ({ flow }) => (flow?.logs ?? []).map((entry) => redact(entry, 0))
}

/** What an action or a module published under this name when it ran last. */
function published(flow: Flow | undefined, name: string): Readonly<Record<string, unknown>> | undefined {
  return flow?.results?.get(name)
}

/** The word for a decision; null when none was taken. */
function decision(passes: boolean | undefined): 'allow' | 'block' | null {
  return passes === undefined ? null : passes ? 'allow' : 'block'
}

/** RFC 3339; `at`: milliseconds since the Unix epoch. */
function timeText(at: number): string {
  return new Date(at).toISOString()
}

function ipDecision({ flow, code }: FlowRecord): string | null {
  const found = [published(flow, 'ip_policy')?.decision, published(flow, 'restrict_ips')?.action]
  if (code === requestErrors.restricted.code || found.includes('deny')) return decision(false)
  return decision(found.includes('allow') ? true : undefined)
}

/** The fields of `http_request_complete.v0`. */
export const EXCHANGE_FIELDS: FieldReaders<ExchangeRecord> = {
  ...FLOW_FIELDS,
  'backend.connection_reused': ({ reusedConnection }) => reusedConnection ?? null,
  'basic_auth.decision': ({ flow }) => decision(flag(published(flow, 'basic_auth')?.['credentials.authorized'])),
  'basic_auth.username': ({ flow }) => {
    const found = published(flow, 'basic_auth')
    return found?.['credentials.presented'] === true ? found['credentials.username'] : null
  },
  'circuit_breaker.decision': ({ flow }) => published(flow, 'circuit_breaker')?.decision ?? null,
  'compression.algorithm': ({ flow }) => {
    const saving = flow === undefined ? undefined : savingOf(flow)
    return saving === undefined ? null : (saving.coding ?? 'none')
  },
  'compression.bytes_saved': ({ flow }) => (flow === undefined ? null : (savingOf(flow)?.bytesSaved ?? null)),
  'edge.id': ({ route }) => route?.edge ?? null,
  'edge.route_id': ({ route }) => route?.id ?? null,
  'error.code': ({ code, sent }) => code ?? (sent.failure === undefined ? null : FAILURES[sent.failure].code),
  'http.request.body_length': ({ flow }) => (flow?.request === undefined ? null : lengthOf(flow.request.body)),
  'http.request.headers': ({ request }) => fieldsOf(request.headers),
  'http.request.method': ({ request }) => request.method,
  'http.request.url.host': ({ request, flow }) => flow?.request?.target.host ?? request.authority,
  'http.request.url.path': pathOf,
  'http.request.url.query': queryOf,
  'http.request.url.raw': (record) => {
    const { scheme, authority } = record.request
    const query = queryOf(record)
    return `${scheme}://${authority}${pathOf(record)}${query === '' ? '' : `?${query}`}`
  },
  'http.request.url.scheme': ({ request }) => request.scheme,
  'http.request.user_agent': ({ request }) => firstOf(request.headers, 'user-agent'),
  'http.response.body_length': ({ flow }) => lengthOf(flow?.response?.body),
  'http.response.headers': ({ flow }) => (flow?.response === undefined ? {} : fieldsOf(flow.response.headers.list)),
  'http.response.status_code': ({ status }) => status,
  'oauth.app_client_id': ({ flow }) => (flow === undefined ? null : (applicationOf(flow) ?? null)),
  'oauth.decision': loginDecision,
  'oauth.user.id': ({ flow }) => identity(flow, 'identity.provider_user_id'),
  'oauth.user.name': ({ flow }) => identity(flow, 'identity.name'),
  'rate_limit.decision': ({ flow }) => {
    const limited = flag(published(flow, 'rate_limit')?.limited)
    return decision(limited === undefined ? undefined : !limited)
  },
  'tls.cipher_suite': ({ connection }) => connection.tls?.cipher ?? null,
  'tls.client_cert.serial_number': ({ connection }) => certificateOf(connection.tls)?.serialNumber ?? null,
  'tls.client_cert.subject.cn': ({ connection }) => certificateOf(connection.tls)?.commonName ?? null,
  'tls.version': ({ connection }) => connection.tls?.version ?? null,
  'webhook_verification.decision': ({ flow, code }) => {
    const verified = flag(published(flow, 'verify_webhook')?.verified)
    return decision(verified ?? (code?.startsWith('WEBHOOK_') === true ? false : undefined))
  }
}

const LOGINS = ['oauth', 'oidc']

function loginDecision({ flow, code }: ExchangeRecord): string | null {
  const found = LOGINS.map((name) => published(flow, name)).filter((results) => results !== undefined)
  if (found.length > 0) return decision(found.every((results) => results['error.code'] === ''))
  // Answers on the way of a login, and gates that cannot work, publish nothing.
  const asked = code === loginErrors.LOGIN_UNAVAILABLE.code || (flow !== undefined && applicationOf(flow) !== undefined)
  return decision(asked ? false : undefined)
}

function identity(flow: ExchangeRecord['flow'], name: string): unknown {
  for (const login of LOGINS) {
    const value = published(flow, login)?.[name]
    if (value !== undefined) return value
  }
  return null
}

function flag(value: unknown): boolean | undefined {
  return typeof value === 'boolean' ? value : undefined
}

function pathOf({ flow }: ExchangeRecord): string {
  return flow?.request?.target.path ?? ''
}

function queryOf({ flow }: ExchangeRecord): string {
  return shownQuery(flow) ?? ''
}

/** Bytes that went through, as far as they were counted. */
function lengthOf(body: Body | Outgoing | undefined): number | null {
  if (body === undefined) return 0
  if (body instanceof Uint8Array) return body.length
  return 'bytes' in body ? body.bytes : null
}

/** By lower-case name; the values of fields, and of parameters in them, that sound like secrets are replaced. */
function fieldsOf(list: HeaderList): Readonly<Record<string, readonly string[]>> {
  // Without a prototype no name is special.
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

function firstOf(list: HeaderList, name: string): string {
  for (let i = 0; i < list.length; i += 2) {
    if ((list[i] as string).toLowerCase() === name) return list[i + 1] as string
  }
  return ''
}

interface ClientCertificate {
  /** Hexadecimal, lower-case, as policies see it. */
  readonly serialNumber: string
  readonly commonName: string | null
}

function certificateOf(tls: ExchangeRecord['connection']['tls']): ClientCertificate | undefined {
  if (tls?.clientCertificate === undefined) return undefined
  try {
    const certificate = new X509Certificate(tls.clientCertificate)
    // A name with several common names has a list here, whatever the type says.
    const names: string | string[] | undefined = certificate.toLegacyObject().subject?.CN
    return {
      serialNumber: certificate.serialNumber.toLowerCase().replace(/^(?:00)+(?=.)/, ''),
      commonName: (Array.isArray(names) ? names[0] : names) ?? null
    }
  } catch {
    // The handshake took it unverified; what is no certificate has no fields.
    return undefined
  }
}

/** The fields of `tcp_connection_closed.v0`. */
export const CONNECTION_FIELDS: FieldReaders<ConnectionRecord> = {
  ...FLOW_FIELDS,
  'conn.bytes_in': ({ connection }) => connection.bytesIn,
  'conn.bytes_out': ({ connection }) => connection.bytesOut,
  'conn.end_ts': ({ connection, duration }) => timeText(connection.startedAt + duration),
  'edge.id': ({ edge }) => edge,
  'error.code': ({ code }) => code ?? null
}

const EXCHANGE = 'http_request_complete.v0'
const CONNECTION = 'tcp_connection_closed.v0'

/** Takes the events of traffic. Must not throw or block. */
export interface EventSink {
  /** Does a subscription take this type? */
  wants(type: string): boolean
  /** `read` answers the value of a field by its dotted path; null or undefined when it has none, and goes on to answer the same. */
  put(type: string, read: (path: string) => unknown): void
}

/** Reports traffic to the subscriptions that take it. Without one it gathers nothing. */
export class TrafficEventSource {
  readonly #sink: EventSink

  constructor(sink: EventSink) {
    this.#sink = sink
  }

  exchange(record: ExchangeRecord): void {
    if (this.#sink.wants(EXCHANGE)) this.#sink.put(EXCHANGE, (path) => EXCHANGE_FIELDS[path]?.(record))
  }

  connection(record: ConnectionRecord): void {
    if (this.#sink.wants(CONNECTION)) this.#sink.put(CONNECTION, (path) => CONNECTION_FIELDS[path]?.(record))
  }
}
