import Type from 'typebox'
import { defineField, type Field } from '../schema/field.js'
import { described, flag, keptText, text, texts } from '../schema/fields.js'
import type { RuleView } from '../schema/objects.js'
import { owner } from '../schema/references.js'
import { token } from '../schema/secrets.js'
import { defineResource } from './resource.js'
import { readSshPublicKey } from './ssh-key.js'

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

/** The newer name of bot users: the same records, with the same ids. */
export const serviceUser = defineResource({
  ...botUser,
  name: 'service_user',
  description: 'The newer name of bot users: the same records at another path.',
  path: '/service_users',
  listKey: 'service_users'
})

const userReference = Type.Object({
  id: Type.String({ description: 'Its id.' }),
  uri: Type.String({ description: 'URL of a bot user; empty for others.' })
})

/** Returns the field of the user or bot who created a record; null where no caller did. */
export function creator(description: string): Field<string> {
  return {
    ...keptText(description),
    response: Type.Unsafe({ ...Type.Union([userReference, Type.Null()]), description }),
    onCreate: (_id, makers) => ({ stored: makers.principal }),
    present: (id, _path, _record, { baseUrl }) => {
      // Records of older versions lack it.
      if (!id) return null
      const isBot = id.startsWith(`${botUser.idPrefix}_`)
      return { id, uri: isBot ? `${baseUrl}${botUser.path}/${id}` : '' }
    }
  }
}

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

function acl() {
  return texts({
    description:
      'What may be bound: "bind:<domain | *.domain | host:port | key=value>", or "*" for everything; key and value may be "*". Empty: everything.',
    item: 'A rule.',
    form: 'acl_rule',
    max: 100
  })
}

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
    acl: acl(),
    owner_id: owner(botUser, 'The user or bot who owns it; only an administrator may name another.')
  }
})

/** Keeps the key as the request has it, and the form in which two lines with different comments are one key. */
function readKey({ body, given, report }: RuleView): void {
  if (!given.has('public_key')) return
  const key = readSshPublicKey(String(body.public_key))
  if (key === undefined) report('public_key', 'FIELD_INVALID', 'must be one line of an authorized_keys file')
  else Object.assign(body, { public_key: String(body.public_key).trim(), canonical_key: key.text })
}

/** SSH public key with the names that its holder may bind. */
export const sshCredential = defineResource({
  name: 'ssh_credential',
  description:
    'An SSH public key with the rules for what its holder may bind. Sluice has no SSH gateway: the key is kept and checked, and no tunnel of ssh -R opens with it; agents use credentials.',
  path: '/ssh_credentials',
  listKey: 'ssh_credentials',
  idPrefix: 'sshcr',
  events: 'ssh_public_key',
  rules: [{ on: ['public_key'], check: readKey }],
  fields: {
    ...described,
    public_key: text({
      description: 'The key, one line of an authorized_keys file; kept with its comment.',
      bytes: 16 * 1024,
      required: true,
      fixed: true
    }),
    canonical_key: defineField<string>({
      description: 'The key without its comment; not shown.',
      initial: '',
      settable: 'never',
      unique: { space: 'ssh_credential_key', within: [], givenAs: 'public_key' },
      read: () => undefined,
      present: (stored) => stored
    }),
    acl: acl(),
    owner_id: owner(botUser, 'The user or bot who owns it; only an administrator may name another.')
  }
})
