import { bracketed } from '../lib/host.js'
import { timestampText } from '../lib/json.js'
import type { ShardedMap } from '../lib/sharded-map.js'
import { httpsEdge, PASSTHROUGH, tcpEdge } from '../resources/edges.js'
import { endpoint, endpointAddress } from '../resources/endpoints.js'
import { credential } from '../resources/identities.js'
import { uriOf } from '../resources/present.js'
import type { Resource } from '../resources/resource.js'
import { tlsEdge } from '../resources/tls-edges.js'
import { splitHostport } from '../resources/units.js'
import type { Unit } from '../runtime/plan.js'
import type { Body, ResourceRecord } from '../schema/field.js'
import type { StoredRecord } from '../store/records.js'
import type { StoreReader } from '../store/store.js'
import type { ClusterAgents } from './cluster/agents.js'
import type { LiveSources, LiveTunnel } from './cluster/live-sources.js'
import {
  comparePlaces,
  comparePositions,
  type EndpointPlace,
  endpointId,
  placeOfAddress,
  placeOfId,
  placeOfTunnel
} from './cluster/publisher.js'
import { reservationOf } from './record-rules.js'

/** The one endpoint that no edge and no agent declares: it comes last. */
const FILE_ID = 'ep_file_default'
/** Does the store hold the endpoint of this id? A cloud endpoint has the id of a record, all others that of a place. */
export function isStoredEndpoint(id: string): boolean {
  return id !== FILE_ID && placeOfId(id) === undefined
}

/** Number of records per read. */
const PAGE = 100
const PORTS: Readonly<Record<string, number>> = { http: 80, https: 443, tls: 443 }

interface EndpointsParts {
  readonly store: StoreReader
  /** Live entries of this process. */
  readonly sources: LiveSources
  readonly agents: Pick<ClusterAgents, 'othersEndpoints' | 'session'>
  /** The configuration that runs. */
  readonly units: () => ShardedMap<Unit>
  readonly baseUrl: () => string
  /** Start time of the process (ms since the Unix epoch). */
  readonly startedAt: number
}

/** The endpoints of one edge or one tunnel. */
interface Group {
  readonly place: EndpointPlace
  endpoints(): Promise<Endpoint[]>
}

interface Endpoint {
  readonly place: EndpointPlace
  readonly record: ResourceRecord
}

/** Every place where traffic is taken: host and port of the edges, cloud endpoints, addresses of the agents, and the default of the options. */
export class Endpoints {
  readonly #parts: EndpointsParts

  constructor(parts: EndpointsParts) {
    this.#parts = parts
  }

  /** Newest first, the default last. Undefined when `before` is no id of an endpoint. */
  async list(limit: number, before: string | undefined): Promise<ResourceRecord[] | undefined> {
    if (before === FILE_ID) return []
    const after = before === undefined ? undefined : await this.#placeOf(before)
    if (before !== undefined && after === undefined) return undefined
    const found: ResourceRecord[] = []
    for await (const group of this.#groups(after)) {
      for (const { place, record } of await group.endpoints()) {
        if (after === undefined || comparePlaces(after, place) < 0) found.push(record)
      }
      if (found.length >= limit) return found.slice(0, limit)
    }
    const last = this.#fileEndpoint()
    return last === undefined ? found : [...found, last]
  }

  async get(id: string): Promise<ResourceRecord | undefined> {
    if (id === FILE_ID) return this.#fileEndpoint()
    const place = placeOfId(id)
    if (place === undefined) return undefined
    for await (const group of this.#groups(place)) {
      if (comparePositions(place, group.place) !== 0) return undefined
      const found = (await group.endpoints()).find(({ record }) => record.id === id)
      if (found !== undefined) return found.record
    }
    return undefined
  }

