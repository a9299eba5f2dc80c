import Type from 'typebox'
import { defineField, type Field } from './field.js'
import { link, readId, refSchema, type Target } from './reference-ids.js'

/** The user or bot who wrote: a Ref whose `uri` is empty, since users have no URL. `each`: of every write, not of the first alone. */
export function writtenBy(description: string, each: boolean): Field<string> {
  return defineField<string>({
    description,
    initial: '',
    settable: 'never',
    response: refSchema,
    read: () => undefined,
    present: (stored) => ({ id: stored, uri: '' }),
    onCreate: (_id, { principal }) => ({ stored: principal }),
    ...(each ? { onUpdate: ({ principal }) => ({ stored: principal }) } : {})
  })
}

/** As `writtenBy`, shown as the id alone. */
export function writtenById(description: string, each: boolean): Field<string> {
  return { ...writtenBy(description, each), response: Type.String({ description }), present: (stored) => stored }
}

/** A user or bot who owns the record: who asks, unless an administrator names another. Goes with the bot. */
export function owner(bot: Target, description: string): Field<string> {
  const targets = [bot, { name: 'user', path: '', idPrefix: 'usr' }]
  return defineField<string>({
    description,
    initial: '',
    settable: 'create',
    adminOnly: true,
    request: Type.String({ description }),
    response: Type.String({ description }),
    read: (value, at, _path, reading) => readId(targets, value, at, reading),
    present: (stored) => stored,
    links: (stored, path) => link([bot], stored, path, 0, 'cascade'),
    onCreate: (_id, { principal }) => ({ stored: principal })
  })
}
