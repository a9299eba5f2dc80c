import { type Json, timestampText } from '../lib/json.js'
import { uriOf } from '../resources/present.js'
import type { Change } from '../store/records.js'
import type { RevisionEntry, Store } from '../store/store.js'
import type { Principal } from './calls.js'
import { ControlError, controlErrors, notFound, orUnavailable } from './errors.js'
import type { GuardNote } from './guard/guard-note.js'
import type { Catalogue } from './records.js'
import { type ChangeKind, type RecordedChange, type RevisionNote, readNote } from './revision-note.js'
import { mayReadChange } from './rights.js'

const API_KEY = 'api_key'
const COLLECTION = '/revisions'
const HIDDEN = { fields: null, secrets: [] }
const CHANGES = { insert: 'created', update: 'updated', delete: 'deleted' } as const

export interface RevisionsParts {
  readonly store: Store
  readonly catalogue: Catalogue
  /** Scheme, host and port of the API as clients see it, without a slash at the end. */
  readonly baseUrl: () => string
}

export interface RevisionPage {
  readonly limit: number
  readonly before?: number | undefined
}

/** The history of the account: each write that was accepted, with who made it and what it changed. */
export class Revisions {
  readonly #parts: RevisionsParts

  constructor(parts: RevisionsParts) {
    this.#parts = parts
  }

  /** One page, newest first. `before`: only revisions below this number. */
  async list(page: RevisionPage): Promise<Json> {
    return await orUnavailable(this.#list(page))
  }

  /** Who made a revision, when, and how many records it changed. Fails with `NOT_FOUND`, also when it is forgotten. */
  async get(revision: number): Promise<Json> {
    return await orUnavailable(this.#find(revision).then((entry) => this.#present(entry)))
  }

  /** What the revision changed, record by record, and field by field where the viewer may read the record. Fails as `get`. */
  async diff(revision: number, viewer: Principal): Promise<Json> {
    return await orUnavailable(this.#find(revision).then((entry) => this.#diff(entry, viewer)))
  }

  /** Forgets all but the last `keep` revisions; what they made stays. */
  async forget(keep: number): Promise<void> {
    const { store } = this.#parts
    await orUnavailable(store.revision().then((last) => store.forgetHistory(last - keep + 1)))
  }

  async #list({ limit, before }: RevisionPage): Promise<Json> {
    const { store, baseUrl } = this.#parts
    const entries = await store.history({ limit: limit + 1, ...(before === undefined ? {} : { before }) })
    const shown = entries.slice(0, limit)
    const revisions: Json[] = []
    for (const entry of shown) revisions.push(await this.#present(entry))
    const uri = `${baseUrl()}${COLLECTION}`
    const last = entries.length > limit ? shown.at(-1)?.revision : undefined
    const next_page_uri = last === undefined ? null : `${uri}?before_id=${last}&limit=${limit}`
    return { revisions, uri, next_page_uri }
  }

  async #diff(entry: RevisionEntry, viewer: Principal): Promise<Json> {
    const { revision } = entry
    const uri = this.#revisionUri(revision)
    return {
      id: revision,
      uri: `${uri}/diff`,
      revision: { id: revision, uri },
      changes: await this.#changes(entry, viewer)
    }
  }

  async #find(revision: number): Promise<RevisionEntry> {
    const { store } = this.#parts
    const [entry] = await store.history({ limit: 1, before: revision + 1 })
    if (entry?.revision === revision) return entry
    if (revision < 1 || revision > (await store.revision())) throw notFound(`revision ${revision}`)
    throw new ControlError(controlErrors.NOT_FOUND, `revision ${revision} is older than what the history keeps`)
  }

  async #present(entry: RevisionEntry): Promise<Json> {
    const { revision, operationId, at, detail } = entry
    const note = readNote(detail)
    const count = { created: 0, updated: 0, deleted: 0 }
    for (const change of await this.#kinds(entry, note)) count[change]++
    return {
      id: revision,
      uri: this.#revisionUri(revision),
      created_at: timestampText(at),
      operation_id: operationId,
      principal: note === undefined ? null : { id: note.principal, subject: note.subject },
      api_key: note === undefined || note.key === null ? null : { id: note.key, uri: this.#uri(API_KEY, note.key) },
      ...count,
      reverts: this.#named(note?.reverts),
      reason: note?.reason ?? null,
      guard: note?.guard === undefined ? null : this.#guard(note.guard)
    }
  }

  async #kinds({ revision }: RevisionEntry, note: RevisionNote | undefined): Promise<ChangeKind[]> {
    if (note?.changes) return note.changes.map(({ change }) => change)
    return (await this.#parts.store.changesOf(revision)).map(({ operation }) => CHANGES[operation])
  }

  async #changes({ revision, detail }: RevisionEntry, viewer: Principal): Promise<Json[]> {
    const note = readNote(detail)
    if (!note?.changes) return (await this.#parts.store.changesOf(revision)).map((change) => this.#bare(change))
    const owners = await this.#owners(note.changes)
    return note.changes.map((recorded) => {
      const { kind, id, path, change } = recorded
      const readable = mayReadChange(viewer, recorded, owners.get(id))
      const { fields, secrets } = readable ? recorded : HIDDEN
      return { resource: kind, id, uri: `${this.#parts.baseUrl()}${path}`, change, fields, secrets }
    })
  }

  /** Owners of the records that are still there, by id. */
  async #owners(changes: readonly RecordedChange[]): Promise<ReadonlyMap<string, unknown>> {
    const there = await this.#parts.store.getMany(changes)
    return new Map(there.map(({ id, body }) => [id, (body as { readonly owner_id?: unknown }).owner_id]))
  }

  /** What is known of a change whose fields were not recorded: the service made it itself, or it was one of very many. */
  #bare({ kind, id, operation }: Change): Json {
    return { resource: kind, id, uri: this.#uri(kind, id), change: CHANGES[operation], fields: null, secrets: [] }
  }

  #guard({ conditions, state, reason, ended_at, by }: GuardNote): Json {
    return { conditions, state, reason, ended_at, by: this.#named(by ?? undefined) }
  }

  #named(revision: number | undefined): Json {
    return revision === undefined ? null : { id: revision, uri: this.#revisionUri(revision) }
  }

  #revisionUri(revision: number): string {
    return `${this.#parts.baseUrl()}${COLLECTION}/${revision}`
  }

  #uri(kind: string, id: string): string | null {
    const resource = this.#parts.catalogue.find(kind)
    if (resource === undefined || resource.path.includes('{')) return null
    return uriOf(resource, { id, body: {} }, this.#parts.baseUrl())
  }
}
