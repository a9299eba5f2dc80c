import type { Body } from '../schema/field.js'
import { httpsEdge, PASSTHROUGH, tcpEdge } from './edges.js'
import { endpoint } from './endpoints.js'
import type { Resource } from './resource.js'
import { tlsEdge } from './tls-edges.js'

/** Resources that claim hosts and ports for traffic. */
export const ENTRIES: readonly Resource[] = [httpsEdge, tcpEdge, tlsEdge, endpoint]

/** Returns the resource of the edge or cloud endpoint with this id; undefined for the id of anything else. */
export function entryOf(id: string): Resource | undefined {
  return ENTRIES.find(({ idPrefix }) => id.startsWith(`${idPrefix}_`))
}

/**
 * Returns the host:port pairs of an edge or cloud endpoint that clients select by name, with SNI or the Host field; empty for the ports of
 * a TCP edge, which no name selects.
 */
export function namedHostports(kind: string, body: Readonly<Body>): readonly string[] {
  if (kind === endpoint.name) return body.proto === 'tcp' ? [] : [String(body.hostport)]
  if (kind === tcpEdge.name && body.tls !== PASSTHROUGH) return []
  return (body.hostports ?? []) as readonly string[]
}
