import { described, flag, text, texts } from '../schema/fields.js'
import { owner } from '../schema/references.js'
import { token } from '../schema/secrets.js'
import { defineResource } from './resource.js'

/** Identity for programs. */
export const botUser = defineResource({
  name: 'bot_user',
  description: 'An identity for programs. Its API keys and credentials work while it is active.',
  path: '/bot_users',
  listKey: 'bot_users',
  idPrefix: 'bot',
  events: 'bot_user',
  fields: {
    name: text({ description: 'For people.', bytes: 255, required: true, unique: 'bot_user_name' }),
    active: flag({ description: 'false: nothing that it owns opens anything.', default: true })
  }
})

/** Key for this API. */
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

/** Authtoken of an agent. */
export const credential = defineResource({
  name: 'credential',
  description: 'The authtoken with which an agent starts a tunnel session. Sessions end when it is deleted.',
  path: '/credentials',
  listKey: 'credentials',
  idPrefix: 'cr',
  events: 'tunnel_credential',
  fields: {
    ...described,
    token: token('credential_token'),
    acl: texts({
      description:
        'What may be bound: "bind:<domain | *.domain | host:port | key=value>", or "*" for everything; key and value may be "*". Empty: everything.',
      item: 'A rule.',
      form: 'acl_rule',
      max: 100
    }),
    owner_id: owner(botUser, 'The user or bot who owns it; only an administrator may name another.')
  }
})
