import type { Json } from '../resources/field.js'
import { presentParts } from '../resources/parts.js'
import type { Part, Resource } from '../resources/resource.js'
import type { StoreReader } from '../store/store.js'
import type { ListRequest, Read, Shown, Target } from './calls.js'
import { ControlError, notFound } from './control-error.js'
import type { LiveRecords } from './live-records.js'
import type { ControlParts } from './open.js'
import type { Versioned } from './records.js'
import { orUnavailable } from './refusals.js'

type Parts = Pick<ControlParts, 'store' | 'edits' | 'catalogue' | 'records' | 'answers'>

/** What the API reads: records as they are committed, and what lives beside them. */
export class Reads {
  readonly #parts: Parts
  readonly #live: LiveRecords

  constructor(parts: Parts, live: LiveRecords) {
    this.#parts = parts
    this.#live = live
  }

  /** Fails with `NOT_FOUND`. */
  async one(resource: Resource, { path }: Target): Promise<Read> {
    if (this.#live.has(resource)) {
      return { ...(await orUnavailable(this.#live.get(resource, path.id ?? ''))), revision: null, live: true }
    }
    const { answers } = this.#parts
    return await this.#read(resource, path, ({ record }, reader) => answers.one(reader, resource, record, true))
  }

  /** Fails with `NOT_FOUND` (parent) or `QUERY_INVALID` (cursor). */
  async list(resource: Resource, request: ListRequest): Promise<Json> {
    const { limit, beforeId } = request
    const live = this.#live.has(resource)
    return await orUnavailable(
      live ? this.#live.list(resource, { limit, beforeId }) : this.#listStored(resource, request)
    )
  }

  /** The body of the answer is the module's. Fails with `NOT_FOUND` when it is not configured. */
  async module(resource: Resource, { path, module }: Target & { readonly module: string }): Promise<Shown> {
    return await this.#read(resource, path, async ({ record }, reader) => {
      const body = await this.#parts.answers.module(reader, resource, record, module)
      if (body === null) throw notFound(`${module} of ${resource.name} ${record.id}`)
      return body
    })
  }

  /** All entries of a list inside the record. */
  async entries(resource: Resource, part: Part, { path }: Target): Promise<Shown> {
    return await this.#read(resource, path, async ({ record }, reader) =>
      presentParts(resource, part, record, await this.#parts.answers.context(reader, resource, [record], false))
    )
  }

  /** Fails with `NOT_FOUND`. */
  async entry(resource: Resource, part: Part, { path, key }: Target & { readonly key: string }): Promise<Shown> {
    const { answers } = this.#parts
    return await this.#read(resource, path, ({ record }, reader) => answers.entry(reader, resource, part, record, key))
  }

  async #listStored(resource: Resource, { path, limit, beforeId, referring }: ListRequest): Promise<Json> {
    const { store, edits, catalogue, records, answers } = this.#parts
    await edits.mustHaveParent(store, resource, path)
    const family = catalogue.parentOf(resource)
    const above = family && { field: family.field, kind: family.parent.name, id: path[family.field] ?? '' }
    const filter = referring ?? above
    const page = await store.list(resource.name, {
      limit,
      ...(beforeId === undefined ? {} : { before: beforeId }),
      ...(filter && { referring: { field: filter.field, to: { kind: filter.kind, id: filter.id } } })
    })
    if (page === undefined) {
      const message = 'before_id must be the id of a record of this list, present or deleted'
      throw new ControlError('QUERY_INVALID', message, { field: 'before_id' })
    }
    const shown = page.records.map((stored) => records.open(stored).record)
    const next = page.more ? shown.at(-1)?.id : undefined
    return await answers.list(store, resource, shown, { limit, parents: path, ...(next && { next }) })
  }

  async #read(
    resource: Resource,
    path: Target['path'],
    show: (found: Versioned, reader: StoreReader) => Promise<Json>
  ): Promise<Shown> {
    const { store, edits, answers } = this.#parts
    const run = async () => {
      const found = await edits.find(store, resource, path)
      const body = await show(found, store)
      return { ...found, body, live: answers.isLive(body) }
    }
    return await orUnavailable(run())
  }
}
