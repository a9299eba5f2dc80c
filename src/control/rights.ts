import { apiKey } from '../resources/api-key.js'
import type { ResourceRecord } from '../resources/field.js'
import { adminFields } from '../resources/relations.js'
import type { Operation, Resource } from '../resources/resource.js'
import type { StoreReader } from '../store/store.js'
import type { Principal } from './calls.js'
import { ControlError } from './control-error.js'
import { USER } from './principals.js'

const READS: readonly Operation[] = ['get', 'list']

/** Fails with `ADMIN_REQUIRED` when only administrators may do this to the resource. */
export function mayOperate(principal: Principal, resource: Resource, operation: Operation): void {
  if (principal.role === 'administrator' || resource.writes !== 'admin' || READS.includes(operation)) return
  throw new ControlError('ADMIN_REQUIRED', `only an administrator may write a ${resource.name}`)
}

/** Fails with `ADMIN_REQUIRED` when the body gives to somebody else what only an administrator may give. */
export function mayGive(principal: Principal, resource: Resource, body: unknown): void {
  if (principal.role === 'administrator' || typeof body !== 'object' || body === null) return
  const given = body as Readonly<Record<string, unknown>>
  const field = adminFields(resource, given).find((name) => given[name] !== principal.id)
  if (field === undefined) return
  throw new ControlError('ADMIN_REQUIRED', `only an administrator may set ${field} to somebody else`, { field })
}

/** Fails with `ADMIN_REQUIRED` when it is somebody else's API key. */
export function mayChange(principal: Principal, { kind, body }: ResourceRecord): void {
  if (principal.role === 'administrator' || kind !== apiKey.name || body.owner_id === principal.id) return
  throw new ControlError('ADMIN_REQUIRED', 'only an administrator may change the API key of somebody else')
}

/** Fails with `REF_NOT_FOUND` when an owner is no user; references show only those that are records of resources. */
export async function ownersMustExist(reader: StoreReader, resource: Resource, record: ResourceRecord): Promise<void> {
  for (const field of adminFields(resource, record.body)) {
    const id = String(record.body[field])
    if (!id.startsWith('usr_') || (await reader.get(USER, id)) !== undefined) continue
    throw new ControlError('REF_NOT_FOUND', `there is no user ${id}`, { field })
  }
}
