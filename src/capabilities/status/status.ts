import type { MappedBackend, TrafficMap } from '../../control/traffic-answers.js'
import { isInternal } from '../../flow/flow.js'
import type { Clock } from '../../lib/clock.js'
import { timestampText } from '../../lib/json.js'
import type { SiteView, State, StatusView } from './answers.js'
import { statusPage } from './html.js'

/** Time for which a computed state is reused (ms), so that most requests, which need no key, only read memory. */
const REUSED = 5_000
/** Maximum number of listed sites. */
const MOST_SITES = 500

interface StatusParts {
  /** Returns the map of the running configuration. */
  readonly map: () => TrafficMap
  readonly clock: Clock
}

/** State of the sites of this process, computed at most once in five seconds. */
export class Status {
  readonly #parts: StatusParts
  #last: { readonly view: StatusView; readonly page: string; readonly at: number } | undefined

  constructor(parts: StatusParts) {
    this.#parts = parts
  }

  /** Returns the state of all sites, and its page in HTML. It contains host names and ports, but no server, path, policy or endpoint of an agent. */
  current(): { readonly view: StatusView; readonly page: string } {
    const { clock, map } = this.#parts
    const now = clock.monotonic()
    if (this.#last === undefined || now - this.#last.at >= REUSED) {
      const view = statusOf(map(), timestampText(clock.wall()))
      this.#last = { view, page: statusPage(view), at: now }
    }
    return this.#last
  }
}

function statusOf(map: TrafficMap, checked_at: string): StatusView {
  const byName = new Map<string, State[]>()
  for (const [name, state] of statesIn(map)) {
    const known = byName.get(name)
    if (known === undefined) byName.set(name, [state])
    else known.push(state)
  }
  const all: SiteView[] = [...byName].map(([name, states]) => ({ name, status: together(states) }))
  const sites = all.sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, MOST_SITES)
  return {
    status: together(all.map(({ status }) => status)),
    checked_at,
    sites,
    omitted: map.omitted + all.length - sites.length
  }
}

/** Yields the state of each edge under each of its names. */
function* statesIn({ edges, tcp_edges }: TrafficMap): Generator<readonly [name: string, state: State]> {
  for (const { id, hosts, every_host, routes } of edges) {
    if (isOfAgent(id)) continue
    const state = together(routes.map(({ backend }) => stateOf(backend)))
    if (every_host && routes.length > 0) yield ['*', state]
    for (const { host } of hosts) if (!isInternal(host)) yield [host, state]
  }
  for (const { id, ports, backend } of tcp_edges) {
    if (isOfAgent(id)) continue
    for (const { host, port } of ports) if (!isInternal(host)) yield [`tcp ${port}`, stateOf(backend)]
  }
}

/** Returns true for an endpoint that an agent has opened: its name may be a secret. Ids of records have no slash. */
function isOfAgent(id: string): boolean {
  return id.includes('/')
}

/** Returns the state of a backend; a route without one is answered by its policies. */
function stateOf(backend: MappedBackend | null): State {
  if (backend === null) return 'up'
  const { form, servers, members } = backend
  switch (form) {
    case 'address':
    case 'tunnels':
      return servers.length === 0 ? 'down' : together(servers.map(({ status }) => (status === 'down' ? 'down' : 'up')))
    case 'weighted':
      return together(members.map((member) => stateOf(member.backend)))
    case 'failover': {
      const states = members.map((member) => stateOf(member.backend))
      return states[0] === 'up' || states.every((state) => state === 'down') ? (states[0] ?? 'down') : 'degraded'
    }
    case 'missing':
      return 'down'
    default:
      return 'up'
  }
}

/** Combines states: `degraded` unless all are the same. */
function together(states: readonly State[]): State {
  const [first = 'up'] = states
  return states.every((state) => state === first) ? first : 'degraded'
}
