import { parseAuthority } from '../lib/host.js'
import type { HostPort, SecretReference, Unit } from '../runtime/plan.js'
import type { ResourceRecord } from '../schema/field.js'
import type { RecordOf, Resource } from './resource.js'

/** A record with the revision that wrote it last. */
export interface PlannedRecord<R extends ResourceRecord = ResourceRecord> {
  readonly record: R
  readonly revision: number
}

/** What records of one kind mean for traffic: units under keys that follow from the id alone. */
export interface PlannedKind {
  readonly kind: string
  /** Every key under which a record with this id may have a unit. */
  keys(id: string): readonly string[]
  units(planned: PlannedRecord): readonly (readonly [key: string, unit: Unit])[]
}

/** Declares what the records of `resource` mean. Keeps their type. */
export function planned<R extends Resource>(
  resource: R,
  keys: PlannedKind['keys'],
  units: (planned: PlannedRecord<RecordOf<R>>) => readonly (readonly [key: string, unit: Unit])[]
): PlannedKind {
  return { kind: resource.name, keys, units: (one) => units(one as PlannedRecord<RecordOf<R>>) }
}

/** Where the value of a sealed field is found; undefined when the record has none that opens. */
export function secretAt({ record, revision }: PlannedRecord, path: string): SecretReference | undefined {
  if (record.secrets[path] === undefined) return undefined
  return { secret: secretName(record, path), version: revision }
}

/** Name of a sealed field among all. */
export function secretName({ kind, id }: Pick<ResourceRecord, 'kind' | 'id'>, path: string): string {
  return `${kind}/${id}#${path}`
}

/** Id of the unit of a certificate. */
export const certificateKey = (id: string) => `certificate:${id}`
/** Id of the unit of a certificate authority. */
export const authorityKey = (id: string) => `authority:${id}`

/** Parts of a `host:port` that a field has checked; an IPv6 host loses its brackets. */
export function splitHostport(hostport: string): HostPort {
  const parsed = parseAuthority(hostport)
  if (parsed?.port === undefined) throw new RangeError('a stored hostport is no host and port')
  return { host: parsed.host, port: parsed.port }
}
