import { described, text, updatedAt } from '../schema/fields.js'
import { ref, users, writtenBy, writtenById } from '../schema/references.js'
import { secret } from '../schema/secrets.js'
import { botUser } from './identities.js'
import { defineResource } from './resource.js'
import { planned, secretAt } from './units.js'

/** Space of unique vault names. */
const VAULT_NAMES = 'vault_name'
/** Value in `usable_by` for all members. */
const EVERY_MEMBER = 'members'

/** Returns true if a user or bot without administrator rights may use a vault. `usableBy`: the vault's value. */
export function isUsableBy(usableBy: readonly string[], id: string): boolean {
  return usableBy.includes(id) || usableBy.includes(EVERY_MEMBER)
}

/** Namespace of secrets. */
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
        'Who beside administrators may write policies that read its secrets, and change where these go: ids of users and bots, or "members" for all of them. Who may use a secret can learn its value.',
      max: 100
    }),
    created_by: writtenById('Id of the user or bot who made it.', false),
    last_updated_by: writtenById('Id of the user or bot who changed it last.', true)
  }
})

const MAX_VALUE = 64 * 1024

/** Value that policies read by name; never shown in responses. */
export const vaultSecret = defineResource({
  name: 'vault_secret',
  description: 'A value that policies read as secrets.get("<vault>", "<name>"). No answer shows it.',
  path: '/vault_secrets',
  listKey: 'secrets',
  idPrefix: 'secret',
  events: 'secret',
  fields: {
    updated_at: updatedAt(),
    name: text({
      description: 'Name in its vault.',
      form: 'name',
      bytes: 255,
      required: true,
      unique: 'vault_secret_name',
      within: ['vault']
    }),
    ...described,
    value: secret({
      description: 'The value.',
      form: 'secret_value',
      bytes: MAX_VALUE,
      required: true,
      shown: 'absent'
    }),
    created_by: writtenBy('The user or bot who made it.', false),
    last_updated_by: writtenBy('The user or bot who changed it last.', true),
    vault: ref(vault, { description: 'The vault that holds it.', required: true, fixed: true })
  }
})

/** Units of vaults, by which policies find secrets. */
export const vaults = planned(
  vault,
  (id) => [`vault:${id}`],
  ({ record: { id, body } }) => {
    // Records of older versions have none.
    const { name, usable_by: usableBy = [] } = body
    return [[`vault:${id}`, { kind: 'vault', id, name, ...(usableBy.length === 0 ? {} : { usableBy }) }]]
  }
)

/** Units of secrets; values are kept outside the plan. */
export const vaultSecrets = planned(
  vaultSecret,
  (id) => [`secret:${id}`],
  (one) => {
    const { id, body } = one.record
    const value = secretAt(one, 'value')
    return [[`secret:${id}`, { kind: 'secret', vault: body.vault as string, name: body.name, value }]]
  }
)
