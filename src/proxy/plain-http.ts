import { type FailureAnswer, requestErrors } from '../flow/error-codes.js'
import { type Flow, type FlowRequest, isInternal } from '../flow/flow.js'
import { isSecure, ownPath } from '../flow/reserved-paths.js'
import { formatAuthority } from '../lib/host.js'
import type { EdgeAt } from '../runtime/http-edges.js'
import type { HttpsPlace } from '../runtime/https.js'
import type { Snapshot } from '../runtime/snapshot.js'

const HTTPS_PORT = 443

type RequestFlow = Flow & { readonly request: FlowRequest }

/** Response to a request without TLS for an HTTPS name. */
export type PlainAnswer =
  | { readonly kind: 'refuse'; readonly answer: FailureAnswer }
  | { readonly kind: 'redirect'; readonly place: HttpsPlace }

/**
 * Returns the response to a request without TLS for `found`; undefined if its route serves it as with TLS. A trusted proxy may have
 * terminated TLS (X-Forwarded-Proto). A redirect requires a certificate for the name. Login paths stay on the scheme where the login began.
 */
export function plainAnswer(
  { connection, request }: RequestFlow,
  found: EdgeAt | undefined,
  snapshot: Snapshot
): PlainAnswer | undefined {
  if (connection.tls !== undefined || found === undefined) return undefined
  const { https } = snapshot.tables
  const onHttp = https.onHttp(found)
  if (onHttp === 'serve' || isSecure(request)) return undefined
  if (onHttp === 'refuse') return { kind: 'refuse', answer: requestErrors.httpsRequired }
  if (ownPath(request) !== undefined) return undefined
  const place = redirectPlace(found, request.target.host, snapshot)
  return place === undefined ? undefined : { kind: 'redirect', place }
}

function redirectPlace(found: EdgeAt, host: string, { tables }: Snapshot): HttpsPlace | undefined {
  // The server behind a TLS passthrough edge has its own certificate.
  return found.edge.passthrough === true || tables.certificates.has(host) ? tables.https.place(found) : undefined
}

/** Returns the Location of the same host, path and query with https at `port`. */
export function httpsLocation({ request }: RequestFlow, port: number): string {
  const { host, path, uri } = request.target
  const authority = formatAuthority(host, port)
  const usual = port === HTTPS_PORT ? authority.slice(0, -`:${HTTPS_PORT}`.length) : authority
  return `https://${usual}${path === '*' ? '' : uri}`
}

/**
 * Returns the number of HTTPS names also served without TLS, and the first of them; undefined if there are none, or if all or no listeners
 * have TLS.
 */
export function servedPlainly(snapshot: Snapshot): { readonly names: number; readonly first: string } | undefined {
  if (!snapshot.tables.https.isServedBothWays) return undefined
  let names = 0
  let first = ''
  for (const edge of snapshot.tables.edges) {
    // Edges that explicitly serve without TLS are intended.
    if (edge.hosts === 'every' || edge.protocol !== 'https' || edge.onHttp === 'serve' || edge.passthrough === true)
      continue
    for (const { host, port } of edge.hosts) {
      const found: EdgeAt = { edge, endpoint: { id: edge.id, protocol: edge.protocol, host, port } }
      if (port !== HTTPS_PORT || isInternal(host) || isAnsweredByHttps(found, host, snapshot)) continue
      if (names++ === 0) first = host
    }
  }
  return names === 0 ? undefined : { names, first }
}

function isAnsweredByHttps(found: EdgeAt, host: string, snapshot: Snapshot): boolean {
  const onHttp = snapshot.tables.https.onHttp(found)
  if (onHttp === 'redirect') return redirectPlace(found, host, snapshot) !== undefined
  return onHttp === 'refuse'
}
