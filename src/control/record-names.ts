import { nameInMetadata, UnitNames } from '../runtime/names.js'
import type { ResourceRecord } from '../schema/field.js'
import { addUnits, type DerivedUnits } from './units.js'

/** Fields that name records without units, such as vaults, bots and reserved domains. */
const NAME_FIELDS = ['name', 'domain'] as const

/**
 * Returns the name of a record for people: that of its site, route or backend, the name in its metadata, or its field `name`; undefined if it
 * has none. `parent`: the record that contains it; a route without a named site has no name of its own.
 */
export function recordName(record: ResourceRecord, parent?: ResourceRecord): string | undefined {
  const { id, body } = record
  const derived: DerivedUnits = { units: new Map(), secrets: new Map() }
  for (const one of [parent, record])
    if (one !== undefined && !isBareSite(one)) addUnits(derived, { record: one, revision: 0 })
  const names = new UnitNames(() => derived.units)
  const inMetadata = metadataName(record)
  const backend = names.backendOf(id)
  const found =
    inMetadata ??
    (names.siteOfRoute(id) === undefined ? undefined : names.routeOf(id)) ??
    names.siteOf(id) ??
    (backend === id ? undefined : backend) ??
    NAME_FIELDS.map((field) => body[field]).find((value) => typeof value === 'string' && value !== '')
  return found as string | undefined
}

/** Is the record a site without hosts, which only its metadata can name? */
function isBareSite(record: ResourceRecord): boolean {
  const { hostports } = record.body
  return Array.isArray(hostports) && hostports.length === 0 && metadataName(record) === undefined
}

function metadataName({ body: { metadata } }: ResourceRecord): string | undefined {
  return nameInMetadata(typeof metadata === 'string' ? metadata : undefined)
}
