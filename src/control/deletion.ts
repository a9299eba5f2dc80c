import { linksOf } from '../resources/resource.js'
import type { ResourceRecord } from '../schema/field.js'
import type { RecordKey, StoreReader } from '../store/store.js'
import type { Catalogue } from './catalogue.js'
import { inUse } from './control-error.js'
import type { Records } from './records.js'

const textOf = ({ kind, id }: RecordKey) => `${kind} ${id}`

/**
 * What goes when `root` is deleted, the root first and whatever depends on a record after it. Fails with `IN_USE` when a
 * record that stays needs one that goes.
 */
export async function doomedWith(
  reader: StoreReader,
  { catalogue, records }: { readonly catalogue: Catalogue; readonly records: Records },
  root: ResourceRecord
): Promise<ResourceRecord[]> {
  const doomed = new Map([[textOf(root), root]])
  const needed = new Map<string, RecordKey>()
  // A Map also yields what is added to it meanwhile.
  for (const target of doomed.values()) {
    const users = (await reader.referencesTo(target.kind, target.id)).map(({ from }) => from)
    for (const stored of await reader.getMany(users)) {
      const resource = catalogue.find(stored.kind)
      if (resource === undefined || doomed.has(textOf(stored))) continue
      const { record } = records.openAny(stored)
      const links = linksOf(resource, record).filter(({ kind, id }) => kind === target.kind && id === target.id)
      if (links.some(({ onTargetDelete }) => onTargetDelete === 'cascade')) doomed.set(textOf(record), record)
      else if (links.some(({ onTargetDelete }) => onTargetDelete === 'refuse')) needed.set(textOf(stored), stored)
    }
  }
  const users = [...needed.keys()].filter((user) => !doomed.has(user)).sort()
  if (users.length > 0) throw inUse(root, users)
  return [...doomed.values()]
}
