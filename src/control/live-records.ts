import { type Json, timestampText } from '../lib/json.js'
import { tunnelGroupBackend } from '../resources/backends.js'
import { endpoint, tunnel, tunnelSession } from '../resources/live.js'
import type { Resource } from '../resources/resource.js'
import type { ResourceRecord } from '../schema/field.js'
import type { StoreReader } from '../store/store.js'
import type { Answers } from './answers.js'
import type { ClusterAgents, LivePage } from './cluster-agents.js'
import { ControlError, notFound } from './control-error.js'
import { endpointId, placeOfTunnel } from './endpoint-places.js'
import type { Endpoints } from './endpoints.js'
import type { LiveSession, LiveTunnel } from './live-sources.js'

interface LiveRecordsParts {
  readonly store: StoreReader
  readonly answers: Answers
  readonly agents: ClusterAgents
  readonly endpoints: Endpoints
}

/** Where the records of one live resource come from. */
interface Kind {
  /** Newest first; undefined when `before` is no cursor. */
  list(limit: number, before: string | undefined): Promise<readonly ResourceRecord[] | undefined>
  get(id: string): Promise<ResourceRecord | undefined>
}

/** The resources that no store holds: what is connected, and where traffic is taken. */
export class LiveRecords {
  readonly #parts: LiveRecordsParts
  readonly #kinds: ReadonlyMap<string, Kind>

  constructor(parts: LiveRecordsParts) {
    const { agents, endpoints, answers } = parts
    this.#parts = parts
    this.#kinds = new Map<string, Kind>([
      [
        tunnelSession.name,
        kindOf(tunnelSession, {
          list: (page) => agents.sessions(page),
          get: (id) => agents.session(id),
          show: sessionRecord
        })
      ],
      [
        tunnel.name,
        kindOf(tunnel, {
          list: (page) => agents.tunnels(page),
          get: (id) => agents.tunnel(id),
          show: (one) => tunnelRecord(one, agents.backendsOf(one.labels), answers.baseUrl)
        })
      ],
      [endpoint.name, endpoints]
    ])
  }

  has({ name }: Resource): boolean {
    return this.#kinds.has(name)
  }

  /** Fails with `QUERY_INVALID` when `beforeId` is no cursor. */
  async list(resource: Resource, { limit, beforeId }: { limit: number; beforeId?: string | undefined }): Promise<Json> {
    const { store, answers } = this.#parts
    const found = await this.#kind(resource).list(limit + 1, beforeId)
    if (found === undefined) {
      throw new ControlError('QUERY_INVALID', 'before_id must be an id of this list', { field: 'before_id' })
    }
    const shown = found.slice(0, limit)
    const next = found.length > limit ? shown.at(-1)?.id : undefined
    return await answers.list(store, resource, shown, { limit, parents: {}, ...(next && { next }) })
  }

  /** Fails with `NOT_FOUND`. */
  async get(resource: Resource, id: string): Promise<{ readonly record: ResourceRecord; readonly body: Json }> {
    const { store, answers } = this.#parts
    const record = await this.#kind(resource).get(id)
    if (record === undefined) throw notFound(resource.name)
    return { record, body: await answers.one(store, resource, record, undefined) }
  }

  #kind({ name }: Resource): Kind {
    const kind = this.#kinds.get(name)
    if (kind === undefined) throw new RangeError(`${name} is not live`)
    return kind
  }
}

interface Lister<T> {
  list(page: LivePage): Promise<readonly T[]>
  get(id: string): Promise<T | undefined>
  show(one: T): ResourceRecord
}

/** KSUIDs sort by time, so the id alone is the order, and that of something gone is a cursor too. */
function kindOf<T>({ idPrefix }: Resource, { list, get, show }: Lister<T>): Kind {
  const form = new RegExp(`^${idPrefix}_[0-9A-Za-z]+$`)
  return {
    async list(limit, before) {
      if (before !== undefined && !form.test(before)) return undefined
      return (await list({ limit, before })).map(show)
    },
    async get(id) {
      const found = form.test(id) ? await get(id) : undefined
      return found === undefined ? undefined : show(found)
    }
  }
}

/** A session as a record that no store holds. */
export function sessionRecord(session: LiveSession): ResourceRecord {
  const { id, startedAt, agentVersion, credential, ip, metadata, os, region, transport } = session
  const time = timestampText(startedAt)
  const body = { agent_version: agentVersion, credential, ip, metadata, os, region, started_at: time, transport }
  return { kind: tunnelSession.name, id, createdAt: time, body, secrets: {} }
}

/** `backends`: ids of those that select it. */
function tunnelRecord(one: LiveTunnel, backends: readonly string[], baseUrl: string): ResourceRecord {
  const { id, startedAt, publicUrl, metadata, proto, region, session, labels, forwardsTo } = one
  const time = timestampText(startedAt)
  const body = {
    public_url: publicUrl,
    started_at: time,
    metadata,
    proto,
    region,
    tunnel_session: session,
    endpoint: publicUrl === '' ? null : endpointRef(one, baseUrl),
    labels,
    backends: backends.map((backend) => ({ id: backend, uri: `${baseUrl}${tunnelGroupBackend.path}/${backend}` })),
    forwards_to: forwardsTo
  }
  return { kind: tunnel.name, id, createdAt: time, body, secrets: {} }
}

function endpointRef(one: LiveTunnel, baseUrl: string): { readonly id: string; readonly uri: string } {
  const id = endpointId(placeOfTunnel(one))
  return { id, uri: `${baseUrl}${endpoint.path}/${id}` }
}
