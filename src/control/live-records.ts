import { tunnelGroupBackend } from '../resources/backends.js'
import { type Json, type ResourceRecord, timestampText } from '../resources/field.js'
import { endpoint, tunnel, tunnelSession } from '../resources/live.js'
import type { Resource } from '../resources/resource.js'
import type { StoreReader } from '../store/store.js'
import type { Answers } from './answers.js'
import { ControlError, notFound } from './control-error.js'
import type { Endpoints } from './endpoints.js'
import type { LiveSession, LiveSources, LiveTunnel } from './live-sources.js'

interface LiveRecordsParts {
  readonly store: StoreReader
  readonly answers: Answers
  readonly sources: LiveSources
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
    const { sources, endpoints, answers } = parts
    this.#parts = parts
    this.#kinds = new Map<string, Kind>([
      [tunnelSession.name, inMemory(tunnelSession, () => [...sources.tunnelSessions()].map(ofSession))],
      [tunnel.name, inMemory(tunnel, () => [...sources.tunnels()].map((one) => ofTunnel(one, answers.baseUrl)))],
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
    return { record, body: await answers.one(store, resource, record, false) }
  }

  #kind({ name }: Resource): Kind {
    const kind = this.#kinds.get(name)
    if (kind === undefined) throw new RangeError(`${name} is not live`)
    return kind
  }
}

/** KSUIDs sort by time, so the id alone is the order, and that of something gone is a cursor too. */
function inMemory({ idPrefix }: Resource, all: () => readonly ResourceRecord[]): Kind {
  const form = new RegExp(`^${idPrefix}_[0-9A-Za-z]+$`)
  return {
    async list(limit, before) {
      if (before !== undefined && !form.test(before)) return undefined
      return all()
        .filter(({ id }) => before === undefined || id < before)
        .sort((a, b) => (a.id < b.id ? 1 : -1))
        .slice(0, limit)
    },
    async get(id) {
      return all().find((record) => record.id === id)
    }
  }
}

function ofSession({ id, startedAt, agentVersion, credential, ip, metadata, os, region, transport }: LiveSession) {
  const time = timestampText(startedAt)
  const body = { agent_version: agentVersion, credential, ip, metadata, os, region, started_at: time, transport }
  return { kind: tunnelSession.name, id, createdAt: time, body, secrets: {} }
}

function ofTunnel(one: LiveTunnel, baseUrl: string): ResourceRecord {
  const { id, startedAt, publicUrl, metadata, proto, region, session, labels, forwardsTo, backends } = one
  const time = timestampText(startedAt)
  const body = {
    public_url: publicUrl,
    started_at: time,
    metadata,
    proto,
    region,
    tunnel_session: session,
    labels,
    backends: backends.map((backend) => ({ id: backend, uri: `${baseUrl}${tunnelGroupBackend.path}/${backend}` })),
    forwards_to: forwardsTo
  }
  return { kind: tunnel.name, id, createdAt: time, body, secrets: {} }
}
