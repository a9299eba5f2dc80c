import { parseAuthority } from '../lib/host.js'
import { destinationOf, named, nameInMetadata } from '../runtime/names.js'
import type { HostPort, SecretReference, Unit, UpstreamUnit } from '../runtime/plan.js'
import type { ResourceRecord } from '../schema/field.js'
import type { RecordOf, Resource } from './resource.js'

/** Record with the revision that last wrote it. */
export interface PlannedRecord<R extends ResourceRecord = ResourceRecord> {
  readonly record: R
  readonly revision: number
  /** Name from a file. @default the name in the metadata of the record */
  readonly name?: string
}

/** Conversion of the records of one kind to units, whose keys depend on the id alone. */
export interface PlannedKind {
  readonly kind: string
  /** Returns every possible unit key of a record with this id. */
  keys(id: string): readonly string[]
  units(planned: PlannedRecord): readonly (readonly [key: string, unit: Unit])[]
}

/** Declares how records of `resource` become units; keeps their type. */
export function planned<R extends Resource>(
  resource: R,
  keys: PlannedKind['keys'],
  units: (planned: PlannedRecord<RecordOf<R>>) => readonly (readonly [key: string, unit: Unit])[]
): PlannedKind {
  return { kind: resource.name, keys, units: (one) => units(one as PlannedRecord<RecordOf<R>>) }
}

/** Returns the member `name` of the unit of a record; empty if the metadata of the record has none. */
export function ownName({ record }: PlannedRecord): { readonly name?: string } {
  const { metadata } = record.body
  return named(nameInMetadata(typeof metadata === 'string' ? metadata : undefined))
}

/** Returns the unit of a backend with its name: that of the metadata, of the file, or its destination. */
export function namedBackend(one: PlannedRecord, unit: UpstreamUnit): UpstreamUnit {
  const { name = one.name ?? destinationOf(unit) } = ownName(one)
  return { ...unit, ...named(name) }
}

/** Returns the reference to a sealed field; undefined if the record has no value that can be opened. */
export function secretAt({ record, revision }: PlannedRecord, path: string): SecretReference | undefined {
  if (record.secrets[path] === undefined) return undefined
  return { secret: secretName(record, path), version: revision }
}

/** Returns the unique name of a sealed field. */
export function secretName({ kind, id }: Pick<ResourceRecord, 'kind' | 'id'>, path: string): string {
  return `${kind}/${id}#${path}`
}

/** Returns the key of a certificate's unit. */
export const certificateKey = (id: string) => `certificate:${id}`
/** Returns the key of a certificate authority's unit. */
export const authorityKey = (id: string) => `authority:${id}`

/** Returns the key of an HTTP edge's unit. */
export const edgeKey = (id: string) => `edge:${id}`
/** Returns the key of a route's unit. */
export const routeKey = (id: string) => `route:${id}`
/** Returns the key of a TCP edge's unit. */
export const tcpEdgeKey = (id: string) => `tcp_edge:${id}`

/** Splits a validated `host:port`; removes the brackets of an IPv6 host. */
export function splitHostport(hostport: string): HostPort {
  const parsed = parseAuthority(hostport)
  if (parsed?.port === undefined) throw new RangeError('a stored hostport is no host and port')
  return { host: parsed.host, port: parsed.port }
}
