import type { Clock } from '../lib/clock.js'
import { type Json, timestampText } from '../lib/json.js'
import { tunnelGroupBackend } from '../resources/backends.js'
import { endpoint } from '../resources/endpoints.js'
import { ListFilters } from '../resources/list-filter.js'
import { tunnel, tunnelSession } from '../resources/live.js'
import { presentParts } from '../resources/present.js'
import type { Part, Resource } from '../resources/resource.js'
import { applicationSession, applicationUser } from '../resources/visitors.js'
import type { ResourceRecord } from '../schema/field.js'
import type { PageRequest, StoreReader } from '../store/store.js'
import type { Answers } from './answers.js'
import type { ListRequest, Principal, Read, RecordPath, Shown } from './calls.js'
import type { ClusterAgents, LivePage } from './cluster/agents.js'
import type { LiveSession, LiveTunnel } from './cluster/live-sources.js'
import { endpointId, placeOfTunnel } from './cluster/publisher.js'
import { type Endpoints, isStoredEndpoint } from './endpoints.js'
import { ControlError, controlErrors, notFound, orUnavailable } from './errors.js'
import { type FindPage, type FoundPage, filteredPage } from './filtered-page.js'
import type { ControlParts } from './parts.js'
import type { Versioned } from './records.js'
import { extentOf, mayRead, mayTouch } from './rights.js'
import type { Visitors } from './visitors.js'

type Parts = Pick<ControlParts, 'store' | 'edits' | 'catalogue' | 'records' | 'answers' | 'declared'>

/** Reads of the API: committed records, and live entries. */
export class Reads {
  readonly #parts: Parts
  readonly #live: LiveRecords
  readonly #filters: ListFilters

  constructor(parts: Parts, live: LiveRecords, clock: Clock) {
    this.#parts = parts
    this.#live = live
    this.#filters = new ListFilters(clock)
  }

  /** Fails with `NOT_FOUND` or `ADMIN_REQUIRED`. */
  async one(resource: Resource, { path }: RecordPath, viewer: Principal): Promise<Read> {
    if (this.#live.has(resource) && !isStored(resource, path.id ?? '')) {
      return { ...(await orUnavailable(this.#live.get(resource, path.id ?? ''))), revision: null, live: true }
    }
    const { answers } = this.#parts
    return await this.#read(resource, path, viewer, ({ record }, reader) =>
      answers.one(reader, resource, record, viewer)
    )
  }

  /** Fails with `NOT_FOUND` (parent), `QUERY_INVALID` (cursor) or `FILTER_INVALID`. */
  async list(resource: Resource, request: ListRequest, viewer: Principal): Promise<Json> {
    const { path, limit, filter } = request
    const passes = both(filter === undefined ? undefined : this.#filter(resource, filter), request.passes)
    const run = async () => {
      const find = this.#live.has(resource)
        ? this.#live.finder(resource)
        : await this.#finder(resource, request, viewer)
      const page = await this.#pageOf(resource, request, find, passes)
      if (page === undefined) {
        const message = 'before_id must be the id of a record of this list, present or deleted'
        throw new ControlError(controlErrors.QUERY_INVALID, message, { field: 'before_id' })
      }
      const { records, next } = page
      const { store, answers } = this.#parts
      return await answers.list(store, resource, records, { limit, parents: path, filter, ...(next && { next }) })
    }
    return await orUnavailable(run())
  }

  async #pageOf(
    resource: Resource,
    { limit, beforeId }: ListRequest,
    find: FindPage,
    passes: ((shown: unknown) => boolean) | undefined
  ) {
    if (passes !== undefined) {
      const present = (records: readonly ResourceRecord[]) => this.#shown(resource, records)
      return await filteredPage(find, { limit, beforeId, present, passes })
    }
    const page = await find(limit, beforeId)
    return page && { records: page.records, next: page.more ? page.records.at(-1)?.id : undefined }
  }

  /** Returns the objects as lists show them, which have no secrets. */
  async #shown(resource: Resource, records: readonly ResourceRecord[]): Promise<readonly unknown[]> {
    const { store, answers } = this.#parts
    const list = await answers.list(store, resource, records, { limit: records.length })
    return (list as Readonly<Record<string, readonly unknown[]>>)[resource.listKey] ?? []
  }

  /** Compiles the filter of a list. Fails with `FILTER_INVALID`. */
  #filter(resource: Resource, source: string): (shown: unknown) => boolean {
    const compiled = this.#filters.compile(resource, source)
    if (!compiled.ok) {
      const position = String(compiled.start + 1)
      throw new ControlError(controlErrors.FILTER_INVALID, `filter, character ${position}: ${compiled.message}`, {
        field: 'filter',
        details: { position }
      })
    }
    return (shown) => compiled.filter((name) => (shown as Readonly<Record<string, unknown>>)[name])
  }

