import type { BoardEntry } from '../store/board.js'
import { endpointRank, placeOfTunnel } from './endpoint-places.js'
import type { LiveSession, LiveTunnel } from './live-sources.js'

/** Kinds of the board: sessions and tunnels in the order of their ids, and tunnels with a URL in that of endpoints. */
export const SESSIONS = 'session'
export const TUNNELS = 'tunnel'
export const ENDPOINTS = 'endpoint'

/** The kinds under which a session or a tunnel may stand. */
export const ENTRIES = { session: [SESSIONS], tunnel: [TUNNELS, ENDPOINTS] } as const

/** What other processes are told of a session or a tunnel. */
export function entriesOf(
  live: { readonly session: LiveSession } | { readonly tunnel: LiveTunnel }
): readonly BoardEntry[] {
  if ('session' in live) {
    const { session } = live
    return [{ kind: SESSIONS, id: session.id, rank: session.id, body: JSON.stringify(session) }]
  }
  const { tunnel } = live
  const { id } = tunnel
  const body = JSON.stringify(tunnel)
  const entry = { kind: TUNNELS, id, rank: id, body }
  if (tunnel.publicUrl === '') return [entry]
  return [entry, { kind: ENDPOINTS, id, rank: endpointRank(placeOfTunnel(tunnel)), body }]
}

/** What `entriesOf` wrote, here or in another process. */
export function sessionOf({ body }: BoardEntry): LiveSession {
  return JSON.parse(body) as LiveSession
}

export function tunnelOf({ body }: BoardEntry): LiveTunnel {
  return JSON.parse(body) as LiveTunnel
}
