import { reservedDomain } from '../resources/domains.js'
import { httpsEdge } from '../resources/edges.js'
import { splitHostport } from '../resources/units.js'
import { fieldErrors } from '../schema/errors.js'
import type { ResourceRecord } from '../schema/field.js'
import type { StoreReader } from '../store/store.js'
import { ControlError, inUse } from './errors.js'

/** Where the names of reserved domains are unique. */
const DOMAIN_SPACE = 'domain'

/** Id of the reserved domain that covers a host: of its own name, else of the nearest wildcard above it. */
export async function keeperOfHost(reader: StoreReader, host: string): Promise<string | undefined> {
  const own = await reader.keeperOf(DOMAIN_SPACE, host)
  if (own !== undefined) return own.id
  for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
    const wildcard = await reader.keeperOf(DOMAIN_SPACE, `*${host.slice(dot)}`)
    if (wildcard !== undefined) return wildcard.id
  }
  return undefined
}

/** Fails with `IN_USE` when an edge serves the reserved domain that shall go. */
export function mustNotServe({ kind, id, body }: ResourceRecord, edgeOn: (host: string) => string | undefined): void {
  if (kind !== reservedDomain.name) return
  const edge = edgeOn(String(body.domain))
  if (edge !== undefined) throw inUse({ kind, id }, [`${httpsEdge.name} ${edge}`])
}

/** Fails with `REF_NOT_FOUND` when a host that an edge takes anew is below no reserved domain. */
export async function hostsMustBeReserved(
  reader: StoreReader,
  before: ResourceRecord | undefined,
  after: ResourceRecord
): Promise<void> {
  if (after.kind !== httpsEdge.name) return
  const held = new Set((before?.body.hostports ?? []) as readonly string[])
  for (const [index, hostport] of (after.body.hostports as readonly string[]).entries()) {
    if (held.has(hostport) || (await keeperOfHost(reader, splitHostport(hostport).host)) !== undefined) continue
    const message = `${hostport} is below no reserved domain of the account`
    throw new ControlError(fieldErrors.REF_NOT_FOUND, message, { field: `hostports[${index}]` })
  }
}