  /** Ends a live entry; returns false if records of the resource are stored. Fails with `NOT_FOUND`. */
  async end(resource: Resource, { path }: RecordPath): Promise<boolean> {
    const id = path.id ?? ''
    if (!this.#live.ends(resource)) return false
    await orUnavailable(this.#live.end(resource, id))
    return true
  }

  /** Returns a module as the response body. Fails with `NOT_FOUND` if it is not configured. */
  async module(
    resource: Resource,
    { path, module }: RecordPath & { readonly module: string },
    viewer: Principal
  ): Promise<Shown> {
    return await this.#read(resource, path, viewer, async ({ record }, reader) => {
      const body = await this.#parts.answers.module(reader, resource, record, module, viewer)
      if (body === null) throw notFound(`${module} of ${resource.name} ${record.id}`)
      return body
    })
  }

  /** All entries of a list inside the record. */
  async entries(resource: Resource, part: Part, { path }: RecordPath, viewer: Principal): Promise<Shown> {
    return await this.#read(resource, path, viewer, async ({ record }, reader) =>
      presentParts(resource, part, record, await this.#parts.answers.context(reader, resource, [record], undefined))
    )
  }

  /** Fails with `NOT_FOUND`. */
  async entry(
    resource: Resource,
    part: Part,
    { path, key }: RecordPath & { readonly key: string },
    viewer: Principal
  ): Promise<Shown> {
    const { answers } = this.#parts
    return await this.#read(resource, path, viewer, ({ record }, reader) =>
      answers.entry(reader, resource, part, record, key)
    )
  }

  async #finder(resource: Resource, request: ListRequest, viewer: Principal): Promise<FindPage> {
    const { path, referring } = request
    const { store, edits, catalogue, declared } = this.#parts
    const family = catalogue.parentOf(resource)
    const above = family && { field: family.field, kind: family.parent.name, id: path[family.field] ?? '' }
    const below = above && { field: above.field, id: above.id }
    const own = referring === undefined ? declared.list(resource, below).filter((one) => mayRead(viewer, one)) : []
    if (above !== undefined && declared.find(above.kind, above.id) === undefined) {
      await edits.mustHaveParent(store, resource, path)
    }
    const named = referring ?? above
    return async (limit, beforeId) =>
      await this.#withDeclared(own, { limit, beforeId }, (rest, before) =>
        this.#page(resource, viewer, {
          limit: rest,
          ...(before === undefined ? {} : { before }),
          ...(named && { referring: { field: named.field, to: { kind: named.kind, id: named.id } } })
        })
      )
  }

  /** One page of records of a site file, which come first, and of the store behind them. */
  async #withDeclared(
    own: readonly ResourceRecord[],
    { limit, beforeId }: Pick<ListRequest, 'limit' | 'beforeId'>,
    stored: (limit: number, before: string | undefined) => Promise<FoundPage | undefined>
  ): Promise<FoundPage | undefined> {
    const cursor = own.findIndex(({ id }) => id === beforeId)
    if (own.length === 0 || (beforeId !== undefined && cursor === -1)) return await stored(limit, beforeId)
    const shown = own.slice(cursor + 1, cursor + 1 + limit)
    const page = await stored(Math.max(1, limit - shown.length), undefined)
    if (page === undefined) return undefined
    if (shown.length === limit)
      return { records: shown, more: cursor + 1 + limit < own.length || page.records.length > 0 }
    return { records: [...shown, ...page.records], more: page.more }
  }

  /** Returns one page of records that the viewer may read; undefined if `before` is no cursor. */
  async #page(resource: Resource, viewer: Principal, query: PageRequest) {
    const { store, records } = this.#parts
    const all = extentOf(viewer, resource, 'list') === 'any'
    const shown: ResourceRecord[] = []
    let before = query.before
    while (true) {
      const page = await store.list(resource.name, { ...query, ...(before === undefined ? {} : { before }) })
      if (page === undefined) return undefined
      const found = page.records.map((stored) => records.openAny(stored).record)
      shown.push(...(all ? found : found.filter((record) => mayRead(viewer, record))))
      const more = page.more || shown.length > query.limit
      if (all || !page.more || shown.length > query.limit) return { records: shown.slice(0, query.limit), more }
      before = found.at(-1)?.id
    }
  }

  async #read(
    resource: Resource,
    path: RecordPath['path'],
    viewer: Principal,
    show: (found: Versioned, reader: StoreReader) => Promise<Json>
  ): Promise<Shown> {
    const { store, edits, answers, declared } = this.#parts
    const run = async () => {
      const own = declared.find(resource.name, path.id ?? '')
      const found: Versioned =
        own === undefined ? await edits.find(store, resource, path) : { record: own, revision: 0 }
      mayTouch(viewer, 'get', found.record)
      if (found.unopened !== undefined) throw found.unopened
      const body = await show(found, store)
      return { ...found, body, live: answers.isLive(body) }
    }
    return await orUnavailable(run())
  }
}

