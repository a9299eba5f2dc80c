import { timestampText } from '../lib/json.js'
import { Slices, type Steps } from '../lib/slices.js'
import { uriOf } from '../resources/present.js'
import { recordText } from '../resources/resource.js'
import type { StoredRecord } from '../store/records.js'
import type { RevisionEntry, Store } from '../store/store.js'
import type { Principal } from './calls.js'
import { orUnavailable } from './errors.js'
import { fieldDifferences } from './field-differences.js'
import type { GuardNote } from './guard-note.js'
import type { Catalogue } from './records.js'
import type { RevisionDiff, RevisionList, RevisionView } from './revision-answers.js'
import { type ChangeKind, type RevisionNote, readNote } from './revision-note.js'
import { CHANGES, changesBetween, type NetChange, revisionEntry } from './revision-range.js'
import { mayReadChange } from './rights.js'

const API_KEY = 'api_key'
const COLLECTION = '/revisions'
const HIDDEN = { name: null, description: null, fields: null, differences: null, secrets: [] }

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

/** History of the account: each accepted write, with its author and changes. */
export class Revisions {
  readonly #parts: RevisionsParts

  constructor(parts: RevisionsParts) {
    this.#parts = parts
  }

  /** One page, newest first. `before`: only revisions below this number. */
  async list(page: RevisionPage): Promise<RevisionList> {
    return await orUnavailable(this.#list(page))
  }

  /** Returns a revision's author, time and number of changed records. Fails with `NOT_FOUND`, also if it was pruned. */
  async get(revision: number): Promise<RevisionView> {
    return await orUnavailable(revisionEntry(this.#parts.store, revision).then((entry) => this.#present(entry)))
  }

  /**
   * Returns the differences of the records between two revisions, by default from the previous one: by record, and by field
   * if the viewer may read the record. `from` may be 0, the empty account. Fails like `get`, also for each revision in
   * between.
   */
  async diff(revision: number, viewer: Principal, from = revision - 1): Promise<RevisionDiff> {
    return await orUnavailable(this.#diff(revision, viewer, from))
  }

  /** Prunes all but the last `keep` revisions; the configuration is unchanged. */
  async forget(keep: number): Promise<void> {
    const { store } = this.#parts
    await orUnavailable(store.revision().then((last) => store.forgetHistory(last - keep + 1)))
  }

  async #list({ limit, before }: RevisionPage): Promise<RevisionList> {
    const { store, baseUrl } = this.#parts
    const entries = await store.history({ limit: limit + 1, ...(before === undefined ? {} : { before }) })
    const shown = entries.slice(0, limit)
    const revisions: RevisionView[] = []
    for (const entry of shown) revisions.push(await this.#present(entry))
    const uri = `${baseUrl()}${COLLECTION}`
    const last = entries.length > limit ? shown.at(-1)?.revision : undefined
    const next_page_uri = last === undefined ? null : `${uri}?before_id=${last}&limit=${limit}`
    return { revisions, uri, next_page_uri }
  }

  async #diff(revision: number, viewer: Principal, from: number): Promise<RevisionDiff> {
    const { store } = this.#parts
    const { at, detail } = await revisionEntry(store, revision)
    if (from > 0 && from !== revision - 1) await revisionEntry(store, from)
    const changes = await changesBetween(store, from, revision)
    const there = new Map((await store.getMany(changes)).map((record) => [recordText(record), record]))
    const uri = this.#revisionUri(revision)
    const note = readNote(detail)
    return {
      id: revision,
      uri: from === revision - 1 ? `${uri}/diff` : `${uri}/diff?from=${from}`,
      revision: { id: revision, uri },
      from: { id: from, uri: from === 0 ? null : this.#revisionUri(from) },
      created_at: timestampText(at),
      principal: note === undefined ? null : { id: note.principal, subject: note.subject },
      changes: await new Slices().run(this.#changes(changes, there, viewer))
    }
  }

  async #present(entry: RevisionEntry): Promise<RevisionView> {
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

  /** `there`: the records that are still there. */
  *#changes(
    changes: readonly NetChange[],
    there: ReadonlyMap<string, StoredRecord>,
    viewer: Principal
  ): Steps<ShownChange[]> {
    const shown: ShownChange[] = []
    for (const net of changes) {
      const { kind, id, path, change } = net
      const uri = path === undefined ? this.#uri(kind, id) : `${this.#parts.baseUrl()}${path}`
      shown.push({ resource: kind, id, uri, change, ...shownFields(net, there.get(recordText(net)), viewer) })
      yield
    }
    return shown
  }

  #guard({ conditions, state, reason, ended_at, by }: GuardNote): RevisionView['guard'] {
    return { conditions, state, reason, ended_at, by: this.#named(by ?? undefined) }
  }

  #named(revision: number | undefined): RevisionView['reverts'] {
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

type ShownChange = RevisionDiff['changes'][number]

function shownFields(
  { fields, secrets, ...net }: NetChange,
  there: StoredRecord | undefined,
  viewer: Principal
): Pick<ShownChange, 'name' | 'description' | 'fields' | 'differences' | 'secrets'> {
  if (fields === null) return { ...HIDDEN, secrets }
  const body = (there?.body ?? {}) as { readonly owner_id?: unknown; readonly description?: unknown }
  if (!mayReadChange(viewer, { kind: net.kind, fields }, body.owner_id)) return HIDDEN
  const { before, after } = fields.description ?? { before: null, after: body.description }
  const description = [after, before].find((one) => typeof one === 'string' && one !== '')
  const { name = null } = net
  return { name, description: (description as string) ?? null, fields, differences: fieldDifferences(fields), secrets }
}
