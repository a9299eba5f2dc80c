import type { ConnectionFacts } from '../../../flow/exchange.js'
import { addTo, removeFrom } from '../../../lib/lists.js'
import { ENDPOINT } from '../../../runtime/tunnel-labels.js'
import { DialError, type Dialer } from '../../../transport/contract.js'
import type { CredentialGrant, Labels } from '../server/authority.js'
import { type EndpointDialer, labelDialer } from '../server/dialer.js'
import type { Registry } from '../server/registry.js'
import type { Tunnel } from '../server/tunnel.js'

/** The labels of an upstream that leads to the tunnels of one endpoint. */
export function endpointLabels(id: string): Labels {
  return { [ENDPOINT]: id }
}

/** Returns true for a visitor of a TCP edge: the stream's header informs the agent, which answers for a dead upstream accordingly. */
export type IsTcp = (visitor: ConnectionFacts) => boolean

/** Learns which tunnels there are; `labels` select the tunnel. Must not throw. */
interface TunnelFollower {
  begins(tunnel: Tunnel, labels: Labels): void
  ends(tunnel: Tunnel): void
}

const NO_TUNNELS: readonly Tunnel[] = []

/** The live tunnels as the upstreams of routes and edges use them. */
export class LiveTunnelGroups {
  readonly #registry: Registry<CredentialGrant>
  readonly #isTcp: IsTcp
  readonly #endpoints = new Map<string, EndpointDialer>()
  /** Ids of the endpoints at a URL: several if they share it. */
  readonly #urls = new Map<string, Set<string>>()
  readonly #followers = new Set<TunnelFollower>()
  /** Cached tunnels by labels, valid for one version of the registry; for endpoints, while their tunnels are unchanged. */
  readonly #found = new WeakMap<Labels, { readonly version: number; readonly tunnels: readonly Tunnel[] }>()

  constructor(registry: Registry<CredentialGrant>, isTcp: IsTcp) {
    this.#registry = registry
    this.#isTcp = isTcp
  }

  /** Returns the tunnels with all of `labels`, in the order of their ids; the same list while they are unchanged. */
  members(labels: Labels): readonly Tunnel[] {
    const { version } = this.#registry
    const known = this.#found.get(labels)
    const endpoint = labels[ENDPOINT]
    if (endpoint === undefined && known?.version === version) return known.tunnels
    const now = endpoint === undefined ? this.#registry.select(labels) : this.#endpoints.get(endpoint)?.tunnels
    if (known !== undefined && areSame(known.tunnels, now)) {
      if (known.version !== version) this.#found.set(labels, { ...known, version })
      return known.tunnels
    }
    const tunnels = now === undefined ? NO_TUNNELS : [...now].sort(byId)
    this.#found.set(labels, { version, tunnels })
    return tunnels
  }

  /**
   * Returns a dialer through a tunnel of `members`; a stream that the agent rejects unread is moved to another one of them.
   * Rejects with `no-tunnel` if none accepts it. `key`: key of the pool.
   */
  dialer(key: string, labels: Labels, tunnel: Tunnel): Dialer {
    const endpoint = labels[ENDPOINT]
    if (endpoint !== undefined) return this.#endpoints.get(endpoint)?.through(key, tunnel) ?? gone(key, endpoint)
    const to = { key, first: tunnel }
    const http = labelDialer(this.#registry, labels, 'http', to)
    const tcp = labelDialer(this.#registry, labels, 'tcp', to)
    const open: Dialer['open'] = (why) => (why.bytes === true || this.#isTcp(why.client) ? tcp : http).open(why)
    return { key, reusable: true, http2: tunnel.http2, open }
  }

  addEndpoint(id: string, url: string, dialer: EndpointDialer): void {
    this.#endpoints.set(id, dialer)
    addTo(this.#urls, url, id)
  }

  /** Calls `follower` with existing tunnels, and when tunnels start and end. Returns a function that unsubscribes it. */
  follow(follower: TunnelFollower): () => void {
    this.#followers.add(follower)
    for (const tunnel of this.#registry.tunnels()) this.#began([follower], tunnel)
    return () => {
      this.#followers.delete(follower)
    }
  }

  /** Called for each tunnel that visitors may come through from now on. */
  began(tunnel: Tunnel): void {
    this.#began(this.#followers, tunnel)
  }

  /** Called for each tunnel that has begun and is over. */
  ended(tunnel: Tunnel): void {
    for (const follower of this.#followers) follower.ends(tunnel)
  }

  /** Removes an endpoint. `dialer`: the one that was added; a reopened endpoint keeps its own. */
  removeEndpoint(id: string, url: string, dialer: Dialer): void {
    if (this.#endpoints.get(id) !== dialer) return
    this.#endpoints.delete(id)
    removeFrom(this.#urls, url, id)
  }

  #began(followers: Iterable<TunnelFollower>, tunnel: Tunnel): void {
    const labels = tunnel.labels ?? this.#labelsOf(tunnel)
    if (labels !== undefined) for (const follower of followers) follower.begins(tunnel, labels)
  }

  /** Returns the labels of the endpoint that has the tunnel: endpoints at one URL have their own policies and credentials. */
  #labelsOf(tunnel: Tunnel): Labels | undefined {
    for (const id of this.#urls.get(tunnel.url) ?? [])
      if (this.#endpoints.get(id)?.tunnels.has(tunnel)) return endpointLabels(id)
    return undefined
  }
}

/** Returns a dialer for an endpoint that was closed since its tunnels were read. */
function gone(key: string, endpoint: string): Dialer {
  const open = () => Promise.reject(new DialError('no-tunnel', `the endpoint has gone (${endpoint})`))
  return { key, reusable: false, open }
}

/** The one that came last before a former self of the same id. */
function byId(a: Tunnel, b: Tunnel): number {
  return a.id === b.id ? b.startedAt - a.startedAt : a.id < b.id ? -1 : 1
}

function areSame(known: readonly Tunnel[], now: readonly Tunnel[] | ReadonlySet<Tunnel> | undefined): boolean {
  const size = now === undefined ? 0 : 'size' in now ? now.size : now.length
  if (known.length !== size) return false
  const set = now === undefined || 'has' in now ? now : new Set(now)
  return known.every((tunnel) => set?.has(tunnel) === true)
}
