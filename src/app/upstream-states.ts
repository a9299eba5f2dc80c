import type { Server } from '../proxy/server.js'
import { backendOf } from '../proxy/unit-servers.js'
import type { UnitNames } from '../runtime/names.js'
import { isEndpoint } from '../runtime/tunnel-labels.js'
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

/** Returns the states with the names of backends; servers of one name are combined, and down if one of them is. */
export function byName(states: Iterable<UpstreamState>, names: UnitNames): Iterable<UpstreamState> {
  const all = new Map<string, UpstreamState>()
  for (const state of states) {
    const backend = names.backendOf(state.backend) ?? state.backend
    const key = JSON.stringify([backend, state.server])
    const known = all.get(key)
    const own = { ...state, backend }
    all.set(key, known === undefined ? own : { ...sum(known, own), up: known.up && own.up })
  }
  return all.values()
}

function sum(one: UpstreamState, other: UpstreamState): UpstreamState {
  return { ...one, ...Object.fromEntries(COUNTED.map((of) => [of, one[of] + other[of]])) }
}

const COUNTED = ['active', 'waiting', 'refused', 'tries', 'failures'] as const

/** Combines the states of this thread and others. The health of servers is that of this thread. */
export function together(own: Iterable<UpstreamState>, elsewhere: Iterable<UpstreamState>): Iterable<UpstreamState> {
  const keyOf = ({ backend, server }: UpstreamState) => JSON.stringify([backend, server])
  const all = new Map([...own].map((state) => [keyOf(state), state]))
  for (const other of elsewhere) {
    const known = all.get(keyOf(other))
    if (known === undefined) continue
    all.set(keyOf(other), sum(known, other))
  }
  return all.values()
}
