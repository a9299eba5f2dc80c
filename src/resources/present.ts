import type { Json } from '../lib/json.js'
import type { PresentContext, ResourceRecord } from './field.js'
import { presentMembers } from './members.js'
import type { Resource } from './resource.js'

/** Path of a record below the API's base URL, parents' ids filled in. */
export function pathOf(resource: Resource, record: Pick<ResourceRecord, 'id' | 'body'>): string {
  return `${collectionPath(resource, record.body)}/${record.id}`
}

/** Path of the collection; `values` has the parents' ids. */
function collectionPath(resource: Resource, values: Readonly<Record<string, unknown>>): string {
  return resource.path.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name]))
}

export function uriOf(resource: Resource, record: Pick<ResourceRecord, 'id' | 'body'>, baseUrl: string): string {
  return `${resource.relativeUri === true ? '' : baseUrl}${pathOf(resource, record)}`
}

/** The answer that shows `record`: every documented key, always. `once` has the members of its creation. */
export function present(
  resource: Resource,
  record: ResourceRecord,
  context: PresentContext,
  once: Readonly<Record<string, Json>> = {}
): { [key: string]: Json } {
  return {
    id: record.id,
    uri: uriOf(resource, record, context.baseUrl),
    created_at: record.createdAt,
    ...presentMembers(resource.fields, record.body, '', record, context),
    ...once
  }
}

/** The answer that shows the module `name` alone; null when it is not configured. */
export function presentModule(resource: Resource, record: ResourceRecord, name: string, context: PresentContext): Json {
  const field = resource.fields[name]
  return field === undefined ? null : field.present(record.body[name] ?? null, name, record, context)
}

/** One page of a collection. `next` is the id that the next page begins before, undefined at the end. */
export function presentList(
  resource: Resource,
  records: readonly ResourceRecord[],
  page: { readonly limit: number; readonly next?: string; readonly parents?: Readonly<Record<string, string>> },
  context: PresentContext
): { [key: string]: Json } {
  const unprivileged = { ...context, showSecrets: () => false }
  const uri = `${context.baseUrl}${collectionPath(resource, page.parents ?? {})}`
  return {
    [resource.listKey]: records.map((record) => present(resource, record, unprivileged)),
    uri,
    next_page_uri: page.next === undefined ? null : `${uri}?before_id=${page.next}&limit=${page.limit}`
  }
}
