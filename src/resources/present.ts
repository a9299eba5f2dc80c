import { isObject, type Json } from '../lib/json.js'
import type { PresentContext, ResourceRecord } from '../schema/field.js'
import { presentMembers } from '../schema/objects.js'
import { type Read, type ReadOptions, readUpdate } from './read.js'
import type { Part, Resource } from './resource.js'

/** Returns the path of a record below the API's base URL, with parent ids. */
export function pathOf(resource: Resource, record: Pick<ResourceRecord, 'id' | 'body'>): string {
  return `${collectionPath(resource, record.body)}/${record.id}`
}

/** Returns the path of the collection; `values` has the parent ids. */
function collectionPath(resource: Resource, values: Readonly<Record<string, unknown>>): string {
  return resource.path.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name]))
}

/** Returns the URL of a record, or its path if the resource uses relative ones. */
export function uriOf(resource: Resource, record: Pick<ResourceRecord, 'id' | 'body'>, baseUrl: string): string {
  return `${resource.relativeUri === true ? '' : baseUrl}${pathOf(resource, record)}`
}

/**
 * Returns the response for `record` with every documented key, and `declared` for a record of a site file. `once` has the members shown
 * only at creation.
 */
export function present(
  resource: Resource,
  record: ResourceRecord,
  context: PresentContext,
  once: Readonly<Record<string, Json>> = {}
): { [key: string]: Json } {
  const declared = context.placeOf?.(record)
  return {
    id: record.id,
    uri: uriOf(resource, record, context.baseUrl),
    created_at: record.createdAt,
    ...presentMembers(resource.fields, record.body, '', record, context),
    ...once,
    ...(declared === undefined ? {} : { declared })
  }
}

/** Returns the response with only the module `name`; null if it is not configured. */
export function presentModule(resource: Resource, record: ResourceRecord, name: string, context: PresentContext): Json {
  const field = resource.fields[name]
  return field === undefined ? null : field.present(record.body[name] ?? null, name, record, context)
}

/** A page of a collection. */
interface ListedPage {
  readonly limit: number
  /** Cursor of the next page. @default this is the last page */
  readonly next?: string
  /** @default every object is listed */
  readonly filter?: string | undefined
  /** Ids of the parents in the path. @default none */
  readonly parents?: Readonly<Record<string, string>>
}

/** Returns one page of a collection. */
export function presentList(
  resource: Resource,
  records: readonly ResourceRecord[],
  { limit, next, filter, parents = {} }: ListedPage,
  context: PresentContext
): { [key: string]: Json } {
  const unprivileged = { ...context, showSecrets: () => false }
  const filtered = filter === undefined ? '' : `&filter=${encodeURIComponent(filter)}`
  const uri = `${context.baseUrl}${collectionPath(resource, parents)}`
  return {
    [resource.listKey]: records.map((record) => present(resource, record, unprivileged)),
    uri,
    next_page_uri: next === undefined ? null : `${uri}?before_id=${next}&limit=${limit}${filtered}`
  }
}

type Entry = Readonly<Record<string, unknown>>

/** Returns the entries of a part in order. */
export function entriesOf(part: Part, record: ResourceRecord): readonly Entry[] {
  return (record.body[part.field] ?? []) as readonly Entry[]
}

/** Returns the entry with this key; undefined if there is none. */
export function entryOf(part: Part, record: ResourceRecord, key: string): Entry | undefined {
  return entriesOf(part, record)[placeOf(part, record, key)]
}

/** Returns the index of the entry with this key; -1 if there is none. */
export function placeOf(part: Part, record: ResourceRecord, key: string): number {
  return entriesOf(part, record).findIndex((entry) => entry[part.key] === key)
}

/** Reads the body of a POST that adds an entry, as an update of the record. */
export function readAddition(
  resource: Resource,
  part: Part,
  current: ResourceRecord,
  body: unknown,
  options: ReadOptions
): Read {
  const entries = entriesOf(part, current)
  const list = [...entries, withoutPath(body, options.path)]
  return readEntries(resource, part, current, { list, place: entries.length }, options)
}

/** Reads the body of a PATCH of the entry at `place`; members that are not given are unchanged. */
export function readReplacement(
  resource: Resource,
  part: Part,
  current: ResourceRecord,
  { place, body }: { readonly place: number; readonly body: unknown },
  options: ReadOptions
): Read {
  const whole = withoutPath(body, options.path)
  const given = options.zeroIsAbsent === true && isObject(whole) ? withoutUnset(part, whole) : whole
  const entries = entriesOf(part, current)
  const changed = isObject(given) ? { ...entries[place], ...given } : given
  return readEntries(resource, part, current, { list: entries.with(place, changed as Entry), place }, options)
}

/** Removes an empty key and empty lists, which mean "not set". */
function withoutUnset({ key }: Part, entry: Entry): Entry {
  const isUnset = ([name, value]: [string, unknown]) =>
    name === key ? value === '' || value === null : Array.isArray(value) && value.length === 0
  return Object.fromEntries(Object.entries(entry).filter((member) => !isUnset(member)))
}

/** Reads a complete list in which one entry is the request body. */
function readEntries(
  resource: Resource,
  part: Part,
  current: ResourceRecord,
  { list, place }: { readonly list: readonly unknown[]; readonly place: number },
  options: ReadOptions
): Read {
  const read = readUpdate(resource, current, { [part.field]: list }, options)
  if (read.ok) return read
  const at = `${part.field}[${place}]`
  const problems = read.problems.map((problem) => {
    const field = problem.field.startsWith(at) ? problem.field.slice(at.length).replace(/^\./, '') : part.key
    return { ...problem, field }
  })
  return { ok: false, problems }
}

/** Returns the record without the entry of this key. */
export function withoutEntry(part: Part, record: ResourceRecord, key: string): ResourceRecord {
  const entries = entriesOf(part, record).filter((entry) => entry[part.key] !== key)
  return { ...record, body: { ...record.body, [part.field]: entries } }
}

/** Returns the response with all entries. */
export function presentParts(resource: Resource, part: Part, record: ResourceRecord, context: PresentContext): Json {
  const whole = present(resource, record, context)
  return { [part.name]: whole[part.field] ?? [], uri: `${uriOf(resource, record, context.baseUrl)}/${part.name}` }
}

/** Returns the response with the entry of this key; undefined if there is none. */
export function presentPart(
  resource: Resource,
  part: Part,
  record: ResourceRecord,
  key: string,
  context: PresentContext
): Json | undefined {
  const shown = present(resource, record, context)[part.field] as readonly Entry[]
  return shown.find((entry) => entry[part.key] === key) as Json | undefined
}

function withoutPath(body: unknown, path: Readonly<Record<string, string>>): unknown {
  if (!isObject(body)) return body
  return Object.fromEntries(Object.entries(body).filter(([key, value]) => path[key] !== value))
}
