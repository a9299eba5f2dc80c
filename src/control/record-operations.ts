import type { Clock } from '../lib/clock.js'
import type { Json } from '../lib/json.js'
import { credential } from '../resources/identities.js'
import { tunnelSession } from '../resources/live.js'
import {
  entriesOf,
  entryOf,
  placeOf,
  readAddition,
  readReplacement,
  uriOf,
  withoutEntry
} from '../resources/present.js'
import { clearField, type Read as ReadBody, readModule, readUpdate } from '../resources/read.js'
import type { Operation, Part, Resource } from '../resources/resource.js'
import { fieldErrors } from '../schema/errors.js'
import type { ResourceRecord } from '../schema/field.js'
import type { StoreReader } from '../store/store.js'
import type { Call, Done, ListRequest, Read, RecordPath, Shown, WriteMode, Written } from './calls.js'
import type { SessionCommand } from './cluster/live-sources.js'
import { mustMatch, withIds } from './edits.js'
import { ControlError, notFound, ofMember, orUnavailable, refusedBody } from './errors.js'
import type { ControlParts } from './parts.js'
import type { Reads } from './reads.js'
import { withRenewal } from './renewal.js'
import { mayCommand, mayOperate, mayTouch } from './rights.js'
import type { Draft } from './transaction.js'
import type { Writer } from './writer.js'

type Body = { readonly body: unknown }
type Module = { readonly module: string }
type Key = { readonly key: string }

/** Computes the updated record. */
type Edit = (draft: Draft, current: ResourceRecord) => Promise<ResourceRecord>

/** Parts that the operations on records need. */
export interface RecordOperationsParts extends Pick<ControlParts, 'edits' | 'answers' | 'agents'> {
  readonly store: StoreReader
  readonly writer: Pick<Writer, 'write'>
  readonly reads: Reads
  readonly clock: Clock
}

/**
 * The API's operations on records, the same for every resource. A rejection fails with a `ControlError`; any other error is
 * a fault of the program.
 */
export class RecordOperations {
  readonly #parts: RecordOperationsParts

  constructor(parts: RecordOperationsParts) {
    this.#parts = parts
  }

  /** Fails with `ADMIN_REQUIRED`. Checks that depend on the record or the body are in the operations. */
  permit(resource: Resource, operation: Operation, { principal }: Call): void {
    mayOperate(principal, resource, operation)
  }

  /** Creates a record. Fails with `ADMIN_REQUIRED`, with `FIELD_INVALID` and its like, and with `UNAVAILABLE`. */
  async create(resource: Resource, request: RecordPath & WriteMode & Body, call: Call): Promise<Written> {
    mayOperate(call.principal, resource, 'create')
    const { store, edits, answers, writer } = this.#parts
    const make = async () =>
      edits.make(store, resource, request.path, await withIds(store, resource, request.body), call)
    const { record, once } = await orUnavailable(edits.checkedAhead({ resource, body: request.body }, call, make))
    mayTouch(call.principal, 'create', record)
    const { value, done } = await writer.write(call, request, async (draft) => {
      const written = await draft.insert(resource, record)
      return { ...written, body: await answers.one(draft.tx, resource, written.record, call.principal, once) }
    })
    return { ...value, ...done, uri: uriOf(resource, value.record, answers.baseUrl) }
  }

  /** One record as the API shows it. Fails with `NOT_FOUND` or `ADMIN_REQUIRED`. */
  async get(resource: Resource, request: RecordPath, { principal }: Call): Promise<Read> {
    mayOperate(principal, resource, 'get')
    return await this.#parts.reads.one(resource, request, principal)
  }

  /** One page of the records that the caller may read, newest first. */
  async list(resource: Resource, request: ListRequest, { principal }: Call): Promise<Json> {
    mayOperate(principal, resource, 'list')
    return await this.#parts.reads.list(resource, request, principal)
  }

