import { isObject } from '../lib/json.js'
import type { Resource } from '../resources/resource.js'
import { vaultSecret } from '../resources/vaults.js'
import type { StoreReader } from '../store/store.js'
import { ControlError } from './control-error.js'

/** A reference that a creation may give by the name of its target instead of by its id. */
export interface NamedReference {
  /** Fields of the request. */
  readonly name: string
  readonly id: string
  /** Where names of the target are unique. */
  readonly space: string
}

const NAMED: readonly (NamedReference & { readonly resource: Resource })[] = [
  { resource: vaultSecret, name: 'vault_name', id: 'vault_id', space: 'vault_name' }
]

/** Those of a resource. */
export function namedReferences({ name }: Resource): readonly NamedReference[] {
  return NAMED.filter(({ resource }) => resource.name === name)
}

/**
 * The body of a creation with names turned into ids; what is no object is left to whoever reads it. Fails with
 * `CONFLICTING_FIELDS`, `FIELD_INVALID` or `REF_NOT_FOUND`.
 */
export async function withIds(reader: StoreReader, resource: Resource, body: unknown): Promise<unknown> {
  if (!isObject(body)) return body
  let resolved = body
  for (const { name, id, space } of namedReferences(resource)) {
    const { [name]: given, ...rest } = resolved
    if (given === undefined || given === null) continue
    if (rest[id] !== undefined && rest[id] !== null) {
      throw new ControlError('CONFLICTING_FIELDS', `${name} and ${id} say the same; give one of them`, { field: name })
    }
    if (typeof given !== 'string') throw new ControlError('FIELD_INVALID', `${name} must be a text`, { field: name })
    const keeper = await reader.keeperOf(space, given)
    if (keeper === undefined) throw new ControlError('REF_NOT_FOUND', `${name} names nothing`, { field: name })
    resolved = { ...rest, [id]: keeper.id }
  }
  return resolved
}
