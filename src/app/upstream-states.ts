import { isEndpoint } from '../capabilities/tunnel/agents/tunnel-groups.js'
import type { Server } from '../proxy/server.js'
import { backendOf } from '../proxy/unit-servers.js'
import type { UpstreamState } from '../telemetry/observed-metrics.js'
import type { DataPlane } from './data-plane.js'

/** Yields each server with its backend or option, and its state; the tunnels of a group are combined. */
export function* upstreamStates({ upstreams }: Pick<DataPlane, 'upstreams'>): Generator<UpstreamState> {
  for (const [key, unit, servers] of upstreams.servers.servers()) {
    // Agents name their endpoints, and names of agents make no series.
    if (unit.form === 'tunnels' && isEndpoint(unit.labels)) continue
    const [only] = servers
    const sum = (of: (server: Server) => number) => servers.reduce((total, server) => total + of(server), 0)
    yield {
      backend: backendOf(key),
      server: unit.form === 'address' && only !== undefined ? only.name : 'tunnels',
      up: servers.some(({ state }) => state.state !== 'down'),
      active: sum(({ places }) => places.active),
      waiting: sum(({ places }) => places.waiting),
      refused: sum(({ places }) => places.refused),
      tries: sum(({ tries }) => tries),
      failures: sum(({ failures }) => failures)
    }
  }
}

const COUNTED = ['active', 'waiting', 'refused', 'tries', 'failures'] as const

/** Combines the states of this thread and others. The health of servers is that of this thread. */
export function together(own: Iterable<UpstreamState>, elsewhere: Iterable<UpstreamState>): Iterable<UpstreamState> {
  const keyOf = ({ backend, server }: UpstreamState) => JSON.stringify([backend, server])
  const all = new Map([...own].map((state) => [keyOf(state), state]))
  for (const other of elsewhere) {
    const known = all.get(keyOf(other))
    if (known === undefined) continue
    const sum = (of: (typeof COUNTED)[number]) => known[of] + other[of]
    all.set(keyOf(other), { ...known, ...Object.fromEntries(COUNTED.map((of) => [of, sum(of)])) })
  }
  return all.values()
}