type Condition = (shown: unknown) => boolean

/** Returns the condition that both are true; undefined if there is none. */
function both(one: Condition | undefined, other: Condition | undefined): Condition | undefined {
  return one === undefined || other === undefined ? (one ?? other) : (shown) => one(shown) && other(shown)
}

interface LiveRecordsParts {
  readonly store: StoreReader
  readonly answers: Answers
  readonly agents: ClusterAgents
  readonly endpoints: Endpoints
  readonly visitors: Visitors
}

/** Source of the records of one live resource. */
interface Kind {
  /** Newest first; undefined when `before` is no cursor. */
  list(limit: number, before: string | undefined): Promise<readonly ResourceRecord[] | undefined>
  get(id: string): Promise<ResourceRecord | undefined>
  /** Ends an entry; returns false if there is none. @default entries cannot be ended */
  end?(id: string): Promise<boolean>
}

/** Is it the record of a resource whose other entries are live? */
function isStored({ name }: Resource, id: string): boolean {
  return name === endpoint.name && isStoredEndpoint(id)
}

/** Resources that are not stored, or not only: connected agents, and endpoints of traffic. */
export class LiveRecords {
  readonly #parts: LiveRecordsParts
  readonly #kinds: ReadonlyMap<string, Kind>

  constructor(parts: LiveRecordsParts) {
    const { agents, endpoints, answers, visitors } = parts
    const show = (record: ResourceRecord) => record
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
      [endpoint.name, endpoints],
      [
        applicationUser.name,
        kindOf(applicationUser, {
          list: (page) => visitors.users(page),
          get: (id) => visitors.user(id),
          show,
          end: (id) => visitors.endUser(id)
        })
      ],
      [
        applicationSession.name,
        kindOf(applicationSession, {
          list: (page) => visitors.sessions(page),
          get: (id) => visitors.session(id),
          show,
          end: (id) => visitors.endSession(id)
        })
      ]
    ])
  }

  has({ name }: Resource): boolean {
    return this.#kinds.has(name)
  }

  /** Can entries of this live resource be ended? */
  ends({ name }: Resource): boolean {
    return this.#kinds.get(name)?.end !== undefined
  }

  /** Returns a reader of the pages of a live list. */
  finder(resource: Resource): FindPage {
    return async (limit, before) => {
      const found = await this.#kind(resource).list(limit + 1, before)
      return found && { records: found.slice(0, limit), more: found.length > limit }
    }
  }

  /** Fails with `NOT_FOUND`. */
  async get(resource: Resource, id: string): Promise<{ readonly record: ResourceRecord; readonly body: Json }> {
    const { store, answers } = this.#parts
    const record = await this.#kind(resource).get(id)
    if (record === undefined) throw notFound(resource.name)
    return { record, body: await answers.one(store, resource, record, undefined) }
  }

  /** Ends an entry. Fails with `NOT_FOUND`. */
  async end(resource: Resource, id: string): Promise<void> {
    if ((await this.#kind(resource).end?.(id)) !== true) throw notFound(resource.name)
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
  end?(id: string): Promise<boolean>
}

/** KSUIDs sort by time, so the id alone defines the order, and that of a deleted entry is a valid cursor. */
function kindOf<T>({ idPrefix }: Resource, { list, get, show, end }: Lister<T>): Kind {
  const form = new RegExp(`^${idPrefix}_[0-9A-Za-z]+$`)
  return {
    async list(limit, before) {
      if (before !== undefined && !form.test(before)) return undefined
      return (await list({ limit, before })).map(show)
    },
    async get(id) {
      const found = form.test(id) ? await get(id) : undefined
      return found === undefined ? undefined : show(found)
    },
    ...(end === undefined ? {} : { end: async (id: string) => form.test(id) && (await end(id)) })
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
