import { described, text, updatedAt } from './fields.js'
import { writtenById } from './principals.js'
import { defineResource } from './resource.js'

/** Keeps secrets under their names. */
export const vault = defineResource({
  name: 'vault',
  description: 'Keeps secrets under their names. It can be deleted when it is empty.',
  path: '/vaults',
  listKey: 'vaults',
  idPrefix: 'vault',
  events: 'vault',
  fields: {
    updated_at: updatedAt(),
    name: text({ description: 'Name in expressions.', form: 'name', bytes: 255, required: true, unique: 'vault_name' }),
    ...described,
    created_by: writtenById('Id of the user or bot who made it.', false),
    last_updated_by: writtenById('Id of the user or bot who changed it last.', true)
  }
})
