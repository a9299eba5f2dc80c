import { X509Certificate } from 'node:crypto'
import type { Body, Outgoing } from '../flow/body.js'
import type { HeaderList } from '../flow/headers.js'
import { savingOf } from '../policy/actions/compressor.js'
import { applicationOf } from '../policy/login/gate.js'
import type { ExchangeRecord } from './access-log.js'
import { FAILURES } from './failures.js'
import { decision, type FieldReaders, FLOW_FIELDS, published } from './flow-fields.js'
import { isSensitive, REDACTED, redactUrl, shownQuery } from './redaction.js'

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
  const asked = code === 'LOGIN_UNAVAILABLE' || (flow !== undefined && applicationOf(flow) !== undefined)
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
