import { botUser } from './bot-user.js'
import { described, text, updatedAt } from './fields.js'
import { users, writtenById } from './principals.js'
import { defineResource } from './resource.js'

/** Where names of vaults are unique. */
export const VAULT_NAMES = 'vault_name'
/** In `usable_by`: all members. */
export const EVERY_MEMBER = 'members'

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
    name: text({ description: 'Name in expressions.', form: 'name', bytes: 255, required: true, unique: VAULT_NAMES }),
    ...described,
    usable_by: users(botUser, EVERY_MEMBER, {
      description:
        'Who beside administrators may write policies that read its secrets: ids of users and bots, or "members" for all of them. Who may use a secret can learn its value.',
      max: 100
    }),
    created_by: writtenById('Id of the user or bot who made it.', false),
    last_updated_by: writtenById('Id of the user or bot who changed it last.', true)
  }
})
