import type { Json } from '../lib/json.js'
import { eventDestination } from '../resources/event-destinations.js'
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
import type { GateCounts } from '../runtime/address-gate.js'
import type { Unit } from '../runtime/plan.js'
import { fieldErrors } from '../schema/errors.js'
import type { ResourceRecord } from '../schema/field.js'
import type { Place, StoreReader } from '../store/store.js'
import { otherThanKey } from './access.js'
import type { Applied } from './apply.js'
import type {
  Call,
  Done,
  ListRequest,
  Principal,
  ProcessState,
  Read,
  Shown,
  Target,
  WriteMode,
  Written
} from './calls.js'
import { type LiveSources, noLiveSources, type SessionCommand } from './cluster/live-sources.js'
import { DeadLetterLists } from './dead-letters.js'
import { mustMatch, withIds } from './edits.js'
import { Endpoints } from './endpoints.js'
import { ControlError, notFound, ofMember, orUnavailable, refusedBody } from './errors.js'
import {
  type ControlOptions,
  type ControlParts,
  type Entrance,
  openParts,
  type ServiceAccount,
  type TestDestination
} from './open.js'
import { mayUseVaults } from './policy-checks.js'
import { LiveRecords, Reads } from './reads.js'
import { Revisions } from './revisions.js'
import { mayCommand, mayOperate, mayTouch } from './rights.js'
import type { Draft } from './transaction.js'
import type { Backups } from './transfer/backups.js'

type Body = { readonly body: unknown }
type Module = { readonly module: string }
type Key = { readonly key: string }

const notDelivered: TestDestination = async () => ({
  delivered: false,
  error: 'events are not delivered',
  duration_ms: 0
})

/** How an update comes to its record. */
type Edit = (draft: Draft, current: ResourceRecord) => Promise<ResourceRecord>

/**
 * The single writer: the one place that changes records and what runs, for every resource alike. What it refuses fails
 * with a `ControlError`; anything else is a fault.
 */
export class ControlPlane {
  readonly #parts: ControlParts
  readonly #revisions: Revisions
  readonly #reads: Reads
  readonly #test: TestDestination
  readonly #compile: ControlOptions['compile']
  readonly #deadLetters: DeadLetterLists

  private constructor(parts: ControlParts, sources: LiveSources, startedAt: number, options: ControlOptions) {
    const { testDestination = notDelivered, compile, lettersDropped = async () => undefined } = options
    this.#test = testDestination
    this.#compile = compile
    const { store, catalogue, answers, live, agents } = parts
    const endpoints = new Endpoints({
      store,
      sources,
      agents,
      units: () => live.units,
      baseUrl: () => answers.baseUrl,
      startedAt
    })
    this.#parts = parts
    this.#reads = new Reads(parts, new LiveRecords({ store, answers, agents, endpoints }))
    this.#deadLetters = new DeadLetterLists({ parts, reads: this.#reads, lettersDropped })
    this.#revisions = new Revisions({ store, catalogue, baseUrl: () => answers.baseUrl })
  }

  /**
   * Opens the store and brings its records to life; the units of the process itself are `applyOwn`'s. Fails with a
   * `StoreError` or a CodedError of the sealer. `sources`: what the API shows beside the records.
   */
  static async open(options: ControlOptions, sources: LiveSources = noLiveSources): Promise<ControlPlane> {
    return new ControlPlane(await openParts(options, sources), sources, options.clock.wall(), options)
  }

