import type { Link, ResourceRecord } from './field.js'
import { linksOfMembers } from './members.js'
import type { Resource } from './resource.js'

/** A value that only one record may have in its space. */
export interface Claim {
  readonly space: string
  readonly value: string
  /** As in requests. */
  readonly field: string
}

/** Rows of the reference table for a record. */
export function linksOf(resource: Resource, record: ResourceRecord): Link[] {
  return linksOfMembers(resource.fields, record.body, '')
}

/** Links of `after` whose target `before` did not refer to: these must exist; an older one may be gone since. */
export function newLinks(resource: Resource, before: ResourceRecord | undefined, after: ResourceRecord): Link[] {
  const known = new Set(before === undefined ? [] : linksOf(resource, before).map(({ kind, id }) => `${kind} ${id}`))
  return linksOf(resource, after).filter(({ kind, id }) => !known.has(`${kind} ${id}`))
}

/** What the record takes for itself: rows of the table of claims. */
export function claimsOf(resource: Resource, { body }: ResourceRecord): Claim[] {
  return Object.entries(resource.fields).flatMap(([name, { unique, requestName }]) => {
    if (unique === undefined) return []
    const { space, within } = unique
    const value = body[name]
    const values = Array.isArray(value) ? value : [value]
    const prefix = within.map((other) => body[other])
    return values
      .filter((one) => one !== null && one !== undefined && one !== '')
      .map((one) => ({
        space,
        // Several values are a tuple, encoded so that no two tuples look alike.
        value: prefix.length === 0 ? String(one) : JSON.stringify([...prefix, one]),
        field: requestName(name)
      }))
  })
}

/** Names of the request's fields that only an administrator may give. */
export function adminFields(resource: Resource, body: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(resource.fields)
    .filter(([, { adminOnly }]) => adminOnly === true)
    .map(([name, { requestName }]) => requestName(name))
    .filter((name) => Object.hasOwn(body, name))
}
