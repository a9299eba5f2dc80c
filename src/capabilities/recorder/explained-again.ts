import { REDACTED } from '../../telemetry/redaction.js'
import type { ExchangeView } from './answers.js'

/** Header fields that the transport writes for each request. */
const TRANSPORT_FIELDS: ReadonlySet<string> = new Set([
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'host'
])

/** Body of `POST /explain` for a recorded request. */
export interface RecordedRequest {
  readonly url: string
  readonly method: string
  readonly client_ip: string
  readonly http_version: string
  readonly headers: Readonly<Record<string, readonly string[]>>
  readonly body?: string
}

/**
 * Returns the recorded request as `POST /explain` takes it. Fields with redacted values, pseudo-header fields, fields of the transport and
 * bodies that were not kept in full are left out.
 */
export function recordedRequest({ method, url, client_ip, http_version, request }: ExchangeView): RecordedRequest {
  // A field may be called `__proto__`.
  const headers = Object.create(null) as Record<string, string[]>
  for (let i = 0; i < request.headers.length; i += 2) {
    const name = (request.headers[i] ?? '').toLowerCase()
    const value = request.headers[i + 1] ?? ''
    if (TRANSPORT_FIELDS.has(name) || name.startsWith(':') || value.includes(REDACTED)) continue
    headers[name] = [...(headers[name] ?? []), value]
  }
  const { body } = request
  const content = body?.whole === true ? body.text : undefined
  return {
    url: url.split(REDACTED).join('redacted'),
    method,
    client_ip,
    http_version,
    headers,
    ...(content === undefined ? {} : { body: content })
  }
}
