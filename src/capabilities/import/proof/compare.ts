import type { ReceivedRequest } from './recorder.js'
import { PROOF_FIELD } from './recorder.js'
import type { ProofRequest } from './requests.js'
import type { ProofAnswer } from './send.js'

/** One difference of two answers, or of what their upstreams received. */
export interface Difference {
  readonly aspect: 'status' | 'field' | 'body' | 'upstream'
  /** Name of the field; of the part of the request for upstreams. */
  readonly name: string
  readonly old: string
  readonly now: string
}

/** Fields that name the server, the moment or the connection, and say nothing about the configuration. */
const OWN_FIELDS = new Set(
  `date server connection keep-alive content-length transfer-encoding etag accept-ranges via x-request-id sluice-error-code
  alt-svc sec-websocket-accept`.split(/\s+/)
)
/** Fields of requests that each server writes in its own way. */
const OWN_REQUEST_FIELDS = new Set(
  `${PROOF_FIELD} connection via x-request-id forwarded x-forwarded-for x-forwarded-proto x-forwarded-host x-forwarded-port
  transfer-encoding content-length keep-alive traceparent`.split(/\s+/)
)
/** Fields of a page that a server makes for a status. */
const PAGE_FIELDS = new Set(['content-type', 'x-content-type-options'])
/** A page that nginx makes for a status, or the line that the HTTP server of Go has for what is no request. */
const OWN_PAGE = /^(?:<html>\r?\n<head><title>\d{3} |400 Bad Request)/

/** Differences of two answers. `ports`: those of both servers, which a Location may have. */
export function compareAnswers(
  request: ProofRequest,
  old: ProofAnswer,
  now: ProofAnswer,
  ports: readonly string[]
): Difference[] {
  if (old.status !== now.status)
    return [{ aspect: 'status', name: 'status', old: statusText(old), now: statusText(now) }]
  const differences: Difference[] = []
  const names = new Set([...Object.keys(old.fields), ...Object.keys(now.fields)])
  const hasOwnPage = OWN_PAGE.test(old.body.toString('latin1'))
  // Each server has its own page for an error, and nginx gives an empty body a type.
  const isPage =
    (hasOwnPage || old.status >= 300) && (now.fields['sluice-error-code'] !== undefined || now.body.length === 0)
  for (const name of names) {
    if (OWN_FIELDS.has(name) || (isPage && PAGE_FIELDS.has(name))) continue
    const [before, after] = [
      normal(name, old.fields[name], request, ports),
      normal(name, now.fields[name], request, ports)
    ]
    if (before !== after) differences.push({ aspect: 'field', name, old: before, now: after })
  }
  const hasPage = hasOwnPage || (isPage && old.status >= 400 && old.body.length === 0)
  if (!hasPage && !old.body.equals(now.body) && request.method !== 'HEAD') {
    differences.push({ aspect: 'body', name: 'body', old: bodyText(old.body), now: bodyText(now.body) })
  }
  return differences
}

const statusText = ({ status, failure }: ProofAnswer) => (status === 0 ? `no answer (${failure})` : String(status))
const bodyText = (body: Buffer) => `${body.length} bytes ${JSON.stringify(body.toString('latin1', 0, 40))}`

function normal(
  name: string,
  value: string | undefined,
  { host, target }: ProofRequest,
  ports: readonly string[]
): string {
  if (value === undefined) return '(none)'
  if (name === 'vary') return [...new Set(value.toLowerCase().split(/\s*,\s*/))].sort().join(', ')
  if (name === 'content-type') return value.toLowerCase().replace(/;\s*/, '; ')
  if (name !== 'location' || !URL.canParse(value, `http://${host}${target}`)) return value
  const url = new URL(value, `http://${host}${target}`)
  if (ports.includes(url.port)) url.port = ''
  return url.href
}

/** Differences of what the upstreams received. */
export function compareReceived(old: ReceivedRequest | undefined, now: ReceivedRequest | undefined): Difference[] {
  const difference = (name: string, before = '(none)', after = '(none)'): Difference[] =>
    before === after ? [] : [{ aspect: 'upstream', name, old: before, now: after }]
  if (old === undefined || now === undefined || old.upstream !== now.upstream)
    return difference('upstream', old?.upstream, now?.upstream)
  const names = new Set(
    [...Object.keys(old.fields), ...Object.keys(now.fields)].filter((name) => !OWN_REQUEST_FIELDS.has(name))
  )
  return [
    ...difference('method', old.method, now.method),
    ...difference('target', old.target, now.target),
    ...difference('body', old.body, now.body),
    ...[...names].flatMap((name) => {
      const before = old.fields[name]
      // Caddy requests gzip for itself where the client has not, and decodes it.
      const isOwn = name === 'accept-encoding' && before === 'gzip' && now.fields[name] === undefined
      return isOwn ? [] : difference(name, before, now.fields[name])
    })
  ]
}