  /** Who the key belongs to; undefined when it opens nothing. Fails with `FORBIDDEN` when its owner is not active. */
  async authenticate(key: string): Promise<Principal | undefined> {
    return await orUnavailable(this.#parts.principals.authenticate(key))
  }

  /** What a key that opens nothing is instead, for people; undefined when it is nothing of this account. */
  async otherThanKey(key: string): Promise<string | undefined> {
    return await orUnavailable(otherThanKey(this.#parts.store, key))
  }

  /** May this address come in here? What only warns is logged, counted and allowed. */
  admits(address: string | undefined, entrance: Entrance = 'api'): boolean {
    const { gates, holder } = this.#parts
    return gates[entrance].admits(holder.current(), address)
  }

  /** What the IP restrictions of the management listener have done so far. */
  get gateCounts(): Readonly<Record<Entrance, GateCounts>> {
    const { api, dashboard } = this.#parts.gates
    return { api: api.counts, dashboard: dashboard.counts }
  }

  /** Fails with `ADMIN_REQUIRED`. What depends on the record or the body, the operations check themselves. */
  permit(resource: Resource, operation: Operation, { principal }: Call): void {
    mayOperate(principal, resource, operation)
  }

  async create(resource: Resource, request: Target & WriteMode & Body, call: Call): Promise<Written> {
    mayOperate(call.principal, resource, 'create')
    const { store, edits, answers, writer } = this.#parts
    const make = async () =>
      edits.make(store, resource, request.path, await withIds(store, resource, request.body), call)
    const { record, once } = await orUnavailable(make())
    mayTouch(call.principal, 'create', record)
    const { value, done } = await writer.write(call, request, async (draft) => {
      await mayUseVaults(draft.tx, call.principal, this.#compile, undefined, record)
      const written = await draft.insert(resource, record)
      return { ...written, body: await answers.one(draft.tx, resource, written.record, call.principal, once) }
    })
    return { ...value, ...done, uri: uriOf(resource, value.record, answers.baseUrl) }
  }

  async get(resource: Resource, request: Target, { principal }: Call): Promise<Read> {
    mayOperate(principal, resource, 'get')
    return await this.#reads.one(resource, request, principal)
  }

  async list(resource: Resource, request: ListRequest, { principal }: Call): Promise<Json> {
    mayOperate(principal, resource, 'list')
    return await this.#reads.list(resource, request, principal)
  }

  async update(resource: Resource, request: Target & WriteMode & Body, call: Call): Promise<Written> {
    const { edits, answers } = this.#parts
    const options = edits.readOptions(request.path)
    return await this.#update(
      resource,
      request,
      call,
      this.#reading(resource, call, (current) => readUpdate(resource, current, request.body, options)),
      (record, reader) => answers.one(reader, resource, record, call.principal)
    )
  }

  async remove(resource: Resource, { path, ...mode }: Target & WriteMode, call: Call): Promise<Done> {
    mayOperate(call.principal, resource, 'delete')
    const { writer, edits } = this.#parts
    const { done } = await writer.write(call, mode, async (draft) => {
      const current = await edits.find(draft.tx, resource, path)
      mustMatch(current, mode.ifMatch)
      mayTouch(call.principal, 'delete', current.record)
      await draft.remove(current.record)
    })
    return done
  }

  async getModule(resource: Resource, request: Target & Module, { principal }: Call): Promise<Shown> {
    return await this.#reads.module(resource, request, principal)
  }

  /** Replaces the module whole. */
  async replaceModule(resource: Resource, request: Target & WriteMode & Module & Body, call: Call): Promise<Written> {
    const { edits, answers } = this.#parts
    const { module, body, path } = request
    const options = edits.readOptions(path)
    const written = this.#update(
      resource,
      request,
      call,
      this.#reading(resource, call, (current) => readModule(resource, current, module, body, options)),
      (record, reader) => answers.module(reader, resource, record, module, call.principal)
    )
    return await written.catch((error: unknown) => {
      throw ofMember(error, module)
    })
  }

  /** Also clears `clearable` fields. Does nothing when there is nothing to remove. */
  async removeModule(resource: Resource, request: Target & WriteMode & Module, call: Call): Promise<Done> {
    const edit: Edit = async (_draft, current) => {
      const written = clearField(resource, current, request.module)
      if (!written.ok) throw refusedBody(written.problems)
      return written.record
    }
    return await this.#update(resource, request, call, edit, async () => null)
  }

  async getParts(resource: Resource, part: Part, request: Target, { principal }: Call): Promise<Shown> {
    return await this.#reads.entries(resource, part, request, principal)
  }

  async getPart(resource: Resource, part: Part, request: Target & Key, { principal }: Call): Promise<Shown> {
    return await this.#reads.entry(resource, part, request, principal)
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
        return this.#parts.answers.entry(reader, resource, part, record, String(added))
      }
    )
  }

