import type { Unit } from '../plan/plan.js'
import type { Json, ResourceRecord } from '../resources/field.js'
import { entriesOf, entryOf, presentPart, presentParts, readAddition, withoutEntry } from '../resources/parts.js'
import { uriOf } from '../resources/present.js'
import { type Read, readModule, readUpdate } from '../resources/read.js'
import type { Operation, Part, Resource } from '../resources/resource.js'
import { clearField } from '../resources/write.js'
import type { StoreReader } from '../store/store.js'
import type { Applied } from './applied-units.js'
import type { Call, Done, ListRequest, Principal, ProcessState, Shown, Target, WriteMode, Written } from './calls.js'
import { ControlError, notFound } from './control-error.js'
import type { Draft } from './draft.js'
import { mustMatch } from './edits.js'
import { type ControlOptions, type ControlParts, openParts } from './open.js'
import type { Versioned } from './records.js'
import { orUnavailable } from './refusals.js'
import { mayChange, mayOperate } from './rights.js'

type Body = { readonly body: unknown }
type Module = { readonly module: string }
type Key = { readonly key: string }

/** How an update comes to its record. */
type Edit = (draft: Draft, current: ResourceRecord) => Promise<ResourceRecord>

/**
 * The single writer: the one place that changes records and what runs, for every resource alike. What it refuses fails
 * with a `ControlError`; anything else is a fault.
 */
export class ControlPlane {
  readonly #parts: ControlParts

  private constructor(parts: ControlParts) {
    this.#parts = parts
  }

  /**
   * Opens the store and brings its records to life; the units of the process itself are `applyOwn`'s. Fails with a
   * `StoreError` or a CodedError of the sealer.
   */
  static async open(options: ControlOptions): Promise<ControlPlane> {
    return new ControlPlane(await openParts(options))
  }

  /** Who the key belongs to; undefined when it opens nothing. Fails with `FORBIDDEN` when its owner is not active. */
  async authenticate(key: string): Promise<Principal | undefined> {
    return await orUnavailable(this.#parts.principals.authenticate(key))
  }

  /** May this address call the API? What only warns is logged and allowed. */
  admits(address: string | undefined): boolean {
    return this.#parts.gate.admits(address)
  }

  /** Fails with `ADMIN_REQUIRED`. What depends on the record or the body, the operations check themselves. */
  permit(resource: Resource, operation: Operation, { principal }: Call): void {
    mayOperate(principal, resource, operation)
  }

  async create(resource: Resource, request: Target & WriteMode & Body, call: Call): Promise<Written> {
    mayOperate(call.principal, resource, 'create')
    const { store, edits, answers, writer } = this.#parts
    const { record, once } = await orUnavailable(edits.make(store, resource, request.path, request.body, call))
    const { value, done } = await writer.write(call, request, async (draft) => {
      const written = await draft.insert(resource, record)
      return { ...written, body: await answers.one(draft.tx, resource, written.record, true, once) }
    })
    return { ...value, ...done, uri: uriOf(resource, value.record, answers.baseUrl) }
  }

  async get(resource: Resource, { path }: Target, _call: Call): Promise<Shown> {
    return await this.#read(resource, path, ({ record }, reader) =>
      this.#parts.answers.one(reader, resource, record, true)
    )
  }

  /** Fails with `NOT_FOUND` (parent) or `QUERY_INVALID` (cursor). */
  async list(resource: Resource, { path, limit, beforeId, referring }: ListRequest, _call: Call): Promise<Json> {
    const { store, edits, catalogue, records, answers } = this.#parts
    return await orUnavailable(
      (async () => {
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
      })()
    )
  }

