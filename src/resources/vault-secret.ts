import { described, text, updatedAt } from './fields.js'
import { writtenBy } from './principals.js'
import { ref } from './references.js'
import { defineResource } from './resource.js'
import { secret } from './secrets.js'
import { vault } from './vault.js'

const MAX_VALUE = 64 * 1024

/** A value that policies read by its name and no answer shows. */
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
    value: secret({ description: 'The value.', bytes: MAX_VALUE, required: true, shown: 'absent' }),
    created_by: writtenBy('The user or bot who made it.', false),
    last_updated_by: writtenBy('The user or bot who changed it last.', true),
    vault: ref(vault, { description: 'The vault that holds it.', required: true, fixed: true })
  }
})
