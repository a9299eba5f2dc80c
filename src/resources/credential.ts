import { botUser } from './bot-user.js'
import { described, texts } from './fields.js'
import { owner } from './principals.js'
import { defineResource } from './resource.js'
import { token } from './secrets.js'

/** An agent's authtoken. */
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
      form: 'acl_rule',
      max: 100
    }),
    owner_id: owner(botUser, 'The user or bot who owns it; only an administrator may name another.')
  }
})