  async update(resource: Resource, request: Target & WriteMode & Body, call: Call): Promise<Written> {
    const { edits, answers } = this.#parts
    const options = edits.readOptions(request.path)
    return await this.#update(
      resource,
      request,
      call,
      this.#reading(resource, call, (current) => readUpdate(resource, current, request.body, options)),
      (record, reader) => answers.one(reader, resource, record, true)
    )
  }

  async remove(resource: Resource, { path, ...mode }: Target & WriteMode, call: Call): Promise<Done> {
    mayOperate(call.principal, resource, 'delete')
    const { writer, edits } = this.#parts
    const { done } = await writer.write(call, mode, async (draft) => {
      const current = await edits.find(draft.tx, resource, path)
      mustMatch(current, mode.ifMatch)
      mayChange(call.principal, current.record)
      await draft.remove(current.record)
    })
    return done
  }

  /** The body of the answer is the module's. Fails with `NOT_FOUND` when it is not configured. */
  async getModule(resource: Resource, { path, module }: Target & Module, _call: Call): Promise<Shown> {
    return await this.#read(resource, path, async ({ record }, reader) => {
      const body = await this.#parts.answers.module(reader, resource, record, module)
      if (body === null) throw notFound(`${module} of ${resource.name} ${record.id}`)
      return body
    })
  }

  /** Replaces the module whole. */
  async replaceModule(resource: Resource, request: Target & WriteMode & Module & Body, call: Call): Promise<Written> {
    const { edits, answers } = this.#parts
    const { module, body, path } = request
    const options = edits.readOptions(path)
    return await this.#update(
      resource,
      request,
      call,
      this.#reading(resource, call, (current) => readModule(resource, current, module, body, options)),
      (record, reader) => answers.module(reader, resource, record, module)
    )
  }

  /** Also clears `clearable` fields. Does nothing when there is nothing to remove. */
  async removeModule(resource: Resource, request: Target & WriteMode & Module, call: Call): Promise<Done> {
    const edit: Edit = async (_draft, current) => clearField(resource, current, request.module)
    return await this.#update(resource, request, call, edit, async () => null)
  }

  async getParts(resource: Resource, part: Part, { path }: Target, _call: Call): Promise<Shown> {
    return await this.#read(resource, path, async ({ record }, reader) =>
      presentParts(resource, part, record, await this.#parts.answers.context(reader, resource, [record], false))
    )
  }

  async getPart(resource: Resource, part: Part, { path, key }: Target & Key, _call: Call): Promise<Shown> {
    return await this.#read(resource, path, ({ record }, reader) => this.#part(reader, resource, part, record, key))
  }

  async addPart(resource: Resource, part: Part, request: Target & WriteMode & Body, call: Call): Promise<Written> {
    const options = this.#parts.edits.readOptions(request.path)
    return await this.#update(
      resource,
      request,
      call,
      this.#reading(resource, call, (current) => readAddition(resource, part, current, request.body, options)),
      (record, reader) => {
        const added = entriesOf(part, record).at(-1)?.[part.key]
        return this.#part(reader, resource, part, record, String(added))
      }
    )
  }

  /** Fails with `NOT_FOUND`, and with `FIELD_INVALID` when the record cannot be without an entry. */
  async removePart(resource: Resource, part: Part, request: Target & WriteMode & Key, call: Call): Promise<Done> {
    const edit: Edit = async (_draft, current) => {
      if (entryOf(part, current, request.key) === undefined) throw notFound(`entry of ${part.name}`)
      const rest = withoutEntry(part, current, request.key)
      const empty = entriesOf(part, rest).length === 0
      if (!empty || resource.fields[part.field]?.required !== true) return rest
      throw new ControlError('FIELD_INVALID', `the last entry of ${part.name} must stay`, { field: part.name })
    }
    return await this.#update(resource, request, call, edit, async () => null)
  }

  /** The last revision of the store that serves. */
  get revision(): number {
    return this.#parts.applied.revision
  }

  /** What could not be applied, or null. */
  get lastError(): string | null {
    return this.#parts.applied.error
  }

  async processes(): Promise<ProcessState[]> {
    return await orUnavailable(this.#parts.reports.list())
  }

  /** Makes exactly `units` the part of the configuration that belongs to the process itself; the records' stays. */
  async applyOwn(units: ReadonlyMap<string, Unit>): Promise<Applied> {
    const { writer, live } = this.#parts
    return await writer.alone(async () => live.applyOwn(units))
  }

  /** Waits for the write that runs and closes the store. */
  async close(): Promise<void> {
    const { following, writer, reports, store } = this.#parts
    await following.stop()
    await reports.stop()
    await writer.alone(() => store.close())
  }

  async #read(
    resource: Resource,
    path: Target['path'],
    show: (found: Versioned, reader: StoreReader) => Promise<Json>
  ): Promise<Shown> {
    const { store, edits } = this.#parts
    const run = async () => {
      const found = await edits.find(store, resource, path)
      return { ...found, body: await show(found, store) }
    }
    return await orUnavailable(run())
  }

  #reading(resource: Resource, call: Call, read: (current: ResourceRecord) => Read): Edit {
    return async ({ tx }, current) => await this.#parts.edits.change(tx, resource, current, read(current), call)
  }

  async #update(
    resource: Resource,
    { path, ...mode }: Target & WriteMode,
    call: Call,
    edit: Edit,
    show: (record: ResourceRecord, reader: StoreReader) => Promise<Json>
  ): Promise<Written> {
    mayOperate(call.principal, resource, 'update')
    const { writer, edits, answers } = this.#parts
    const { value, done } = await writer.write(call, mode, async (draft) => {
      const current = await edits.find(draft.tx, resource, path)
      mustMatch(current, mode.ifMatch)
      mayChange(call.principal, current.record)
      const written = await draft.update(resource, current, await edit(draft, current.record))
      return { ...written, body: await show(written.record, draft.tx) }
    })
    return { ...value, ...done, uri: uriOf(resource, value.record, answers.baseUrl) }
  }

  async #part(reader: StoreReader, resource: Resource, part: Part, record: ResourceRecord, key: string): Promise<Json> {
    const context = await this.#parts.answers.context(reader, resource, [record], false)
    const shown = presentPart(resource, part, record, key, context)
    if (shown === undefined) throw notFound(`entry of ${part.name}`)
    return shown
  }
}
