import { botUser } from './bot-user.js'
import { described } from './fields.js'
import { owner } from './principals.js'
import { defineResource } from './resource.js'
import { token } from './secrets.js'

/** A key that opens this API. */
export const apiKey = defineResource({
  name: 'api_key',
  description: 'A key that opens this API with the rights of its owner.',
  path: '/api_keys',
  listKey: 'keys',
  idPrefix: 'ak',
  events: 'api_key',
  fields: {
    ...described,
    token: token('api_key_token'),
    owner_id: owner(botUser, 'The user or bot who owns it; only an administrator may name another.')
  }
})