  async #placeOf(id: string): Promise<EndpointPlace | undefined> {
    const place = placeOfId(id)
    if (place !== undefined) return place
    // The record may be deleted since.
    const page = await this.#parts.store.list(endpoint.name, { limit: 1, before: id })
    return page?.before && placeOfAddress(page.before, '')
  }

  /** Edges, cloud endpoints and tunnels from a place on, merged into one order. */
  async *#groups(from: EndpointPlace | undefined): AsyncGenerator<Group> {
    const lanes = [
      this.#edges(httpsEdge, from),
      this.#edges(tcpEdge, from),
      this.#edges(tlsEdge, from),
      this.#edges(endpoint, from),
      this.#tunnels(from),
      this.#othersTunnels(from)
    ]
    const heads = await Promise.all(lanes.map(async (lane) => ({ lane, head: await lane.next() })))
    while (true) {
      let first: (typeof heads)[number] | undefined
      for (const candidate of heads) {
        if (candidate.head.done === true) continue
        if (first === undefined || comparePlaces(candidate.head.value.place, first.head.value.place) < 0)
          first = candidate
      }
      if (first === undefined) return
      yield first.head.value
      first.head = await first.lane.next()
    }
  }

  async *#edges(resource: Resource, from: EndpointPlace | undefined): AsyncGenerator<Group> {
    // Its own edge is part of it: more of its endpoints may follow.
    let before = from && { createdAt: from.createdAt, sequence: from.sequence + 1 }
    while (true) {
      const page = await this.#parts.store.list(resource.name, { limit: PAGE, ...(before && { before }) })
      for (const edge of page?.records ?? []) {
        yield { place: placeOfAddress(edge, ''), endpoints: () => this.#endpointsOf(resource, edge) }
      }
      before = page?.records.at(-1)
      if (page?.more !== true || before === undefined) return
    }
  }

  async *#tunnels(from: EndpointPlace | undefined): AsyncGenerator<Group> {
    const tunnels = [...this.#parts.sources.tunnels()]
      .filter(({ publicUrl }) => publicUrl !== '')
      .map((tunnel) => ({ tunnel, place: placeOfTunnel(tunnel) }))
      .sort((a, b) => comparePlaces(a.place, b.place))
    for (const { tunnel, place } of tunnels) {
      if (from !== undefined && comparePlaces(from, place) > 0) continue
      yield { place, endpoints: async () => [{ place, record: await this.#endpointOf(tunnel, place) }] }
    }
  }

  async *#othersTunnels(from: EndpointPlace | undefined): AsyncGenerator<Group> {
    for await (const tunnel of this.#parts.agents.othersEndpoints(from)) {
      const place = placeOfTunnel(tunnel)
      yield { place, endpoints: async () => [{ place, record: await this.#endpointOf(tunnel, place) }] }
    }
  }

  async #endpointsOf(edge: Resource, stored: StoredRecord): Promise<Endpoint[]> {
    if (edge === endpoint) {
      const { kind, id, createdAt, body } = stored
      const shown = { kind, id, createdAt: timestampText(createdAt), body: body as Body, secrets: {} }
      return [{ place: placeOfAddress(stored, ''), record: shown }]
    }
    const body = stored.body as {
      readonly hostports?: readonly string[]
      readonly tls?: string
      readonly traffic_policy?: { value?: string } | null
    }
    const found: Endpoint[] = []
    for (const hostport of body.hostports ?? []) {
      const { host, port } = splitHostport(hostport)
      const place = placeOfAddress(stored, hostport)
      const proto = protoOf(edge, body.tls)
      const { store } = this.#parts
      const reserved = await reservationOf(store, { proto, host, hostport })
      const reservation = reserved === undefined ? null : this.#ref(reserved.resource, reserved.id)
      found.push({
        place,
        record: record(endpointId(place), stored.createdAt, {
          source: 'api',
          type: 'edge',
          ...endpointAddress(proto, host, port),
          edge: this.#ref(edge, stored.id),
          domain: proto === 'tcp' ? null : reservation,
          tcp_addr: proto === 'tcp' ? reservation : null,
          traffic_policy: body.traffic_policy?.value ?? ''
        })
      })
    }
    return found.sort((a, b) => comparePlaces(a.place, b.place))
  }

  async #endpointOf(tunnel: LiveTunnel, place: EndpointPlace): Promise<ResourceRecord> {
    const { id, startedAt, publicUrl, proto, session, metadata, forwardsTo, pooled = false } = tunnel
    const { hostname, port } = new URL(publicUrl)
    const base = this.#parts.baseUrl()
    return record(endpointId(place), startedAt, {
      source: 'agent',
      type: 'ephemeral',
      metadata,
      pooling_enabled: pooled,
      ...endpointAddress(proto, hostname.replace(/^\[|\]$/g, ''), Number(port) || (PORTS[proto] ?? 0)),
      upstream_url: forwardsTo === '' ? null : forwardsTo,
      principal: await this.#ownerOf(session),
      tunnel: { id, uri: `${base}/tunnels/${id}` },
      tunnel_session: { id: session, uri: `${base}/tunnel_sessions/${session}` }
    })
  }

  /** Returns the owner of the credential of an agent; '' if the agent or the credential does not exist any more. */
  async #ownerOf(session: string): Promise<string> {
    const { agents, store } = this.#parts
    const opened = (await agents.session(session))?.credential
    const stored = opened === undefined ? undefined : await store.get(credential.name, opened)
    return String((stored?.body as Body | undefined)?.owner_id ?? '')
  }

  #fileEndpoint(): ResourceRecord | undefined {
    const units = this.#parts.units()
    const listener = units.get('listener:default')
    const edge = units.get('edge:default')
    if (listener?.kind !== 'listener' || edge?.kind !== 'edge') return undefined
    const upstream = units.get('upstream:default')
    const policy = units.get('policy:default')
    return record(FILE_ID, this.#parts.startedAt, {
      source: 'file',
      type: 'default',
      description: 'Every host that no edge claims.',
      ...endpointAddress('http', listener.host, listener.port),
      upstream_url:
        upstream?.kind === 'upstream' && upstream.form === 'files'
          ? `file://${upstream.folder}`
          : upstream?.kind === 'upstream' && upstream.form === 'address'
            ? `${upstream.protocol}://${bracketed(upstream.host)}:${upstream.port}`
            : null,
      traffic_policy: policy?.kind === 'policy' ? policy.text : ''
    })
  }

  #ref(resource: Resource, id: string): { readonly id: string; readonly uri: string } {
    return { id, uri: uriOf(resource, { id, body: {} }, this.#parts.baseUrl()) }
  }
}

/** Returns the protocol of an edge's endpoints. `tls`: the value in a TCP edge. */
function protoOf(edge: Resource, tls: string | undefined): string {
  if (edge === httpsEdge) return 'https'
  return edge === tlsEdge || tls === PASSTHROUGH ? 'tls' : 'tcp'
}

function record(id: string, createdAt: number, body: Body): ResourceRecord {
  const time = timestampText(createdAt)
  return { kind: endpoint.name, id, createdAt: time, body: { updated_at: time, principal: '', ...body }, secrets: {} }
}
