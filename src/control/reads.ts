import type { Json } from '../lib/json.js'
import { presentParts } from '../resources/present.js'
import type { Part, Resource } from '../resources/resource.js'
import type { ResourceRecord } from '../schema/field.js'
import type { PageRequest, StoreReader } from '../store/store.js'
import type { ListRequest, Principal, Read, Shown, Target } from './calls.js'
import { ControlError, notFound } from './control-error.js'
import type { LiveRecords } from './live-records.js'
import type { ControlParts } from './open.js'
import type { Versioned } from './records.js'
import { orUnavailable } from './refusals.js'
import { extentOf, mayRead, mayTouch } from './rights.js'

type Parts = Pick<ControlParts, 'store' | 'edits' | 'catalogue' | 'records' | 'answers'>

/** What the API reads: records as they are committed, and what lives beside them. */
export class Reads {
  readonly #parts: Parts
  readonly #live: LiveRecords

  constructor(parts: Parts, live: LiveRecords) {
    this.#parts = parts
    this.#live = live
  }

  /** Fails with `NOT_FOUND` or `ADMIN_REQUIRED`. */
  async one(resource: Resource, { path }: Target, viewer: Principal): Promise<Read> {
    if (this.#live.has(resource)) {
      return { ...(await orUnavailable(this.#live.get(resource, path.id ?? ''))), revision: null, live: true }
    }
    const { answers } = this.#parts
    return await this.#read(resource, path, viewer, ({ record }, reader) =>
      answers.one(reader, resource, record, viewer)
    )
  }

  /** Fails with `NOT_FOUND` (parent) or `QUERY_INVALID` (cursor). */
  async list(resource: Resource, request: ListRequest, viewer: Principal): Promise<Json> {
    const { limit, beforeId } = request
    const live = this.#live.has(resource)
    return await orUnavailable(
      live ? this.#live.list(resource, { limit, beforeId }) : this.#listStored(resource, request, viewer)
    )
  }

  /** The body of the answer is the module's. Fails with `NOT_FOUND` when it is not configured. */
  async module(
    resource: Resource,
    { path, module }: Target & { readonly module: string },
    viewer: Principal
  ): Promise<Shown> {
    return await this.#read(resource, path, viewer, async ({ record }, reader) => {
      const body = await this.#parts.answers.module(reader, resource, record, module, viewer)
      if (body === null) throw notFound(`${module} of ${resource.name} ${record.id}`)
      return body
    })
  }

  /** All entries of a list inside the record. */
  async entries(resource: Resource, part: Part, { path }: Target, viewer: Principal): Promise<Shown> {
    return await this.#read(resource, path, viewer, async ({ record }, reader) =>
      presentParts(resource, part, record, await this.#parts.answers.context(reader, resource, [record], undefined))
    )
  }

  /** Fails with `NOT_FOUND`. */
  async entry(
    resource: Resource,
    part: Part,
    { path, key }: Target & { readonly key: string },
    viewer: Principal
  ): Promise<Shown> {
    const { answers } = this.#parts
    return await this.#read(resource, path, viewer, ({ record }, reader) =>
      answers.entry(reader, resource, part, record, key)
    )
  }

  async #listStored(resource: Resource, request: ListRequest, viewer: Principal): Promise<Json> {
    const { path, limit, beforeId, referring } = request
    const { store, edits, catalogue, answers } = this.#parts
    await edits.mustHaveParent(store, resource, path)
    const family = catalogue.parentOf(resource)
    const above = family && { field: family.field, kind: family.parent.name, id: path[family.field] ?? '' }
    const filter = referring ?? above
    const page = await this.#page(resource, viewer, {
      limit,
      ...(beforeId === undefined ? {} : { before: beforeId }),
      ...(filter && { referring: { field: filter.field, to: { kind: filter.kind, id: filter.id } } })
    })
    if (page === undefined) {
      const message = 'before_id must be the id of a record of this list, present or deleted'
      throw new ControlError('QUERY_INVALID', message, { field: 'before_id' })
    }
    const next = page.more ? page.records.at(-1)?.id : undefined
    return await answers.list(store, resource, page.records, { limit, parents: path, ...(next && { next }) })
  }

  /** One page of what the viewer may read; undefined when `before` is no cursor. */
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
    path: Target['path'],
    viewer: Principal,
    show: (found: Versioned, reader: StoreReader) => Promise<Json>
  ): Promise<Shown> {
    const { store, edits, answers } = this.#parts
    const run = async () => {
      const found = await edits.find(store, resource, path)
      mayTouch(viewer, 'get', found.record)
      if (found.unopened !== undefined) throw found.unopened
      const body = await show(found, store)
      return { ...found, body, live: answers.isLive(body) }
    }
    return await orUnavailable(run())
  }
}