  /** Changes what the body gives of one entry and leaves its place. Fails with `NOT_FOUND`. */
  async updatePart(
    resource: Resource,
    part: Part,
    request: Target & WriteMode & Key & Body,
    call: Call
  ): Promise<Written> {
    const { key, body, path } = request
    const options = this.#parts.edits.readOptions(path)
    let place = -1
    const edit: Edit = async ({ tx }, current) => {
      place = placeOf(part, current, key)
      if (place === -1) throw notFound(`entry of ${part.name}`)
      const read = readReplacement(resource, part, current, place, body, options)
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
  async removePart(resource: Resource, part: Part, request: Target & WriteMode & Key, call: Call): Promise<Done> {
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
   * Sends a command to a connected agent, of whichever process on the store. Fails with `NOT_FOUND` when it is not
   * connected, with `ADMIN_REQUIRED` when its credential is not the caller's, with `UNAVAILABLE` when it does not obey or
   * its process does not answer.
   */
  async commandSession(id: string, command: SessionCommand, { principal }: Call): Promise<void> {
    const { record } = await this.#reads.one(tunnelSession, { path: { id } }, principal)
    const opened = await orUnavailable(this.#parts.store.get(credential.name, String(record.body.credential)))
    mayCommand(principal, tunnelSession, (opened?.body as { readonly owner_id?: string } | undefined)?.owner_id)
    const sent = await orUnavailable(this.#parts.agents.command(id, command))
    if (!sent) throw notFound(`tunnel_session ${id}`)
  }

  /**
   * Sends a test event to a destination, at once and once, with the destination as its object. Fails with `NOT_FOUND`, and
   * with `FORBIDDEN` for callers who may not change it.
   */
  async testDestination(request: Target, call: Call): Promise<Json> {
    mayOperate(call.principal, eventDestination, 'update')
    const { record, body } = await this.#reads.one(eventDestination, request, call.principal)
    return await this.#test(record.id, body)
  }

  /** Events that their destinations refused for good. */
  get deadLetters(): DeadLetterLists {
    return this.#deadLetters
  }

  /** What was written, by whom and when. */
  get revisions(): Revisions {
    return this.#revisions
  }

  /** Copies of the store. */
  get backups(): Backups {
    return this.#parts.backups
  }

  /** What services beside the API read and write with, as the API does. Lives as long as the control plane. */
  get serviceAccount(): ServiceAccount {
    return this.#parts
  }

  /** The last revision of the store that serves. */
  get revision(): number {
    return this.#parts.applied.revision
  }

  /** The place that serves. */
  get place(): Place {
    return this.#parts.applied.place
  }

  /** How often the store turned out to have another history than the one that was followed. */
  get divergences(): number {
    return this.#parts.applied.divergences
  }

  /** Why a copy of the configuration serves and writes are refused; null: the store is there. */
  get degraded(): string | null {
    return this.#parts.applied.degraded
  }

  /** By how many revisions of the store this process is late. */
  get revisionsBehind(): number {
    return this.#parts.following.behind
  }

  /** What could not be applied, or why a copy serves, or null. */
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
    const { following, writer, reports, agents, store } = this.#parts
    await following.stop()
    await reports.stop()
    await agents.stop()
    await reports.leave()
    await writer.alone(() => store.close())
  }

  #reading(resource: Resource, call: Call, read: (current: ResourceRecord) => ReadBody): Edit {
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
      mayTouch(call.principal, 'update', current.record)
      const changed = await edit(draft, current.record)
      await mayUseVaults(draft.tx, call.principal, this.#compile, current.record, changed)
      const written = await draft.update(resource, current, changed)
      return { ...written, body: await show(written.record, draft.tx) }
    })
    return { ...value, ...done, uri: uriOf(resource, value.record, answers.baseUrl) }
  }
}