  /** Changes the fields that the body gives. Fails with `NOT_FOUND`, `PRECONDITION_FAILED`, and as `create` does. */
  async update(resource: Resource, request: RecordPath & WriteMode & Body, call: Call): Promise<Written> {
    mayOperate(call.principal, resource, 'update')
    const { edits, answers } = this.#parts
    const options = edits.readOptions(request.path, call)
    const edit = this.#reading(resource, call, (current) => readUpdate(resource, current, request.body, options))
    return await edits.checkedAhead({ resource, body: request.body }, call, () =>
      this.#update(resource, request, call, edit, (record, reader) =>
        answers.one(reader, resource, record, call.principal)
      )
    )
  }

  /** Deletes a record. Fails with `NOT_FOUND`, with `PRECONDITION_FAILED`, and with `IN_USE` while another refers to it. */
  async remove(resource: Resource, { path, ...mode }: RecordPath & WriteMode, call: Call): Promise<Done> {
    mayOperate(call.principal, resource, 'delete')
    const { writer, edits, reads, store } = this.#parts
    if (mode.dryRun !== true && (await reads.end(resource, { path })))
      return { committed: await orUnavailable(store.revision()), difference: { put: [], drop: [] } }
    const { done } = await writer.write(call, mode, async (draft) => {
      const current = await edits.find(draft.tx, resource, path)
      mustMatch(current, mode.ifMatch)
      mayTouch(call.principal, 'delete', current.record)
      await draft.remove(current.record)
    })
    return done
  }

  /** One module of a record. Fails with `NOT_FOUND`. */
  async getModule(resource: Resource, request: RecordPath & Module, { principal }: Call): Promise<Shown> {
    return await this.#parts.reads.module(resource, request, principal)
  }

  /** Replaces a module with all its fields. */
  async replaceModule(
    resource: Resource,
    request: RecordPath & WriteMode & Module & Body,
    call: Call
  ): Promise<Written> {
    mayOperate(call.principal, resource, 'update')
    const { edits, answers } = this.#parts
    const { module, body, path } = request
    const options = edits.readOptions(path, call)
    const edit = this.#reading(resource, call, (current) => readModule(resource, current, module, body, options))
    const written = edits.checkedAhead({ resource, body, module }, call, () =>
      this.#update(resource, request, call, edit, (record, reader) =>
        answers.module(reader, resource, record, module, call.principal)
      )
    )
    return await written.catch((error: unknown) => {
      throw ofMember(error, module)
    })
  }

  /** Removes a module, and clears `clearable` fields. Does nothing if there is none. */
  async removeModule(resource: Resource, request: RecordPath & WriteMode & Module, call: Call): Promise<Done> {
    const edit: Edit = async (_draft, current) => {
      const written = clearField(resource, current, request.module)
      if (!written.ok) throw refusedBody(written.problems)
      return written.record
    }
    return await this.#update(resource, request, call, edit, async () => null)
  }

  /**
   * Renews the managed certificate of a record early; does nothing while it is being requested. Fails with
   * `CERTIFICATE_NOT_MANAGED`, with `RENEWAL_TOO_SOON`, and as `update` does.
   */
  async renewCertificate(resource: Resource, request: RecordPath & WriteMode, call: Call): Promise<Written> {
    const { answers, clock } = this.#parts
    return await this.#update(
      resource,
      request,
      call,
      async (_draft, current) => withRenewal(current, clock.wall()),
      (record, reader) => answers.one(reader, resource, record, call.principal)
    )
  }

  /** The entries of a list in a record. */
  async getParts(resource: Resource, part: Part, request: RecordPath, { principal }: Call): Promise<Shown> {
    return await this.#parts.reads.entries(resource, part, request, principal)
  }

  /** One entry of a list in a record. Fails with `NOT_FOUND`. */
  async getPart(resource: Resource, part: Part, request: RecordPath & Key, { principal }: Call): Promise<Shown> {
    return await this.#parts.reads.entry(resource, part, request, principal)
  }

  /** Adds an entry at the end of a list in a record. */
  async addPart(resource: Resource, part: Part, request: RecordPath & WriteMode & Body, call: Call): Promise<Written> {
    const options = this.#parts.edits.readOptions(request.path, call)
    return await this.#update(
      resource,
      request,
      call,
      this.#reading(resource, call, (current) => readAddition(resource, part, current, request.body, options)),
      (record, reader) => {
        const added = entriesOf(part, record).at(-1)?.[part.key]
        return this.#parts.answers.entry(reader, resource, part, record, String(added))
      }
    )
  }

  /** Changes the given fields of one entry, which keeps its position. Fails with `NOT_FOUND`. */
  async updatePart(
    resource: Resource,
    part: Part,
    request: RecordPath & WriteMode & Key & Body,
    call: Call
  ): Promise<Written> {
    const { key, body, path } = request
    const options = this.#parts.edits.readOptions(path, call)
    let place = -1
    const edit: Edit = async ({ tx }, current) => {
      place = placeOf(part, current, key)
      if (place === -1) throw notFound(`entry of ${part.name}`)
      const read = readReplacement(resource, part, current, { place, body }, options)
      return await this.#parts.edits.change(tx, resource, current, read, call)
    }
    return await this.#update(resource, request, call, edit, (record, reader) => {
      return this.#parts.answers.entry(
        reader,
        resource,
        part,
        record,
        String(entriesOf(part, record)[place]?.[part.key])
      )
    })
  }

  /** Fails with `NOT_FOUND`, and with `FIELD_INVALID` when the record cannot be without an entry. */
  async removePart(resource: Resource, part: Part, request: RecordPath & WriteMode & Key, call: Call): Promise<Done> {
    const edit: Edit = async (_draft, current) => {
      if (entryOf(part, current, request.key) === undefined) throw notFound(`entry of ${part.name}`)
      const rest = withoutEntry(part, current, request.key)
      const empty = entriesOf(part, rest).length === 0
      if (!empty || resource.fields[part.field]?.required !== true) return rest
      throw new ControlError(fieldErrors.FIELD_INVALID, `the last entry of ${part.name} must stay`, {
        field: part.name
      })
    }
    return await this.#update(resource, request, call, edit, async () => null)
  }

  /**
   * Sends a command to a connected agent of any process on the store. Fails with `NOT_FOUND` if it is not connected, with
   * `ADMIN_REQUIRED` if its credential is not the caller's, with `UNAVAILABLE` if it does not execute the command or its
   * process does not respond.
   */
  async commandSession(id: string, command: SessionCommand, { principal }: Call): Promise<void> {
    const { record } = await this.#parts.reads.one(tunnelSession, { path: { id } }, principal)
    const opened = await orUnavailable(this.#parts.store.get(credential.name, String(record.body.credential)))
    mayCommand(principal, tunnelSession, (opened?.body as { readonly owner_id?: string } | undefined)?.owner_id)
    const sent = await orUnavailable(this.#parts.agents.command(id, command))
    if (!sent) throw notFound(`tunnel_session ${id}`)
  }

  #reading(resource: Resource, call: Call, read: (current: ResourceRecord) => ReadBody): Edit {
    return async ({ tx }, current) => await this.#parts.edits.change(tx, resource, current, read(current), call)
  }

  async #update(
    resource: Resource,
    { path, ...mode }: RecordPath & WriteMode,
    call: Call,
    edit: Edit,
    show: (record: ResourceRecord, reader: StoreReader) => Promise<Json>
  ): Promise<Written> {
    mayOperate(call.principal, resource, 'update')
    const { writer, edits, answers } = this.#parts
    const { value, done } = await writer.write(call, mode, async (draft) => {
      const current = await edits.find(draft.tx, resource, path)
      mustMatch(current, mode.ifMatch)
      mayTouch(call.principal, 'update', current.record)
      const changed = await edit(draft, current.record)
      const written = await draft.update(resource, current, changed)
      return { ...written, body: await show(written.record, draft.tx) }
    })
    return { ...value, ...done, uri: uriOf(resource, value.record, answers.baseUrl) }
  }
}
