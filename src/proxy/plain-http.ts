import { type FailureAnswer, requestErrors } from '../flow/error-codes.js'
import { type Flow, type FlowRequest, isInternal } from '../flow/flow.js'
import { isSecure, ownPath } from '../flow/reserved-paths.js'
import { formatAuthority } from '../lib/host.js'
import type { EdgeAt } from '../runtime/http-edges.js'
import type { HttpsPlace } from '../runtime/https.js'
import type { Snapshot } from '../runtime/snapshot.js'

const HTTPS_PORT = 443

type RequestFlow = Flow & { readonly request: FlowRequest }

/** What becomes of a request without TLS for a name that is for HTTPS. */
export type PlainAnswer =
  | { readonly kind: 'refuse'; readonly answer: FailureAnswer }
  | { readonly kind: 'redirect'; readonly place: HttpsPlace }

/**
 * How a request without TLS for `found` is answered in place of its route; undefined: by its route, as one with TLS. A proxy that
 * we trust may have ended TLS itself (X-Forwarded-Proto). A redirect leads only where the name is served with a certificate: a
 * name without one has no other place. Paths of logins stay where the login began.
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
  // The server behind an edge that passes TLS on has a certificate of its own.
  return found.edge.passthrough === true || tables.certificates.has(host) ? tables.https.place(found) : undefined
}

/** Location of the same host, path and query by https at `port`. */
export function httpsLocation({ request }: RequestFlow, port: number): string {
  const { host, path, uri } = request.target
  const authority = formatAuthority(host, port)
  const usual = port === HTTPS_PORT ? authority.slice(0, -`:${HTTPS_PORT}`.length) : authority
  return `https://${usual}${path === '*' ? '' : uri}`
}

/**
 * Returns the number of names for HTTPS that clients get without TLS too, and the first of them; undefined: there are none, or no client has a
 * choice because every listener has TLS or none has.
 */
export function servedPlainly(snapshot: Snapshot): { readonly names: number; readonly first: string } | undefined {
  if (!snapshot.tables.https.isServedBothWays) return undefined
  let names = 0
  let first = ''
  for (const edge of snapshot.tables.edges) {
    // What says itself that it answers is no surprise.
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
