import { isDeepStrictEqual } from 'node:util'
import type { Json } from '../lib/json.js'
import { named } from '../runtime/names.js'
import type { Change } from '../store/records.js'
import type { RevisionEntry, Store } from '../store/store.js'
import { ControlError, controlErrors, notFound } from './errors.js'
import { type ChangeKind, type RecordedChange, readNote } from './revision-note.js'

/** Kinds of changes in responses by the store's operations. */
export const CHANGES = { insert: 'created', update: 'updated', delete: 'deleted' } as const

/** Revisions that are read together: each may hold many changes. */
const PAGE = 20

/** Difference of a record between two revisions. */
export interface NetChange extends Pick<RecordedChange, 'kind' | 'id' | 'name' | 'change'> {
  /** Path of the record below the API's base URL; undefined if not recorded. */
  readonly path: string | undefined
  /** Changed fields; null if not recorded. */
  readonly fields: RecordedChange['fields'] | null
  readonly secrets: readonly string[]
}

/** Returns one revision of the history. Fails with `NOT_FOUND`, which states whether it was pruned or never existed. */
export async function revisionEntry(store: Store, revision: number): Promise<RevisionEntry> {
  const [entry] = await store.history({ limit: 1, before: revision + 1 })
  if (entry?.revision === revision) return entry
  throw await missingRevision(store, revision)
}

/** `NOT_FOUND` for a revision that the history does not have. */
export async function missingRevision(store: Store, revision: number): Promise<ControlError> {
  const last = await store.revision()
  if (revision < 1 || revision > last) return notFound(`revision ${revision}; the last one is ${last}`)
  return new ControlError(controlErrors.NOT_FOUND, `revision ${revision} is older than what the history keeps`)
}

/**
 * The revisions behind `from` up to `to`, newest first. Fails with `NOT_FOUND` when one of them is not kept: `from` itself need
 * not be.
 */
export async function* revisionsDown(store: Store, from: number, to: number): AsyncGenerator<RevisionEntry> {
  for (let next = to; next > from; ) {
    const entries = await store.history({ limit: Math.min(PAGE, next - from), before: next + 1 })
    for (const entry of entries) {
      if (entry.revision !== next) break
      yield entry
      next--
    }
    if (entries.at(-1)?.revision !== next + 1) throw await missingRevision(store, from === next - 1 ? next : from)
  }
}

/** Returns the differences of the records from `from` to `to`. With `from` above `to`: the changes of going back. */
export async function changesBetween(store: Store, from: number, to: number): Promise<NetChange[]> {
  const [low, high] = from < to ? [from, to] : [to, from]
  const net = new NetChanges()
  for await (const entry of revisionsDown(store, low, high)) {
    const recorded = readNote(entry.detail)?.changes ?? (await store.changesOf(entry.revision)).map(bareChange)
    for (const change of [...recorded].reverse()) net.addOlder(change)
  }
  return from <= to ? net.list() : net.list().map(opposite)
}

/** Returns a change without recorded fields: the service itself made it, or it was one of very many. */
function bareChange({ kind, id, operation }: Change): NetChange {
  return { kind, id, path: undefined, change: CHANGES[operation], fields: null, secrets: [] }
}

interface Pair {
  readonly before: Json
  readonly after: Json
}

interface Net {
  readonly kind: string
  readonly id: string
  name: string | undefined
  readonly path: string | undefined
  existed: boolean
  readonly exists: boolean
  fields: Map<string, Pair> | undefined
  readonly secrets: Set<string>
}

/** Changes of several revisions as one for each record. */
class NetChanges {
  readonly #records = new Map<string, Net>()

  /** `change` was made before all that were added. */
  addOlder(change: NetChange | RecordedChange): void {
    const { kind, id, name, fields, secrets } = change
    const key = `${kind} ${id}`
    const known = this.#records.get(key)
    const existed = change.change !== 'created'
    if (known === undefined) {
      const own = fields === null ? undefined : new Map(Object.entries(fields))
      const exists = change.change !== 'deleted'
      this.#records.set(key, {
        kind,
        id,
        name,
        path: change.path,
        existed,
        exists,
        fields: own,
        secrets: new Set(secrets)
      })
      return
    }
    known.existed = existed
    known.name ??= name
    for (const path of secrets) known.secrets.add(path)
    if (fields === null) known.fields = undefined
    for (const [name, { before, after }] of Object.entries(fields ?? {})) {
      known.fields?.set(name, {
        before,
        after: known.fields.has(name) ? (known.fields.get(name) as Pair).after : after
      })
    }
  }

  /** In the order of their last changes. */
  list(): NetChange[] {
    const listed = [...this.#records.values()]
      .reverse()
      .map(({ kind, id, name, path, existed, exists, fields, secrets }) => {
        const change: ChangeKind = !existed ? 'created' : exists ? 'updated' : 'deleted'
        const differing = [...(fields ?? [])].filter(([, { before, after }]) => !isDeepStrictEqual(before, after))
        const own = fields === undefined ? null : Object.fromEntries(differing)
        const nothing = existed === exists && (!existed || (own !== null && differing.length + secrets.size === 0))
        return { kind, id, ...named(name), path, change, fields: own, secrets: [...secrets].sort(), nothing }
      })
    return listed.filter(({ nothing }) => !nothing).map(({ nothing: _, ...change }) => change)
  }
}

const OPPOSITE = { created: 'deleted', updated: 'updated', deleted: 'created' } as const

function opposite({ change, fields, ...rest }: NetChange): NetChange {
  const turned = Object.entries(fields ?? {}).map(([name, { before, after }]) => [
    name,
    { before: after, after: before }
  ])
  return { ...rest, change: OPPOSITE[change], fields: fields === null ? null : Object.fromEntries(turned) }
}
